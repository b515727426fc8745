"""Gaps: each quantized run against the BF16 run that differs from it in the recipe alone.

    gap      = L(recipe) - L(bf16)        nats per token, equal N, D and every other field
    relative = 100 gap / L(bf16)          percent of the baseline's loss

A positive gap means that BF16 is better. Partners are found by identity: the run_id of the spec
with its recipe replaced by BF16, so seeds, data, schedule, evaluation and numerics version agree.
What has no partner is listed with the reason, never guessed.

Summary over cells (a cell is one (N, D) with all fields but the seeds): with k seeds in cell c,

    g_c = mean over seeds,   s^2 = sum_c sum_s (g_cs - g_c)^2 / sum_c (k_c - 1)   seed noise, pooled
    s.e.(g_c) = s / sqrt(k_c),   interval of a cell: t with sum_c (k_c - 1) degrees of freedom
    mean gap  = mean over cells of g_c,  interval: t over the cell means, n_cells - 1 degrees

The interval of the mean holds seed noise and how the gap differs from cell to cell. Cells that are
horizons of one run share its trunk; the interval counts them as separate observations.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt

import numpy as np

from kernels.recipes import BF16_RECIPE
from sweeps.intervals import interval_of_mean, pooled_noise, t_half_width
from sweeps.measured import distinct, measured
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import RunSpec, Seeds

NO_INTERVAL = {0: "no pair", 1: "one cell: an interval over cells needs at least 2"}
"""Why so few cells give no mean or no interval."""


class Missing(StrEnum):
    """Why an endpoint asked of a run has no gap."""

    UNFINISHED = "unfinished"
    DIVERGED = "diverged"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ENDPOINT_MISSING = "endpoint missing"
    NO_BASELINE = "no baseline"
    BASELINE_UNFINISHED = "baseline unfinished"
    BASELINE_DIVERGED = "baseline diverged"
    BASELINE_FAILED = "baseline failed"
    BASELINE_CANCELLED = "baseline cancelled"
    BASELINE_ENDPOINT_MISSING = "baseline endpoint missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One endpoint of a run against the same endpoint of its baseline.

    Attributes:
        label: What tables call the run.
        model: Name of the model shape.
        N: Non-embedding parameters.
        recipe: Name of the recipe.
        seed: The `init` seed stream, as in the label.
        tokens: D of both endpoints.
        flops: C of the run up to this endpoint.
        cell: Identity of everything but recipe, seeds and tokens.
        run_id: The run.
        baseline_id: Its BF16 partner.
        loss: Validation loss of the run, nats per token.
        baseline_loss: Of the partner, nats per token.
    """

    label: str
    model: str
    N: int
    recipe: str
    seed: int
    tokens: int
    flops: float
    cell: str
    run_id: str
    baseline_id: str
    loss: float
    baseline_loss: float

    @property
    def gap(self) -> float:
        """L(recipe) - L(bf16), nats per token."""
        return self.loss - self.baseline_loss

    @property
    def relative(self) -> float:
        """The gap in percent of the baseline's loss."""
        return 100 * self.gap / self.baseline_loss

    @property
    def bf16_wins(self) -> bool:
        """Whether BF16 has the strictly lower loss."""
        return self.gap > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaired:
    """An endpoint asked of a quantized run that has no gap, and why."""

    label: str
    model: str
    N: int
    recipe: str
    seed: int
    tokens: int
    run_id: str
    reason: Missing
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGap:
    """Mean gap of one cell over its seeds; s.e. and interval are None without repeated seeds."""

    model: str
    N: int
    tokens: int
    n_seeds: int
    mean: float
    se: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapSummary:
    """What the gaps of one recipe say together.

    Attributes:
        recipe: Its name.
        n_cells: Cells with at least one pair.
        n_pairs: Pairs in them.
        n_unpaired: Endpoints of the recipe without a pair.
        n_bf16_wins: Pairs in which BF16 has the strictly lower loss.
        mean: Mean gap over cells, nats per token; None without a pair.
        low: Lower end of the 95 % t interval over cells; None below 2 cells.
        high: Upper end of it.
        mean_relative: Mean over cells of the gap in percent of the baseline's loss.
        reason: Why there is no mean or no interval; else empty.
        seed_sd: Pooled s.d. of paired differences between seeds; None without repeats.
        seed_df: Its degrees of freedom.
        cells: The cells, by N and tokens.
    """

    recipe: str
    n_cells: int
    n_pairs: int
    n_unpaired: int
    n_bf16_wins: int
    mean: float | None
    low: float | None
    high: float | None
    mean_relative: float | None
    reason: str
    seed_sd: float | None
    seed_df: int
    cells: tuple[CellGap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapTable:
    """All gaps, all endpoints without one, and a summary of each recipe.

    Attributes:
        gaps: By recipe, N, tokens and seed.
        unpaired: In the same order.
        summaries: One for each quantized recipe, in the order of the records.
    """

    gaps: tuple[Gap, ...]
    unpaired: tuple[Unpaired, ...]
    summaries: tuple[GapSummary, ...]


def pair(records: Iterable[RunRecord]) -> GapTable:
    """Pairs every quantized run with its BF16 partner at each horizon asked of it.

    Raises:
        InputError: If two different recipes carry one name.
    """
    runs = distinct(records)
    baselines = _baselines(runs)
    quantized = [run for run in runs if not run.spec.recipe.is_bf16]
    gaps: list[Gap] = []
    unpaired: list[Unpaired] = []
    for run in sorted(quantized, key=_order):
        partner = baselines.get(baseline_id(run.spec))
        for tokens in sorted(set(run.horizons)):
            match _compare(run, partner, tokens):
                case Gap() as gap:
                    gaps.append(gap)
                case Unpaired() as lone:
                    unpaired.append(lone)
    recipes = dict.fromkeys(run.spec.recipe.name for run in quantized)
    return GapTable(
        gaps=tuple(sorted(gaps, key=lambda gap: (gap.recipe, gap.N, gap.tokens))),
        unpaired=tuple(sorted(unpaired, key=lambda lone: (lone.recipe, lone.N, lone.tokens))),
        summaries=tuple(_summary(recipe, gaps, unpaired) for recipe in recipes),
    )


def baseline_id(spec: RunSpec) -> str:
    """run_id of the BF16 run that differs from this spec in the recipe alone."""
    return replace(spec, recipe=BF16_RECIPE).run_id


def absence(record: RunRecord, tokens: int) -> Missing | None:
    """Why the run has no measured loss at this token count; None if it has one."""
    if measured(record, tokens) is not None:
        return None
    if record.endpoint(tokens) is not None:
        return Missing.DIVERGED
    match record.outcome:
        case Outcome.WAITING:
            return Missing.UNFINISHED if tokens in record.horizons else Missing.ENDPOINT_MISSING
        case Outcome.SUCCEEDED:
            return Missing.ENDPOINT_MISSING
        case Outcome.DIVERGED:
            return Missing.DIVERGED
        case Outcome.FAILED:
            return Missing.FAILED
        case Outcome.CANCELLED:
            return Missing.CANCELLED


def _order(run: RunRecord) -> tuple[str, int, str, int, str]:
    spec = run.spec
    return (spec.recipe.name, run.N, spec.model.name, spec.seeds.init, run.run_id)


def _baselines(runs: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """BF16 runs by identity; one whose rules exempt nothing further stands before its likes."""
    found: dict[str, RunRecord] = {}
    for run in runs:
        if run.spec.recipe.is_bf16:
            key = baseline_id(run.spec)
            if key not in found or run.run_id == key:
                found[key] = run
    return found


def _compare(run: RunRecord, partner: RunRecord | None, tokens: int) -> Gap | Unpaired:
    spec = run.spec
    point = measured(run, tokens)
    partner_point = measured(partner, tokens) if partner is not None else None
    if partner is None or point is None or partner_point is None:
        reason, detail = _why(run, partner, tokens)
        return Unpaired(
            label=spec.label,
            model=spec.model.name,
            N=run.N,
            recipe=spec.recipe.name,
            seed=spec.seeds.init,
            tokens=tokens,
            run_id=run.run_id,
            reason=reason,
            detail=detail,
        )
    return Gap(
        label=spec.label,
        model=spec.model.name,
        N=run.N,
        recipe=spec.recipe.name,
        seed=spec.seeds.init,
        tokens=tokens,
        flops=tokens * run.flops_per_token,
        cell=baseline_id(replace(spec, seeds=Seeds())),
        run_id=run.run_id,
        baseline_id=partner.run_id,
        loss=point.loss,
        baseline_loss=partner_point.loss,
    )


def _why(run: RunRecord, partner: RunRecord | None, tokens: int) -> tuple[Missing, str]:
    """The run's own reason before its partner's: the first is what the reader asks about."""
    if (own := absence(run, tokens)) is not None:
        return own, run.detail
    if partner is None:
        return Missing.NO_BASELINE, "no BF16 run agrees in every other field"
    return Missing(f"baseline {absence(partner, tokens)}"), partner.detail


def _summary(recipe: str, gaps: Sequence[Gap], unpaired: Sequence[Unpaired]) -> GapSummary:
    mine = [gap for gap in gaps if gap.recipe == recipe]
    groups: dict[tuple[int, int, str], list[Gap]] = defaultdict(list)
    for gap in mine:
        groups[gap.N, gap.tokens, gap.cell].append(gap)
    cells = [groups[key] for key in sorted(groups)]
    noise = pooled_noise([np.array([gap.gap for gap in cell]) for cell in cells])
    means = np.array([np.mean([gap.gap for gap in cell]) for cell in cells])
    relative = [np.mean([gap.relative for gap in cell]) for cell in cells]
    low, high = interval_of_mean(means) or (None, None)
    return GapSummary(
        recipe=recipe,
        n_cells=len(cells),
        n_pairs=len(mine),
        n_unpaired=sum(lone.recipe == recipe for lone in unpaired),
        n_bf16_wins=sum(gap.bf16_wins for gap in mine),
        mean=float(means.mean()) if cells else None,
        low=low,
        high=high,
        mean_relative=float(np.mean(relative)) if cells else None,
        reason=NO_INTERVAL.get(len(cells), ""),
        seed_sd=noise[0] if noise is not None else None,
        seed_df=noise[1] if noise is not None else 0,
        cells=tuple(_cell(cell, noise) for cell in cells),
    )


def _cell(cell: Sequence[Gap], noise: tuple[float, int] | None) -> CellGap:
    mean = float(np.mean([gap.gap for gap in cell]))
    se = noise[0] / sqrt(len(cell)) if noise is not None else None
    half = t_half_width(se, noise[1]) if noise is not None and se is not None else None
    return CellGap(
        model=cell[0].model,
        N=cell[0].N,
        tokens=cell[0].tokens,
        n_seeds=len(cell),
        mean=mean,
        se=se,
        low=mean - half if half is not None else None,
        high=mean + half if half is not None else None,
    )
