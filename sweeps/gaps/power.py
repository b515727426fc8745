"""Power: which gap repeats of a pair can tell from zero, and how many repeats a gap needs.

    s.e. = sd / sqrt(G n)       mean over G groups (models) of n pairs each, sd of one pair's gap
    df   = G (n - 1)
    power = P(|T| > c),   c = t_{1-a/2}(df),   T non-central t, non-centrality m = gap / s.e.
          = E_V [Phi(m - c sqrt(V / df)) + Phi(-m - c sqrt(V / df))],   V chi-squared with df

with a = 1 - level, two-sided. sd is taken as known here; measured from few repeats it is itself
uncertain. Gaps and sd share one unit, nats per token. The expectation is taken by Gauss-Legendre
quadrature over the quantiles of V, as `scipy.stats.nct` is not a number at many an ordinary m.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from math import isfinite, sqrt

import numpy as np
from scipy import optimize, special, stats

from sweeps.errors import InputError
from sweeps.intervals import LEVEL

POWER = 0.8
NODES = 200
MOST_PAIRS = 100_000
"""Pairs a group beyond which no number is given: no sweep will have them."""


def resolution(df: float, level: float = LEVEL, power: float = POWER) -> float:
    """The gap, in standard errors, that a two-sided t test of these degrees finds with this power.

    Raises:
        InputError: If df is below 1, or level or power is no probability.
    """
    if df < 1:
        raise InputError(f"df = {df}: a test needs at least 1 degree of freedom")
    _check(level, power)
    return _resolution(df, level, power)


def detectable(
    sd: float, pairs: int, level: float = LEVEL, power: float = POWER, *, groups: int = 1
) -> float | None:
    """Smallest gap that so many pairs tell from zero with this power; None below two pairs.

    Args:
        sd: Standard deviation of one pair's gap between seeds.
        pairs: Seeds of each group.
        level: Of the two-sided test.
        power: Probability to find the gap.
        groups: Models over which the gap is averaged.

    Raises:
        InputError: If sd is negative, or a count, level or power makes no sense.
    """
    _check_sd(sd)
    if pairs < 2:
        return None
    return resolution(groups * (pairs - 1), level, power) * sd / sqrt(groups * pairs)


def pairs_needed(
    sd: float, gap: float, level: float = LEVEL, power: float = POWER, *, groups: int = 1
) -> int | None:
    """Fewest pairs a group, at least two, that tell this gap from zero with this power.

    Args:
        sd: Standard deviation of one pair's gap between seeds.
        gap: To be found, of either sign.
        level: Of the two-sided test.
        power: Probability to find it.
        groups: Models over which the gap is averaged.

    Returns:
        None for a gap of zero, and where `MOST_PAIRS` are too few.

    Raises:
        InputError: If sd is negative, or a count, level or power makes no sense.
    """
    _check_sd(sd)
    _check(level, power)
    aim = abs(gap)

    def is_enough(pairs: int) -> bool:
        found = detectable(sd, pairs, level, power, groups=groups)
        return found is not None and found <= aim

    return _fewest(is_enough) if aim > 0 else None


def pairs_for_half_width(
    sd: float, half_width: float, level: float = LEVEL, *, groups: int = 1
) -> int | None:
    """Fewest pairs a group, at least two, whose t interval is at most this wide to each side.

    Args:
        sd: Standard deviation of one pair's gap between seeds.
        half_width: To be reached.
        level: Of the interval.
        groups: Models over which the gap is averaged.

    Returns:
        None for a half width of zero, and where `MOST_PAIRS` are too few.

    Raises:
        InputError: If sd is negative or level is no probability.
    """
    _check_sd(sd)
    _check(level, POWER)

    def is_enough(pairs: int) -> bool:
        edge = float(special.stdtrit(groups * (pairs - 1), (1 + level) / 2))
        return edge * sd / sqrt(groups * pairs) <= half_width

    return _fewest(is_enough) if half_width > 0 else None


@cache
def _resolution(df: float, level: float, power: float) -> float:
    edge = float(special.stdtrit(df, (1 + level) / 2))
    nodes, weights = special.roots_legendre(NODES)
    scaled = edge * np.sqrt(stats.chi2.ppf((nodes + 1) / 2, df) / df)

    def lacking(shift: float) -> float:
        found = special.ndtr(shift - scaled) + special.ndtr(-shift - scaled)
        return float(weights @ found) / 2 - power

    most = 1.0
    while lacking(most) < 0:
        most *= 2
    return float(optimize.brentq(lacking, 0.0, most))


def _fewest(is_enough: Callable[[int], bool]) -> int | None:
    """The least number from 2 that is enough, where every larger one is too."""
    if not is_enough(MOST_PAIRS):
        return None
    return bisect_left(range(MOST_PAIRS + 1), True, lo=2, key=is_enough)


def _check(level: float, power: float) -> None:
    for name, value in (("level", level), ("power", power)):
        if not 0 < value < 1:
            raise InputError(f"{name} = {value}: must lie between 0 and 1")
    if power <= 1 - level:
        raise InputError(
            f"power = {power}: a test at level {level} finds a gap of zero that often; ask for more"
        )


def _check_sd(sd: float) -> None:
    if not (sd >= 0 and isfinite(sd)):
        raise InputError(f"sd = {sd}: a standard deviation must be finite and not negative")
