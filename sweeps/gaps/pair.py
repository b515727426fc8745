"""Gaps: each quantized run against the BF16 run that differs from it in the recipe alone.

Partners are found by identity: the run_id of the spec with its recipe replaced by BF16, so seeds,
data, schedule, evaluation and numerics version agree. What has no partner is listed with the
reason, never guessed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from kernels.recipes import BF16_RECIPE
from sweeps.gaps.equivalence import MARGIN, check_margin
from sweeps.gaps.paired import Gap, Missing, Unpaired
from sweeps.gaps.summaries import GapSummary, summarise
from sweeps.intervals import LEVEL, check_level
from sweeps.measured import distinct, measured
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import RunSpec, Seeds

_ENDED = {
    Outcome.DIVERGED: Missing.DIVERGED,
    Outcome.FAILED: Missing.FAILED,
    Outcome.CANCELLED: Missing.CANCELLED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GapTable:
    """All gaps, all endpoints without one, and a summary of each recipe.

    Attributes:
        gaps: By recipe, N, tokens and seed.
        unpaired: In the same order.
        summaries: One for each quantized recipe, in the order of the records.
        level: Of the intervals and tests in them.
        margin: Nats per token within which they count a gap as none.
    """

    gaps: tuple[Gap, ...]
    unpaired: tuple[Unpaired, ...]
    summaries: tuple[GapSummary, ...]
    level: float = LEVEL
    margin: float = MARGIN


def pair(records: Iterable[RunRecord], *, level: float = LEVEL, margin: float = MARGIN) -> GapTable:
    """Pairs every quantized run with its BF16 partner at each horizon asked of it.

    Args:
        records: Runs in any state.
        level: Of intervals and tests.
        margin: Nats per token within which a gap counts as none.

    Raises:
        InputError: If two different recipes carry one name, or level or margin makes no sense.
    """
    check_level(level)
    check_margin(margin)
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
        summaries=tuple(
            summarise(recipe, gaps, unpaired, level=level, margin=margin) for recipe in recipes
        ),
        level=level,
        margin=margin,
    )


def baseline_id(spec: RunSpec) -> str:
    """run_id of the BF16 run that differs from this spec in the recipe alone."""
    return replace(spec, recipe=BF16_RECIPE).run_id


def cell_id(spec: RunSpec) -> str:
    """Identity of everything but recipe, seeds and tokens."""
    return baseline_id(replace(spec, seeds=Seeds()))


def absence(record: RunRecord, tokens: int) -> Missing | None:
    """Why the run has no measured loss at this token count; None if it has one."""
    if measured(record, tokens) is not None:
        return None
    if record.endpoint(tokens) is not None:
        return Missing.DIVERGED
    if _is_overshot(record, tokens):
        return Missing.OVERSHOT
    if record.outcome is Outcome.WAITING and tokens in record.horizons:
        return Missing.UNFINISHED
    return _ENDED.get(record.outcome, Missing.ENDPOINT_MISSING)


def _is_overshot(record: RunRecord, tokens: int) -> bool:
    """Whether a loss was measured past this horizon, at a count that no horizon asks for."""
    later = min((one for one in record.horizons if one > tokens), default=inf)
    return tokens in record.horizons and any(
        tokens < point.tokens < later for point in record.endpoints
    )


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
        cell=cell_id(spec),
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
