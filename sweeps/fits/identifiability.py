"""What a design can tell apart, asked before anything is fitted.

    distinct sizes < 2, distinct token counts < 2   one direction was never varied
    condition of {1, ln N, ln D} > 30               N and D moved together (one D/N)
                                                    -> the ladder law along that ratio, or no law
    fewer than 3 sizes or 3 token counts            E trades against A or B without a trace
    fewer than 2 cells for each constant            nothing is left to judge the fit by
    fewer than 5 clusters, or than constants        too few to draw intervals from
                                                    -> the local power law inside the data range
    else                                            -> the law asked for

With two token counts B / D^beta takes two values, of which one can be moved into E: five constants,
four of them determined. The condition number is that of the centred columns at unit length,
sqrt((1 + |rho|) / (1 - |rho|)) for a correlation rho; 30 is |rho| = 0.998.

Source: Hoffmann et al. 2022 fix no such rule; the limits are those at which simulated intervals
kept their coverage (see the slow tests of `fits`).
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sweeps.fits.points import Points
from sweeps.fits.widening import spent_by
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.frontier import Frontier
from sweeps.laws.joint import Joint
from sweeps.laws.ladder import Ladder
from sweeps.laws.law import Law
from sweeps.laws.local_power import LocalPower
from sweeps.wording import listed, plural

MAX_DESIGN_CONDITION = 30.0
MIN_LEVELS = 3
MIN_CLUSTERS = 5
MIN_CELLS_LOCAL = len(LocalPower.parameters) + 2
MIN_CELLS_LADDER = len(Ladder.parameters) + 2
OF_COMPUTE = (Frontier.name, Ladder.name)
"""Laws of C alone, which do not ask that N and D moved apart."""


class Support(StrEnum):
    """Which law a design can carry."""

    FULL = "full"
    LOCAL = "local"
    LADDER = "ladder"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Counts of a design and what follows from them for one law.

    Attributes:
        n_points: Rows.
        n_cells: Distinct (N, D).
        n_clusters: What intervals count as independent.
        n_sizes: Distinct N.
        n_tokens: Distinct D.
        n_ratios: Distinct D/N, told apart from 2 % on.
        condition: Of {ln N, ln D}, centred, columns at unit length; infinite if one is constant.
        support: Which law it can carry.
        reasons: Why not the law asked for; empty if it can.
    """

    n_points: int
    n_cells: int
    n_clusters: int
    n_sizes: int
    n_tokens: int
    n_ratios: int
    condition: float
    support: Support
    reasons: tuple[str, ...]


def examine(points: Points, law: Law | None = None) -> Design:
    """Counts the design and decides whether it can carry the law, or which in its place.

    Args:
        points: Places; the losses are not looked at.
        law: The law asked for; Chinchilla's if not given.
    """
    law = (
        (Chinchilla.about(points.where) if len(points) else Chinchilla(x0=0.0, y0=0.0))
        if law is None
        else law
    )
    n_sizes, n_tokens = len(np.unique(points.N)), len(np.unique(points.D))
    ratios = np.unique(np.round(np.log(points.D / points.N) / np.log(1.02)))
    condition = _condition(points)
    obstacles = _obstacles(points, law, condition)
    shortages = _shortages(points, law)
    support = Support.FULL
    if obstacles:
        support = Support.LADDER if _is_ladder(points, condition) else Support.NONE
    elif shortages and law.name in OF_COMPUTE:
        support = Support.LADDER if points.n_cells >= MIN_CELLS_LADDER else Support.NONE
    elif shortages:
        support = Support.LOCAL if points.n_cells >= MIN_CELLS_LOCAL else Support.NONE
    return Design(
        n_points=len(points),
        n_cells=points.n_cells,
        n_clusters=points.n_clusters,
        n_sizes=n_sizes,
        n_tokens=n_tokens,
        n_ratios=len(ratios),
        condition=condition,
        support=support,
        reasons=tuple(obstacles or shortages),
    )


def carries(points: Points, law: Law) -> bool:
    """Whether the points can determine the law at all, with or without an interval."""
    return not _obstacles(points, law, _condition(points)) and not _undetermined(points, law)


def units(points: Points) -> NDArray[np.intp]:
    """Which cells hang together through their runs: index of the unit of each cell, from 0.

    Two cells are of one unit if rows of one cluster lie in both, or in a chain of such cells: the
    budgets of one run, and with them those of the same model's other seeds.
    """
    cells, clusters = points.n_cells, points.n_clusters
    links = coo_array(
        (np.ones(len(points)), (points.cell, cells + points.cluster)),
        shape=(cells + clusters, cells + clusters),
    )
    _, labels = connected_components(links, directed=False)
    index: NDArray[np.intp] = np.unique(labels[:cells], return_inverse=True)[1]
    return index


def _condition(points: Points) -> float:
    if len(points) < 2:
        return float("inf")
    columns = np.stack([np.log(points.N), np.log(points.D)], axis=1)
    columns = columns - columns.mean(axis=0)
    lengths = np.linalg.norm(columns, axis=0)
    if lengths.min() < 1e-9:
        return float("inf")
    largest, smallest = np.linalg.svd(columns / lengths, compute_uv=False)
    return float(largest / smallest) if smallest > 0 else float("inf")


def _is_ladder(points: Points, condition: float) -> bool:
    moved_together = MAX_DESIGN_CONDITION < condition
    several = min(len(np.unique(points.N)), len(np.unique(points.D))) >= MIN_LEVELS
    return moved_together and several and points.n_cells >= MIN_CELLS_LADDER


def _obstacles(points: Points, law: Law, condition: float) -> list[str]:
    if not len(points):
        return ["no endpoint was measured"]
    if law.name in OF_COMPUTE:
        return []
    found = []
    if len(np.unique(points.N)) == 1:
        found.append("there is one model size, so the effect of N was not measured")
    if len(np.unique(points.D)) == 1:
        found.append("there is one token count, so the effect of D was not measured")
    if not found and condition > MAX_DESIGN_CONDITION:
        found.append(
            "N and D moved together (nearly one D/N), so their effects cannot be told apart"
        )
    return found


def _undetermined(points: Points, law: Law) -> list[str]:
    """What leaves constants of the law open, however small the noise."""
    found = []
    constants = len(law.parameters)
    if law.name not in OF_COMPUTE:
        n_sizes, n_tokens = len(np.unique(points.N)), len(np.unique(points.D))
        if n_sizes < MIN_LEVELS:
            needy = listed([name for name in ("E", "A", "alpha") if name in law.parameters])
            found.append(
                f"{plural(n_sizes, 'model size')} are fewer than the {MIN_LEVELS} that {needy} need"
            )
        if n_tokens < MIN_LEVELS:
            needy = listed([name for name in ("E", "B", "beta") if name in law.parameters])
            found.append(
                f"{plural(n_tokens, 'token count')} are fewer than the {MIN_LEVELS} that "
                f"{needy} need"
            )
    if len(points) <= constants or points.n_cells <= len(_of_base(law)):
        found.append(
            f"{plural(len(points), 'point')} in {plural(points.n_cells, 'cell')} cannot determine "
            f"the {constants} constants of the {law.name} law and their error"
        )
    for index, arm in enumerate(points.arms[1:], start=1):
        cells = len(np.unique(points.cell[points.arm == index]))
        own = sum(each.weights[index] != 0 for each in law.changes) if isinstance(law, Joint) else 0
        if cells <= own:
            found.append(f"{arm} has {plural(cells, 'cell')}, too few for its own {own} constants")
    return found


def _shortages(points: Points, law: Law) -> list[str]:
    found = _undetermined(points, law)
    needed = 2 * len(_of_base(law))
    if points.n_cells < needed:
        found.append(
            f"{plural(points.n_cells, 'cell')} are fewer than {needed}, two for each constant of "
            f"the {law.name} law"
        )
    least = max(MIN_CLUSTERS, spent_by(law, np.zeros(len(law.parameters), dtype=bool)))
    if points.n_clusters < least:
        what = "cell" if points.n_clusters == points.n_cells else "independent run"
        found.append(
            f"{plural(points.n_clusters, what)} are fewer than the {least} that intervals of the "
            "law are drawn from"
        )
    return found


def _of_base(law: Law) -> tuple[str, ...]:
    return law.base.parameters if isinstance(law, Joint) else law.parameters
