"""Two classical intervals: of a mean, and of repeats that share one noise.

    mean of n values      mean +- t(n - 1) s / sqrt(n)
    noise of repeats      s^2 = sum_c sum_i (v_ci - mean_c)^2 / sum_c (n_c - 1)    over groups c

All at `LEVEL`, two-sided.
"""

from collections.abc import Sequence
from math import sqrt

from scipy import stats

from sweeps.laws.law import Array

LEVEL = 0.95


def t_half_width(se: float, degrees: int) -> float:
    """Half of the interval around a value with this standard error."""
    return float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * se


def interval_of_mean(values: Array) -> tuple[float, float] | None:
    """Ends of the t interval of the mean of values, shape (n,); None below 2 values."""
    n = len(values)
    if n < 2:
        return None
    mean, half = float(values.mean()), t_half_width(float(values.std(ddof=1)) / sqrt(n), n - 1)
    return mean - half, mean + half


def pooled_noise(groups: Sequence[Array]) -> tuple[float, int] | None:
    """Pooled standard deviation inside groups and its degrees; None without a repeat."""
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return (sqrt(squares / degrees), degrees) if degrees else None
