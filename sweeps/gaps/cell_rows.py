"""One row for every cell of every recipe, whatever came of its seeds.

A cell is one model at one D under one setting of everything else; its seeds are averaged. Losses in
nats per token. What was planned and has no loss or no gap is counted by its reason.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sweeps.gaps.cell_gaps import CellGap
from sweeps.gaps.pair import GapTable, absence, cell_id
from sweeps.measured import measured
from sweeps.records import RunRecord


class _Place(NamedTuple):
    """Where a row stands, in the order of rows."""

    N: int
    model: str
    tokens: int
    cell: str
    is_quantized: bool
    recipe: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """One cell of one recipe.

    Attributes:
        model: Name of the model shape, and what sets the run apart.
        N: Non-embedding parameters.
        tokens: Planned D.
        recipe: Name of the recipe.
        is_bf16: Whether it is a baseline.
        n_planned: Endpoints asked for, one a seed.
        n_measured: Of them, how many have a loss.
        loss: Mean over those; None without one.
        gap: Over the seeds that have a pair; None for BF16 and without a pair.
        missing: Why the others have no loss, or no pair, each with how many.
    """

    model: str
    N: int
    tokens: int
    recipe: str
    is_bf16: bool
    n_planned: int
    n_measured: int
    loss: float | None
    gap: CellGap | None
    missing: tuple[tuple[str, int], ...]

    @property
    def note(self) -> str:
        """`diverged`, `2 diverged, 1 unfinished`, or nothing."""
        if len(self.missing) == 1 and self.missing[0][1] == self.n_planned:
            return self.missing[0][0]
        return ", ".join(f"{count} {reason}" for reason, count in self.missing)


def cell_rows(records: Sequence[RunRecord], table: GapTable) -> tuple[CellRow, ...]:
    """Rows by N, tokens and recipe, BF16 first, recipes in the order of the records.

    Args:
        records: Every run once.
        table: Their gaps.
    """
    gaps = {
        (cell.cell, cell.tokens, summary.recipe): cell
        for summary in table.summaries
        for cell in summary.cells
    }
    lone = {(one.run_id, one.tokens): one.reason.value for one in table.unpaired}
    order = list(dict.fromkeys(run.spec.recipe.name for run in records))
    groups: dict[_Place, list[RunRecord]] = {}
    for run in records:
        recipe, model = run.spec.recipe, run.spec.model.name
        for tokens in sorted(set(run.horizons)):
            place = _Place(
                run.N,
                model,
                tokens,
                cell_id(run.spec),
                not recipe.is_bf16,
                order.index(recipe.name),
            )
            groups.setdefault(place, []).append(run)
    found = []
    for place, runs in sorted(groups.items()):
        gap = gaps.get((place.cell, place.tokens, order[place.recipe]))
        found.append(_row(runs, place.tokens, gap, lone))
    return tuple(found)


def _row(
    runs: Sequence[RunRecord],
    tokens: int,
    gap: CellGap | None,
    lone: Mapping[tuple[str, int], str],
) -> CellRow:
    spec = runs[0].spec
    losses = [point.loss for run in runs if (point := measured(run, tokens)) is not None]
    reasons = Counter(
        lone.get((run.run_id, tokens)) or str(absence(run, tokens) or "") for run in runs
    )
    del reasons[""]
    return CellRow(
        model=f"{spec.model.name} {spec.apart}".strip(),
        N=runs[0].N,
        tokens=tokens,
        recipe=spec.recipe.name,
        is_bf16=spec.recipe.is_bf16,
        n_planned=len(runs),
        n_measured=len(losses),
        loss=float(np.mean(losses)) if losses else None,
        gap=gap,
        missing=tuple(sorted(reasons.items())),
    )
