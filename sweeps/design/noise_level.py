"""How noisy a run will be, as planning takes it: between seeds, and where a law is not the truth.

    var L             = s^2                            one run, over seeds
    var (L_r - L_b)   = 2 s^2 (1 - rho) = sd^2         a pair of one seed
    bend^2 distance^2                                  what a law misses at this ln-distance

`distance` is |(ln N - ln N*, ln D - ln D*)| from the place asked about. Two budgets of one run
share its trunk; `trunk` is the correlation of their noise. Without measured repeats:

    sd      0.00125 from 30M parameters on, the median s.d. between repeats in 46 groups of runs of
            the 124M class (modded-nanogpt), which is that of a pair at rho = 0.5;
            0.005 from 0.15M on, the middle of 0.002 to 0.008 found in pairs of 0.2M parameters
            0.011 below, found in pairs of 0.05M and 0.1M at 17 tokens per parameter
            of several models the root mean square, which is what a mean over them has
    bend    0.02 for losses, 0.003 for gaps: with these the misses of held-out sizes are as large as
            their standard deviation says, in the OLMo ladder, Gadre et al. and Quartet (a test)
    trunk   0.5, a guess
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt

from sweeps.errors import InputError
from sweeps.gaps.noise import Noise, noise
from sweeps.gaps.pair import GapTable

STATED = (
    (30e6, 0.00125, "the median of public repeats of 124M models"),
    (0.15e6, 0.005, "the middle of 0.002 to 0.008 seen at 0.2M parameters"),
    (0.0, 0.011, "as seen at 0.05M and 0.1M parameters"),
)
"""Parameters from which on, s.d. of a pair, and where it is from."""

DEFAULT_RHO = 0.5
MOST_RHO = 0.99
SD_LIMITS = (1e-6, 10.0)
"""Nats per token: below it losses differ by round-off alone, above it nothing was learnt."""

LEAST_DF = 4
"""Degrees of freedom below which a measured s.d. may be off by half, and the stated one stands."""

LOSS_BEND = 0.02
GAP_BEND = 0.003
TRUNK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseLevel:
    """Noise of runs and bend of laws, nats per token.

    Attributes:
        sd: Standard deviation between seeds of one pair's gap.
        source: Where it is from, for people.
        rho: Correlation of the two losses of a pair.
        loss_bend: What a law of losses misses for each unit of ln-distance.
        gap_bend: The same of a law of gaps.
        trunk: Correlation of the noise of two budgets of one run.
    """

    sd: float
    source: str
    rho: float = DEFAULT_RHO
    loss_bend: float = LOSS_BEND
    gap_bend: float = GAP_BEND
    trunk: float = TRUNK

    @property
    def run_sd(self) -> float:
        """Standard deviation between seeds of one run's loss."""
        return self.sd / sqrt(2 * (1 - self.rho))


def given(sd: float) -> NoiseLevel:
    """The noise that a user states.

    Raises:
        InputError: If it lies outside `SD_LIMITS`.
    """
    least, most = SD_LIMITS
    if not least <= sd <= most:
        raise InputError(f"sd = {sd:g}: must lie between {least:g} and {most:g} nats per token")
    return NoiseLevel(sd=sd, source="as given")


def stated(sizes: Iterable[float]) -> NoiseLevel:
    """The noise that was seen at such sizes, where nothing was measured.

    Args:
        sizes: Parameters of each model; at least one.
    """
    found = [next((sd, source) for least, sd, source in STATED if N >= least) for N in sizes]
    sources = {source for _, source in found}
    if len(sources) == 1:
        return NoiseLevel(sd=found[0][0], source=sources.pop())
    mean = sqrt(sum(sd**2 for sd, _ in found) / len(found))
    parts = [f"{sd:g}, {source}" for sd, source in sorted(set(found))]
    return NoiseLevel(sd=mean, source=f"root mean square over models of {'; '.join(parts)}")


def measured(table: GapTable, recipes: Iterable[str], sweep: str) -> NoiseLevel | None:
    """The noise between the seeds of a sweep, pooled over recipes; None with too few repeats.

    Args:
        table: Paired gaps of the sweep.
        recipes: Those that count.
        sweep: Its name, for people.
    """
    found = [
        one
        for recipe in dict.fromkeys(recipes)
        if (one := noise(gap for gap in table.gaps if gap.recipe == recipe)) is not None
    ]
    df = sum(one.df for one in found)
    if df < LEAST_DF:
        return None
    pooled = sqrt(sum(one.df * one.pair_sd**2 for one in found) / df)
    if pooled < SD_LIMITS[0]:
        return None
    clusters = sum(one.n_clusters for one in found)
    return NoiseLevel(
        sd=pooled,
        rho=_rho(found),
        source=f"measured on {clusters} pairs of {sweep}, {df} degrees of freedom",
    )


def _rho(found: list[Noise]) -> float:
    """Mean correlation; held off 1, where a pair would have no noise of its own."""
    known = [(one.df, one.rho) for one in found if one.rho is not None]
    if not known:
        return DEFAULT_RHO
    mean = sum(weight * rho for weight, rho in known) / sum(weight for weight, _ in known)
    return min(max(mean, 0.0), MOST_RHO)
