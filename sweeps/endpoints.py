"""One row for every endpoint that a sweep asked for, whatever came of it.

The same rows stand in tables, CSV and JSON. Losses in nats per token, gap = loss - BF16 loss of the
paired run, relative in percent of the BF16 loss. A row without a loss or a gap says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.gaps.pair import GapTable, absence
from sweeps.gaps.paired import Gap, Unpaired
from sweeps.records import Outcome, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One planned endpoint.

    Attributes:
        model: Name of the model shape.
        N: Non-embedding parameters.
        recipe: Name of the recipe.
        seed: The `init` seed stream.
        tokens: Planned D.
        flops: C at this endpoint.
        outcome: What came of the run.
        loss: Validation loss; NaN or infinite as reported, None when not measured.
        loss_se: Its standard error over validation sequences.
        loss_bf16: The same weights through a BF16 forward pass.
        train_loss: Mean over the last 5 % of tokens.
        bytes_per_token: Of the validation text; None where it was not measured or is not known.
        gap: Against the paired BF16 run; None for BF16 itself and without a pair.
        relative: The gap in percent.
        reason: Why there is no loss or no gap; else empty.
        detail: What the run said about it.
        run_id: The run.
        baseline_id: Its BF16 partner when there is a gap.
    """

    model: str
    N: int
    recipe: str
    seed: int
    tokens: int
    flops: float
    outcome: Outcome
    loss: float | None
    loss_se: float | None
    loss_bf16: float | None
    train_loss: float | None
    bytes_per_token: float | None
    gap: float | None
    relative: float | None
    reason: str
    detail: str
    run_id: str
    baseline_id: str | None


def rows(records: Sequence[RunRecord], table: GapTable) -> tuple[Row, ...]:
    """Rows by N, tokens, recipe and seed, BF16 first."""
    gaps = {(gap.run_id, gap.tokens): gap for gap in table.gaps}
    lone = {(item.run_id, item.tokens): item for item in table.unpaired}
    ordered = sorted(records, key=lambda run: (run.N, run.spec.model.name))
    made = [
        _row(run, tokens, gaps.get((run.run_id, tokens)), lone.get((run.run_id, tokens)))
        for run in ordered
        for tokens in sorted(set(run.horizons))
    ]
    bf16 = {run.run_id for run in records if run.spec.recipe.is_bf16}
    return tuple(
        sorted(
            made,
            key=lambda row: (
                row.N, row.model, row.tokens, row.run_id not in bf16, row.recipe, row.seed
            ),
        )
    )  # fmt: skip


def _row(run: RunRecord, tokens: int, gap: Gap | None, lone: Unpaired | None) -> Row:
    point = run.endpoint(tokens)
    missing = lone.reason if lone is not None else absence(run, tokens)
    return Row(
        model=run.spec.model.name,
        N=run.N,
        recipe=run.spec.recipe.name,
        seed=run.spec.seeds.init,
        tokens=tokens,
        flops=tokens * run.flops_per_token,
        outcome=run.outcome,
        loss=point.loss if point is not None else None,
        loss_se=point.loss_se if point is not None else None,
        loss_bf16=point.loss_bf16 if point is not None else None,
        train_loss=point.train_loss if point is not None else None,
        bytes_per_token=point.bytes_per_token if point is not None else None,
        gap=gap.gap if gap is not None else None,
        relative=gap.relative if gap is not None else None,
        reason=missing.value if missing is not None else "",
        detail=lone.detail if lone is not None else run.detail if missing is not None else "",
        run_id=run.run_id,
        baseline_id=gap.baseline_id if gap is not None else None,
    )
