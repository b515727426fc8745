"""Effective data and size of a small gap: the gap over the slope of the BF16 law.

    ln eff_D = gap / (dL / d ln D),    ln eff_N = gap / (dL / d ln N)        both slopes negative
    s.e.^2   = (s.e.(gap) / slope)^2 + (gap s.e.(slope) / slope^2)^2         delta method

First order in the gap: for a gap that the slope carries over a factor of `FARTHEST` or more the
curve bends too much, and nothing is said.
"""

from dataclasses import dataclass

import numpy as np

from sweeps.fits.result import Solution
from sweeps.intervals import t_half_width
from sweeps.laws.law import Array, at, loss

FARTHEST = 1.5
"""Beyond this factor either way the tangent is no longer the law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """dL / d ln N or dL / d ln D at one place.

    Attributes:
        value: Nats per token and unit of the logarithm.
        se: Standard deviation over the draws of the law.
    """

    value: float
    se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatio:
    """Logarithm of a multiplier with its standard error and degrees of freedom."""

    value: float
    se: float | None
    df: int

    def ends(self) -> tuple[float, float] | None:
        """Ends of the multiplier's own 95 % t interval."""
        if self.se is None or self.df < 1:
            return None
        half = t_half_width(self.se, self.df)
        return float(np.exp(self.value - half)), float(np.exp(self.value + half))


def slopes(solution: Solution, N: float, D: float) -> tuple[Slope, Slope]:
    """Slopes of a fitted law in ln N and in ln D at one place."""
    where, law = at(N, D), solution.law
    best, draws = np.array(solution.theta), solution.samples.array()
    values = [_nats(law.slopes(theta, where), loss(law, theta, where)) for theta in (best, draws)]
    return tuple(
        Slope(value=float(one[0]), se=float(np.std(many)))
        for one, many in zip(*values, strict=True)
    )  # type: ignore[return-value]


def local_multiplier(gap: float, se: float | None, df: int, slope: Slope) -> LogRatio | str:
    """Logarithm of the multiplier that a gap amounts to, or why it is not identified.

    Args:
        gap: Nats per token.
        se: Its standard error; None where there is no repeat.
        df: Degrees of freedom of the standard error.
        slope: Of the BF16 law, negative.
    """
    if slope.value >= 0 or 2 * slope.se >= -slope.value:
        return "the slope of the BF16 law is not clearly below 0"
    value = gap / slope.value
    if abs(value) > np.log(FARTHEST):
        return f"the gap is too large for the slope: it spans more than a factor of {FARTHEST}"
    if se is None:
        return LogRatio(value=value, se=None, df=0)
    error = float(np.hypot(se / slope.value, gap * slope.se / slope.value**2))
    return LogRatio(value=value, se=error, df=df)


def _nats(relative: tuple[Array, Array], losses: Array) -> tuple[Array, Array]:
    by_N, by_D = relative
    return (by_N * losses)[..., 0].ravel(), (by_D * losses)[..., 0].ravel()
