"""What a design can tell apart, asked before anything is fitted.

    distinct sizes < 2, distinct token counts < 2   one direction was never varied
    condition of {1, ln N, ln D} > 30               N and D moved together (one D/N)
                                                    -> no law
    fewer than 3 sizes or 3 token counts            E trades against A or B without a trace
    fewer than 2 cells for each constant            nothing is left to judge the fit by
                                                    -> the local power law inside the data range
    else                                            -> the Chinchilla law

With two token counts B / D^beta takes two values, of which one can be moved into E: five constants,
four of them determined. The condition number is that of the centred columns at unit length,
sqrt((1 + |rho|) / (1 - |rho|)) for a correlation rho; 30 is |rho| = 0.998.

Source: Hoffmann et al. 2022 fix no such rule; the limits are those at which simulated intervals
kept their coverage (see the slow tests of `bootstrap`).
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sweeps.fits.points import Points
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.local_power import LocalPower

MAX_DESIGN_CONDITION = 30.0
MIN_LEVELS = 3
MIN_CELLS_FULL = 2 * len(Chinchilla.parameters)
MIN_CELLS_LOCAL = len(LocalPower.parameters) + 2


class Support(StrEnum):
    """Which law a design can carry."""

    FULL = "full"
    LOCAL = "local"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Counts of a design and what follows from them.

    Attributes:
        n_points: Rows.
        n_cells: Distinct (N, D).
        n_sizes: Distinct N.
        n_tokens: Distinct D.
        n_ratios: Distinct D/N, told apart from 2 % on.
        condition: Of {ln N, ln D}, centred, columns at unit length; infinite if one is constant.
        support: Which law it can carry.
        reasons: Why not the Chinchilla law; empty if it can.
    """

    n_points: int
    n_cells: int
    n_sizes: int
    n_tokens: int
    n_ratios: int
    condition: float
    support: Support
    reasons: tuple[str, ...]


def examine(points: Points) -> Design:
    """Counts the design and decides which law it can carry."""
    n_sizes, n_tokens = len(np.unique(points.N)), len(np.unique(points.D))
    ratios = np.unique(np.round(np.log(points.D / points.N) / np.log(1.02)))
    condition = _condition(points)
    obstacles = _obstacles(points.n_cells, n_sizes, n_tokens, condition)
    shortages = _shortages(points.n_cells, n_sizes, n_tokens)
    support = Support.NONE if obstacles else Support.LOCAL if shortages else Support.FULL
    return Design(
        n_points=len(points),
        n_cells=points.n_cells,
        n_sizes=n_sizes,
        n_tokens=n_tokens,
        n_ratios=len(ratios),
        condition=condition,
        support=support,
        reasons=tuple(obstacles or shortages),
    )


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


def _obstacles(n_cells: int, n_sizes: int, n_tokens: int, condition: float) -> list[str]:
    if n_cells == 0:
        return ["no endpoint was measured"]
    found = []
    if n_sizes == 1:
        found.append("there is one model size, so the effect of N was not measured")
    if n_tokens == 1:
        found.append("there is one token count, so the effect of D was not measured")
    if not found and condition > MAX_DESIGN_CONDITION:
        found.append(
            "N and D moved together (nearly one D/N), so their effects cannot be told apart"
        )
    if not found and n_cells < MIN_CELLS_LOCAL:
        found.append(f"{n_cells} cells are fewer than the {MIN_CELLS_LOCAL} that any law needs")
    return found


def _shortages(n_cells: int, n_sizes: int, n_tokens: int) -> list[str]:
    found = []
    if n_sizes < MIN_LEVELS:
        found.append(f"{n_sizes} model sizes are fewer than the {MIN_LEVELS} that E, A, alpha need")
    if n_tokens < MIN_LEVELS:
        found.append(
            f"{n_tokens} token counts are fewer than the {MIN_LEVELS} that E, B, beta need"
        )
    if n_cells < MIN_CELLS_FULL:
        found.append(
            f"{n_cells} cells are fewer than {MIN_CELLS_FULL}, two for each of the five constants"
        )
    return found
