"""Paired rows of a file: each arm against the baseline at equal N, D and, where named, equal seed.

    pair    rows of the arm and of the baseline with one N, D, group and seed; repeats are averaged
    alone   what the arm has and the baseline has not, or what a column takes out, with the reason
    points  the pairs as losses of two arms, and the baseline wherever else it was measured

N parameters, D tokens, losses in nats per token. Bootstrap clusters are the groups, else the cells
(N, D) with all their seeds. Where each group is of one arm, as a run is, runs that are partners at
any D are one group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, MultiIndex, Series, concat
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sweeps.errors import InputError
from sweeps.fits.evidence import Excluded
from sweeps.fits.points import Points, make_points
from sweeps.tables.run_columns import (
    REFERENCE,
    Columns,
    arm_names,
    excluded_rows,
    fitted_rows,
    is_reference,
    ordered,
)

CELL = ["N", "D"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Rows of an arm at one place that have no gap.

    Attributes:
        N: Parameters.
        D: Tokens.
        seed: As the file has it; empty where no column of seeds is named.
        reason: Why there is none.
    """

    N: float
    D: float
    seed: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedRows:
    """The rows of a file, ready to be compared.

    Attributes:
        label: What the file is called.
        baseline: The arm that the others are compared with.
        arms: The others, in the order of their first rows.
        rows: Columns N, D, loss, arm and, where they are named, group and seed.
        excluded: Rows that a column takes out, of any arm.
    """

    label: str
    baseline: str
    arms: tuple[str, ...]
    rows: DataFrame
    excluded: tuple[Excluded, ...]

    @property
    def by_seed(self) -> bool:
        """Whether a pair shares a seed."""
        return "seed" in self.rows

    @property
    def by_group(self) -> bool:
        """Whether rows are drawn by a group of their own rather than by cell."""
        return "group" in self.rows

    @property
    def place(self) -> list[str]:
        """Columns of what a bootstrap keeps together at one (N, D)."""
        return [*CELL, *(["group"] if self.by_group else [])]

    @property
    def key(self) -> list[str]:
        """Columns in which the rows of a pair agree."""
        return [*self.place, *(["seed"] if self.by_seed else [])]

    def of(self, arm: str) -> DataFrame:
        """The rows of one arm."""
        return self.rows[self.rows["arm"] == arm]

    def losses(self, arms: Sequence[str]) -> DataFrame:
        """Mean loss of each arm, a column each, at every key that all of them have."""
        means = [self.of(arm).groupby(self.key)["loss"].mean() for arm in arms]
        return concat(means, axis=1, join="inner", keys=list(arms)).sort_index()


def paired_rows(
    frame: DataFrame, columns: Columns, *, label: str, baseline: str | None
) -> PairedRows:
    """The rows of a file by arm.

    Args:
        frame: Of the file.
        columns: What its columns mean; arms are named.
        label: What the file is called.
        baseline: The arm to compare with; by default that named bf16.

    Raises:
        InputError: If there is no baseline or nothing beside it, or as in `fitted_rows`.
    """
    arms = arm_names(frame, columns, label)
    order = ordered(arms, baseline)
    if baseline is None and not is_reference(order[0]):
        raise InputError(
            f"baseline: no row is of an arm {REFERENCE}; name the arm to compare with, one of "
            f"{', '.join(order)}"
        )
    if len(order) < 2:
        raise InputError(f"arm-col = {columns.arm}: every row is of {order[0]}; a gap takes two")
    rows = fitted_rows(frame, columns, label)
    for name in ("group", "seed"):
        if name in rows and (rows[name] == "").any():
            row = rows.index[rows[name] == ""][0]
            raise InputError(f"{name}-col = {getattr(columns, name)}: row {row} is empty")
    if "group" in rows and (rows.groupby("group")["arm"].nunique() == 1).all():
        rows["group"] = _joined(rows)
    if not (rows["arm"] == order[0]).any():
        raise InputError(f"baseline = {order[0]}: every row of it is taken out by excluded-col")
    return PairedRows(
        label=label,
        baseline=order[0],
        arms=tuple(order[1:]),
        rows=rows,
        excluded=tuple(
            item for arm in order for item in excluded_rows(frame[arms == arm], columns, arm)
        ),
    )


def points_of(paired: PairedRows, arm: str) -> Points:
    """The pairs of one arm as points, the baseline first; it stays where the arm has no row."""
    found = paired.losses((paired.baseline, arm)).index
    own, base = paired.of(arm), paired.of(paired.baseline)
    mine = own[_index(own, paired.key).isin(found)]
    places = _index(mine, paired.place)
    kept = _index(base, paired.key).isin(found) | ~_index(base, paired.place).isin(places)
    rows = concat([base[kept], mine])
    return make_points(
        rows["N"].to_numpy(),
        rows["D"].to_numpy(),
        rows["loss"].to_numpy(),
        arms=tuple(rows["arm"]),
        reference=paired.baseline,
        groups=tuple(rows["group"]) if paired.by_group else None,
    )


def alone_of(paired: PairedRows, arm: str) -> tuple[Alone, ...]:
    """What one arm has without a pair, ascending in N and D."""
    return tuple(sorted(_alone(paired, arm), key=lambda one: (one.N, one.D, one.seed)))


def lacking(paired: PairedRows, arm: str) -> tuple[tuple[float, float], ...]:
    """The (N, D) of the baseline at which the arm has no row."""
    own, base = (_index(paired.of(one), CELL) for one in (arm, paired.baseline))
    return tuple(base.difference(own).tolist())


def _joined(rows: DataFrame) -> Series:
    """Groups that hold whole runs of all arms, from groups that are each a run of one arm.

    Runs and the places of their rows make a graph, whose components are the groups.
    """
    runs = rows["group"].factorize()[0]
    key = [*CELL, *(["seed"] if "seed" in rows else [])]
    places = rows.groupby(key).ngroup().to_numpy() + runs.max(initial=0) + 1
    size = int(places.max(initial=0)) + 1
    edges = coo_array((np.ones(len(rows)), (runs, places)), shape=(size, size))
    component = connected_components(edges, directed=False)[1]
    return Series([f"group {component[run]}" for run in runs], index=rows.index, dtype=object)


def _alone(paired: PairedRows, arm: str) -> Iterator[Alone]:
    own, base = paired.of(arm), paired.of(paired.baseline)
    lost = {
        (item.N, item.tokens): item.reason
        for item in paired.excluded
        if item.arm == paired.baseline
    }
    cells = set(_index(base, CELL))
    left = own[~_index(own, paired.key).isin(_index(base, paired.key))]
    for _, row in left.drop_duplicates(paired.key).iterrows():
        cell = (float(row["N"]), float(row["D"]))
        if cell in cells:
            reason = f"the baseline has no row of its {' and '.join(paired.key[2:])} there"
        else:
            reason = f"baseline {lost[cell]}" if cell in lost else "no baseline"
        yield Alone(N=cell[0], D=cell[1], seed=row["seed"] if paired.by_seed else "", reason=reason)
    for item in paired.excluded:
        if item.arm == arm:
            yield Alone(N=item.N, D=item.tokens, seed="", reason=f"{item.reason} ({item.label})")


def _index(rows: DataFrame, names: Sequence[str]) -> MultiIndex:
    return MultiIndex.from_frame(rows[list(names)])
