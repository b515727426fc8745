"""Power before launch: which gaps and claims the seeds of a sweep will tell from nothing.

    one model        smallest gap = r(k - 1) sd / sqrt(k)               k seeds, one budget
    mean over G      smallest gap = r(G (k - 1)) sd / sqrt(G k)
    claim            sd of its contrast = sd sqrt((sum w^2 + (sum w)^2) / 2)
                     distance to its boundary = r(df) s.e., at the level of the claim

r(df) is the shift in standard errors that a two-sided t test finds with the power asked for
(`sweeps.gaps.power`). Two losses of one seed share their noise, so a contrast whose weights w sum
to zero loses BF16's part. A claim at each of G models must pass at all: each is given the power
P^(1/G). A margin with two ends must clear both. Budgets of one run share its trunk and add nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

from sweeps.claims.section import ClaimSection, Models
from sweeps.claims.statement import Statement
from sweeps.counts import non_embedding_parameters
from sweeps.design.noise_level import NoiseLevel
from sweeps.errors import InputError
from sweeps.gaps.power import POWER, detectable, pairs_needed
from sweeps.intervals import LEVEL
from sweeps.spec import SweepSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResolution:
    """What a claim needs to be decided.

    Attributes:
        name: Of the claim.
        statement: As written.
        models: At which it is said to hold.
        sd: Of its contrast between seeds of one model, nats per token.
        distance: From the boundary, nats per token, at which it is decided with the power asked
            for; None with one seed.
        level: Of its intervals.
    """

    name: str
    statement: str
    models: Models
    sd: float
    distance: float | None
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a sweep will resolve.

    Attributes:
        seeds: Of each model and recipe.
        models: Names, ascending in N.
        noise: Reckoned with.
        level: Of the two-sided test.
        power: Chance to find a gap of the size named.
        at_one: Smallest gap at one model and budget, nats per token; None with one seed.
        at_mean: Smallest gap of the mean over models; None with one seed.
        gap: To be found, where one was asked about.
        seeds_at_one: Seeds that this gap needs at one model; None where no number of them is known.
        seeds_at_mean: Seeds that it needs for the mean over models.
        claims: In the order of the sweep.
    """

    seeds: int
    models: tuple[str, ...]
    noise: NoiseLevel
    level: float
    power: float
    at_one: float | None
    at_mean: float | None
    gap: float | None
    seeds_at_one: int | None
    seeds_at_mean: int | None
    claims: tuple[ClaimResolution, ...]


def resolve(
    spec: SweepSpec,
    noise: NoiseLevel,
    *,
    gap: float | None = None,
    level: float = LEVEL,
    power: float = POWER,
) -> Resolution:
    """What the seeds of a sweep will tell apart.

    Args:
        spec: The sweep.
        noise: Of a pair between seeds.
        gap: One to be found, nats per token, of either sign.
        level: Of the two-sided test.
        power: Chance to find a gap.

    Raises:
        InputError: If level or power is no probability, or the gap is 0 or not finite.
    """
    if not 0 < level < 1:
        raise InputError(f"level = {level:g}: must lie between 0 and 1")
    if gap is not None and not (isfinite(gap) and gap):
        raise InputError(f"gap = {gap:g}: must be a number of nats other than 0")
    seeds, shapes = len(spec.all_seeds()), sorted(spec.shapes(), key=non_embedding_parameters)
    groups = len(shapes)
    needed = [
        None if gap is None else pairs_needed(noise.sd, gap, level, power, groups=count)
        for count in (1, groups)
    ]
    return Resolution(
        seeds=seeds,
        models=tuple(shape.name for shape in shapes),
        noise=noise,
        level=level,
        power=power,
        at_one=detectable(noise.sd, seeds, level, power),
        at_mean=detectable(noise.sd, seeds, level, power, groups=groups),
        gap=gap,
        seeds_at_one=needed[0],
        seeds_at_mean=needed[1],
        claims=tuple(_claim(claim, noise.sd, seeds, groups, power) for claim in spec.claims),
    )


def contrast_sd(statement: Statement, sd: float) -> float:
    """Standard deviation between seeds of a contrast of gaps, from that of one gap.

    Args:
        statement: With the weights of the gaps.
        sd: Of one pair's gap.
    """
    weights: Sequence[float] = [weight for _, weight in statement.weights]
    return sd * sqrt((sum(one**2 for one in weights) + sum(weights) ** 2) / 2)


def _claim(
    claim: ClaimSection, sd: float, seeds: int, groups: int, power: float
) -> ClaimResolution:
    statement = claim.parsed()
    spread = contrast_sd(statement, sd)
    parts = groups if claim.models is Models.EACH else 1
    ends = sum(map(isfinite, (statement.low, statement.high)))
    to_pass = 1 - (1 - power ** (1 / parts)) / ends
    averaged = groups if claim.models is Models.MEAN else 1
    return ClaimResolution(
        name=claim.name,
        statement=claim.statement,
        models=claim.models,
        sd=spread,
        distance=detectable(spread, seeds, claim.level, to_pass, groups=averaged),
        level=claim.level,
    )
