"""Intervals of a mean: over independent values, and over repeats inside groups that stay fixed.

    mean of n values       v +- t(n - 1) s / sqrt(n)
    noise of repeats       s^2 = sum_g sum_i (v_gi - v_g)^2 / df,  df = sum_g (k_g - 1)
    mean of group means    V = sum_g v_g / G,  s.e. = s sqrt(sum_g 1 / k_g) / G,  V +- t(df) s.e.

over G groups g of k_g repeats each. The bootstrap of V is studentised (Davison and Hinkley,
Bootstrap Methods and their Application, 1997, sections 2.4 and 6.2): residuals of all groups,
scaled by sqrt(k_g / (k_g - 1)), are drawn anew into the design, each draw gives t* = V* / s.e.*,
and the ends are V - q(t*) s.e. It needs no normal noise, but equal noise in all groups, as the
pooled s does. All intervals are two-sided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import special

from sweeps.errors import InputError
from sweeps.laws.law import Array

LEVEL = 0.95
MOST_LEVEL = 0.9999
DRAWS = 4999
LEAST_RESIDUALS = 6
"""Below so many repeats in all, drawn residuals have too few values for a 2.5 % tail."""

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean and how well repeats determine it.

    Attributes:
        value: The mean of the group means.
        se: Its standard error over the repeats; None without a repeat.
        df: Degrees of freedom of the noise.
        n: Values in all.
        n_groups: Groups.
        sd: Pooled standard deviation of one value; None without a repeat.
    """

    value: float
    se: float | None
    df: int
    n: int
    n_groups: int
    sd: float | None

    def interval(self, level: float = LEVEL) -> Ends | None:
        """Ends of the t interval over repeats; None without a repeat."""
        if self.se is None:
            return None
        half = t_half_width(self.se, self.df, level)
        return self.value - half, self.value + half


def t_half_width(se: float, degrees: float, level: float = LEVEL) -> float:
    """Half of the interval around a value with this standard error."""
    return float(special.stdtrit(degrees, (1 + level) / 2)) * se


def t_interval(values: Array, level: float = LEVEL) -> Ends | None:
    """Ends of the t interval of the mean of values, shape (n,); None below 2 values."""
    return mean_of_groups([values]).interval(level) if len(values) else None


def pooled_noise(groups: Sequence[Array]) -> tuple[float, int] | None:
    """Pooled standard deviation inside groups and its degrees; None without a repeat."""
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return (sqrt(squares / degrees), degrees) if degrees else None


def mean_of_groups(groups: Sequence[Array]) -> Mean:
    """Mean of the group means, whose error comes from the repeats inside the groups alone.

    Args:
        groups: At least one, each of shape (k_g,) with at least one value.
    """
    sd, degrees = pooled_noise(groups) or (None, 0)
    return Mean(
        value=float(np.mean([group.mean() for group in groups])),
        se=None if sd is None else sd * _spread(groups),
        df=degrees,
        n=sum(map(len, groups)),
        n_groups=len(groups),
        sd=sd,
    )


def bootstrap_interval(
    groups: Sequence[Array], level: float = LEVEL, *, seed: int = 0, draws: int = DRAWS
) -> Ends | None:
    """Ends of the studentised bootstrap interval of the mean of group means.

    Args:
        groups: At least one, each of shape (k_g,) with at least one value.
        level: Of the interval.
        seed: Of the draws.
        draws: How many.

    Returns:
        None with fewer than `LEAST_RESIDUALS` values in groups of two or more.
    """
    repeated = [group for group in groups if len(group) > 1]
    if sum(map(len, repeated)) < LEAST_RESIDUALS:
        return None
    mean = mean_of_groups(groups)
    residuals = np.concatenate(
        [(group - group.mean()) * sqrt(len(group) / (len(group) - 1)) for group in repeated]
    )
    if mean.se is None or not residuals.any():
        return mean.value, mean.value
    sizes = np.array([len(group) for group in groups])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    drawn = np.random.default_rng(seed).choice(residuals, size=(draws, mean.n))
    means = np.add.reduceat(drawn, starts, axis=1) / sizes
    squares = ((drawn - np.repeat(means, sizes, axis=1)) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = means.mean(axis=1) / (np.sqrt(squares / mean.df) * _spread(groups))
    pivots[np.isnan(pivots)] = 0.0  # a draw of zeros alone lies on the mean
    low, high = np.quantile(
        pivots, ((1 - level) / 2, (1 + level) / 2), method="closest_observation"
    )
    return mean.value - float(high) * mean.se, mean.value - float(low) * mean.se


def check_level(level: float) -> None:
    """Refuses a level that is none.

    Raises:
        InputError: If it does not lie between 0.5 and 1, or so near 1 that nothing resolves it.
    """
    if not 0.5 < level < 1:
        raise InputError(f"level = {level}: must lie between 0.5 and 1, as in 0.95")
    if level > MOST_LEVEL:
        raise InputError(f"level = {level}: no runs resolve a level above {MOST_LEVEL}")


def _spread(groups: Sequence[Array]) -> float:
    """Standard error of the mean of group means in units of the noise of one value."""
    return sqrt(sum(1 / len(group) for group in groups)) / len(groups)
