"""Effective data and size of a small gap: the gap over the slope of the BF16 law.

    ln eff_D = gap / (dL / d ln D),    ln eff_N = gap / (dL / d ln N)        both slopes negative
    half^2   = (t(df) s.e.(gap) / slope)^2 + (gap half(slope) / slope^2)^2   of the 95 % interval

Halves of 95 % intervals are added as squares, since a gap of few repeats and a local law of few
sizes have each their own degrees of freedom; half(slope) is read off quantiles: t draws of one
or two degrees have no standard deviation. First order in the gap: for a gap that the slope carries
over a factor of `FARTHEST` or more the curve bends too much, and nothing is said.

Source: Zou and Donner 2008 (Statistics in Medicine 27, 1693) for adding halves as squares.
"""

from dataclasses import dataclass

import numpy as np

from sweeps.fits.result import QUANTILES, Solution
from sweeps.intervals import t_half_width
from sweeps.laws.law import Array, at, loss

FARTHEST = 1.5
"""Beyond this factor either way the tangent is no longer the law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """dL / d ln N or dL / d ln D at one place.

    Attributes:
        value: Nats per token and unit of the logarithm.
        low: Lower end of the 95 % interval over the draws of the law.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def falls(self) -> bool:
        """Whether the loss clearly falls: slope and interval lie below 0."""
        return max(self.value, self.high) < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatio:
    """Logarithm of a multiplier with half its 95 % interval; None without a repeat."""

    value: float
    half: float | None

    @property
    def ends(self) -> tuple[float, float] | None:
        """Ends of the multiplier's own 95 % interval."""
        if self.half is None:
            return None
        return float(np.exp(self.value - self.half)), float(np.exp(self.value + self.half))


def slopes(solution: Solution, N: float, D: float) -> tuple[Slope, Slope]:
    """Slopes of a fitted law in ln N and in ln D at one place."""
    where, law = at(N, D), solution.law
    best, draws = np.array(solution.theta), solution.samples.array()
    values = [_nats(law.slopes(theta, where), loss(law, theta, where)) for theta in (best, draws)]
    return tuple(
        Slope(value=float(one[0]), low=float(low), high=float(high))
        for one, many in zip(*values, strict=True)
        for low, high in [np.quantile(many, QUANTILES)]
    )  # type: ignore[return-value]


def local_multiplier(gap: float, se: float | None, df: int, slope: Slope) -> LogRatio | str:
    """Logarithm of the multiplier that a gap amounts to, or why it is not identified.

    Args:
        gap: Nats per token.
        se: Its standard error; None where there is no repeat.
        df: Degrees of freedom of the standard error.
        slope: Of the BF16 law, negative.
    """
    if not slope.falls:
        return "the BF16 loss does not clearly fall along this axis"
    value = gap / slope.value
    if abs(value) > np.log(FARTHEST):
        return f"the gap is too large for the slope: it spans more than a factor of {FARTHEST}"
    if se is None or df < 1:
        return LogRatio(value=value, half=None)
    own = t_half_width(se, df) / slope.value
    half = float(np.hypot(own, gap * slope.half / slope.value**2))
    return LogRatio(value=value, half=half)


def _nats(relative: tuple[Array, Array], losses: Array) -> tuple[Array, Array]:
    by_N, by_D = relative
    return (by_N * losses)[..., 0].ravel(), (by_D * losses)[..., 0].ravel()
