"""Deciding: how many more seeds would settle an open claim, and of which runs.

If the contrast truly is what was estimated, with the noise that was measured, the fewest seeds a
model of which `sweeps.gaps.power` says that the interval ends before the boundary in 80 % of cases:

    distance to the boundary >= r(df) s.e.(n)       n seeds in each model of a part

A part that leans towards the statement must end inside, and where its region has two ends, before
each of them in 90 %; where one leans against it, that part alone must end outside, at the level of
the correction over parts. The estimate is itself uncertain, so that the number is a guide.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np

from sweeps.claims.contrasts import BF16, UNPLANNED, Board, next_seeds
from sweeps.claims.parts import LEAST_SEEDS, Part, standard_error
from sweeps.claims.section import ClaimSection
from sweeps.claims.statement import Statement
from sweeps.gaps.paired import Missing
from sweeps.gaps.power import POWER, resolution
from sweeps.runspec import Seeds

MOST_SEEDS = 1000
"""Beyond so many seeds a model no number is given: nobody will train them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The runs that would decide a claim.

    Attributes:
        models: At which they are to be trained.
        recipes: Under which, BF16 among them where the contrast needs it.
        n_seeds: Complete seeds that the weakest of these models has.
        n_needed: Seeds that each of them needs; None where more than `MOST_SEEDS` would be, or
            where the noise is not known yet.
        unfinished: Runs of the sweep still to end that belong to them.
        new_seeds: Seeds to add to the sweep, that no run of it has.
        runs: Runs to train, the unfinished ones included.
        flops: Of those runs up to the budgets of the claim, cooldown branches left out.
        detectable: What the seeds at hand would show in 80 % of cases: a distance from the boundary
            of so many nats per token; None where the noise is not known.
    """

    models: tuple[str, ...]
    recipes: tuple[str, ...]
    n_seeds: int
    n_needed: int | None
    unfinished: int
    new_seeds: tuple[Seeds, ...]
    runs: int
    flops: float
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aim:
    """One part that must be moved past a boundary.

    Attributes:
        part: It.
        distance: Of its estimate to the nearest boundary; None without an estimate.
        level: Of the interval that must end before the boundary.
        power: Chance that it does.
    """

    part: Part
    distance: float | None
    level: float
    power: float


def wanted(claim: ClaimSection, parts: Sequence[Part], board: Board) -> Wanted | None:
    """Runs that would decide an open claim; None where no more seeds could."""
    statement = claim.parsed()
    aims = _aims(statement, [part for part in parts if part.strata], len(parts), claim.level)
    if not aims or any(stratum.has_diverged for aim in aims for stratum in aim.part.strata):
        return None
    needed = [seeds_needed(aim) for aim in aims]
    strata = {stratum.model: stratum for aim in aims for stratum in aim.part.strata}
    number = None if None in needed else max(count for count in needed if count is not None)
    recipes = (*statement.recipes, *((BF16,) if statement.bf16_weight else ()))
    models = tuple(sorted(strata, key=lambda model: strata[model].N))
    have = min(len(stratum.seeds) for stratum in strata.values())
    waiting = {
        (one.model, one.recipe, one.seeds)
        for stratum in strata.values()
        for one in stratum.absent
        if one.reason not in (UNPLANNED, Missing.DIVERGED)
    }
    coming = min(
        len({*stratum.seeds, *(seeds for model, _, seeds in waiting if model == stratum.model)})
        for stratum in strata.values()
    )
    new = next_seeds(board, max(0, (number or 0) - coming))
    flops = {model: stratum.flops for model, stratum in strata.items()}
    return Wanted(
        models=models,
        recipes=recipes,
        n_seeds=have,
        n_needed=number,
        unfinished=len(waiting),
        new_seeds=new,
        runs=len(waiting) + len(new) * len(models) * len(recipes),
        flops=sum(flops[model] for model, _, _ in waiting)
        + len(new) * len(recipes) * sum(flops.values()),
        detectable=_detectable(aims),
    )


def seeds_needed(aim: _Aim) -> int | None:
    """Fewest seeds of each model of a part, at least those that any verdict takes.

    None where more than `MOST_SEEDS` would be needed. A part without an estimate needs the fewest.
    """
    if aim.distance is None:
        return LEAST_SEEDS

    def is_enough(seeds: int) -> bool:
        return _reach(aim, seeds) <= (aim.distance or 0.0)

    if aim.distance <= 0 or not is_enough(MOST_SEEDS):
        return None
    return bisect_left(range(MOST_SEEDS + 1), True, lo=LEAST_SEEDS, key=is_enough)


def _reach(aim: _Aim, seeds: int) -> float:
    """The distance that so many seeds of each model show."""
    variances = [float(np.var(stratum.values, ddof=1)) for stratum in aim.part.strata]
    se, df = standard_error(variances, [seeds] * len(variances))
    return resolution(max(1, int(df)), aim.level, aim.power) * se


def _detectable(aims: Sequence[_Aim]) -> float | None:
    if any(aim.distance is None for aim in aims):
        return None
    return max(_reach(aim, min(aim.part.n_seeds)) for aim in aims)


def _aims(
    statement: Statement, parts: Sequence[Part], n_parts: int, level: float
) -> tuple[_Aim, ...]:
    """Parts to strengthen: the one furthest against the statement, else all that do not pass."""
    against = [
        (part.estimate.p_against, index)
        for index, part in enumerate(parts)
        if part.estimate is not None and not part.estimate.is_inside
    ]
    if against:
        part = parts[min(against)[1]]
        corrected = 1 - (1 - level) / n_parts
        return (_aim(statement, part, corrected, is_inward=statement.is_outside),)
    return tuple(
        _aim(statement, part, level, is_inward=not statement.is_outside)
        for part in parts
        if part.estimate is None or 2 * part.estimate.p_for >= 1 - level
    )


def _aim(statement: Statement, part: Part, level: float, *, is_inward: bool) -> _Aim:
    """How far the estimate of a part is from where its interval must end.

    Args:
        statement: What is claimed.
        part: The part.
        level: Of the interval.
        is_inward: Whether the interval must lie in the region rather than beside it.
    """
    ends = [end for end in (statement.low, statement.high) if isfinite(end)]
    power = 1 - (1 - POWER) / (len(ends) if is_inward else 1)
    if part.estimate is None:
        return _Aim(part=part, distance=None, level=level, power=power)
    distance = min(abs(part.estimate.value - end) for end in ends)
    return _Aim(part=part, distance=distance, level=level, power=power)
