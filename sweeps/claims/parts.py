"""Parts: the places at which a claim must hold, each with its estimate, interval and p values.

    x_m = mean over seeds of the contrast in model m,   v_m = s_m^2 / n_m
    estimate = mean over the M models of the part of x_m      M = 1 at a single model
    s.e.^2   = sum_m v_m / M^2
    df       = (sum_m v_m)^2 / sum_m v_m^2 / (n_m - 1)        Welch and Satterthwaite

Noise is that of each model, as it is larger in small ones; the interval, two-sided by Student's t,
is over seeds. With 3 or more seeds in every model it covers within 0.02 of its level in simulation;
where one model has 2 and is far noisier than the others, 95 % intervals cover 90 %. Models and
budgets are those of the sweep, not a sample.

Beside the interval stand one-sided p values: `p_for` of the hypothesis that the contrast lies
outside the region of the statement, `p_against` of the hypothesis that it lies inside. Twice the
one is below 1 - level exactly where the whole interval lies inside, twice the other where it lies
outside.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

from sweeps.claims.contrasts import Absent, Board, Stratum
from sweeps.claims.section import Budgets, ClaimSection, Models
from sweeps.claims.statement import Statement
from sweeps.intervals import t_half_width
from sweeps.laws.law import Array
from sweeps.wording import listed

LEAST_SEEDS = 2
"""Of each model: a single difference says nothing of its own noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the seeds of a part say.

    Attributes:
        value: The contrast, nats per token.
        se: Its standard error over seeds.
        df: Degrees of freedom, Satterthwaite's.
        low: Lower end of the interval at the level of the claim.
        high: Upper end of it.
        p_for: One-sided, of the hypothesis that the statement is false here.
        p_against: One-sided, of the hypothesis that it is true here.
        is_inside: Whether the estimate itself lies where the statement says.
    """

    value: float
    se: float
    df: float
    low: float
    high: float
    p_for: float
    p_against: float
    is_inside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One place at which a claim must hold.

    Attributes:
        strata: Its models, smallest first, with the contrast in every seed.
        estimate: None where it cannot be judged.
        reason: Why not; else empty.
    """

    strata: tuple[Stratum, ...]
    estimate: Estimate | None
    reason: str

    @property
    def models(self) -> tuple[str, ...]:
        """Names of its models."""
        return tuple(stratum.model for stratum in self.strata)

    @property
    def absent(self) -> tuple[Absent, ...]:
        """Endpoints that it lacks."""
        return tuple(one for stratum in self.strata for one in stratum.absent)

    @property
    def n_seeds(self) -> tuple[int, ...]:
        """Seeds that count, by model."""
        return tuple(len(stratum.values) for stratum in self.strata)


def parts_of(claim: ClaimSection, board: Board) -> Iterator[Part]:
    """The parts of a claim: one for each combination of `each`, else one."""
    statement = claim.parsed()
    models = board.models()[-1:] if claim.models is Models.LARGEST else board.models()
    together = [models] if claim.models is Models.MEAN and models else [(one,) for one in models]
    for group in together:
        budgets = [_budgets(claim.budgets, sorted(board.tokens[model])) for model in group]
        if len({len(of_model) for of_model in budgets}) > 1:
            yield Part(strata=(), estimate=None, reason="its models have unlike numbers of budgets")
            continue
        for tokens in zip(*budgets, strict=True):
            strata = tuple(
                board.stratum(statement, model, own)
                for model, own in zip(group, tokens, strict=True)
            )
            yield judged(strata, statement, claim.level)


def judged(strata: tuple[Stratum, ...], statement: Statement, level: float) -> Part:
    """A part with its estimate, or the reason why it has none."""
    reason = unjudged(strata)
    values = [np.array(stratum.values) for stratum in strata]
    estimate = None if reason else estimated(values, statement, level)
    return Part(strata=strata, estimate=estimate, reason=reason)


def unjudged(strata: Sequence[Stratum]) -> str:
    """Why strata cannot be judged; empty if they can."""
    lost = dict.fromkeys(stratum.model for stratum in strata if stratum.has_diverged)
    if lost:
        return f"a run of it diverged at {listed([*lost])}, and the other seeds are survivors"
    few = {stratum.model: len(stratum.values) for stratum in strata}
    few = {model: number for model, number in few.items() if number < LEAST_SEEDS}
    counts = [
        f"{number} at {listed([model for model, own in few.items() if own == number])}"
        for number in sorted(set(few.values()), reverse=True)
    ]
    if not few:
        return ""
    return f"needs {LEAST_SEEDS} complete seeds of each model at least and has {listed(counts)}"


def estimated(values: Sequence[Array], statement: Statement, level: float) -> Estimate:
    """Estimate of the mean of strata from the contrast in each of their repeats.

    Args:
        values: By stratum, nats per token; at least `LEAST_SEEDS` each.
        statement: Where they should lie.
        level: Of the interval.
    """
    value = float(np.mean([own.mean() for own in values]))
    se, df = standard_error(
        [float(own.var(ddof=1)) for own in values], [len(own) for own in values]
    )
    half = t_half_width(se, df, level)
    below_high, above_low = (
        _tail(statement.high - value, se, df),
        _tail(value - statement.low, se, df),
    )
    inside = max(below_high, above_low)
    outside = min(_tail(value - statement.high, se, df), _tail(statement.low - value, se, df))
    is_within = statement.low < value < statement.high
    return Estimate(
        value=value,
        se=se,
        df=df,
        low=value - half,
        high=value + half,
        p_for=outside if statement.is_outside else inside,
        p_against=inside if statement.is_outside else outside,
        is_inside=is_within is not statement.is_outside,
    )


def standard_error(variances: Sequence[float], seeds: Sequence[int]) -> tuple[float, float]:
    """Standard error of a mean of means and its degrees of freedom.

    Args:
        variances: Of one seed, by model.
        seeds: How many each model has, at least 2.
    """
    terms = [variance / n for variance, n in zip(variances, seeds, strict=True)]
    total = sum(terms)
    if total == 0:
        return 0.0, float(sum(n - 1 for n in seeds))
    degrees = total**2 / sum(term**2 / (n - 1) for term, n in zip(terms, seeds, strict=True))
    return sqrt(total) / len(terms), degrees


def _tail(distance: float, se: float, df: float) -> float:
    """P(T > distance / s.e.): of a boundary that lies so far beyond the estimate."""
    if se == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stats.t.sf(distance / se, df))


def _budgets(which: Budgets, tokens: Sequence[int]) -> list[tuple[int, ...]]:
    match which:
        case Budgets.EACH:
            return [(one,) for one in tokens]
        case Budgets.MEAN:
            return [tuple(tokens)] if tokens else []
        case Budgets.LONGEST:
            return [(tokens[-1],)] if tokens else []
