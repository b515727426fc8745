"""What a fit predicts at one (N, D), with three bands that answer three questions.

    mean     where the law's loss lies, were it of the true form; from the draws of the fit
    new run  where one more run ends: the draws times exp(noise), noise = s t with n - p degrees
    form     how far the best values of other forms, and of the form without its largest size, lie
             apart

Bands are 95 %, the third a range. s is the robust standard deviation of the residuals of ln L. No
interval of a law holds the error of its form; the third band is what can be said of it. Distances
are decades, log10, beyond the nearest end of the data. Source for the three: Czech et al. 2026
(arXiv 2603.22339) and the OLMo ladder, where the choice of form exceeds any bootstrap interval.
"""

from dataclasses import dataclass
from math import log10

import numpy as np

from sweeps.errors import InputError
from sweeps.fits.result import QUANTILES, Fit, Solution, Status
from sweeps.fits.target import Residual
from sweeps.laws.law import Array, At, at, loss
from sweeps.wording import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Loss at one (N, D) of an arm, nats per token; no number where the fit may not speak.

    Attributes:
        N: Parameters.
        D: Tokens.
        arm: Name of the arm.
        allowed: Whether the fit may say anything here.
        reason: Why not; else empty.
        decades_N: How far N lies beyond the data, 0 inside.
        decades_D: How far D lies beyond the data, 0 inside.
        loss: Best value.
        low: Lower end of the 95 % interval of the mean loss.
        high: Upper end.
        new_low: Lower end of the 95 % interval of the loss of one more run.
        new_high: Upper end.
        form_low: Least best value over the form and its alternatives.
        form_high: Greatest.
        n_forms: Of how many fits the form band is the range, this one among them.
    """

    N: float
    D: float
    arm: str
    allowed: bool
    reason: str
    decades_N: float
    decades_D: float
    loss: float | None = None
    low: float | None = None
    high: float | None = None
    new_low: float | None = None
    new_high: float | None = None
    form_low: float | None = None
    form_high: float | None = None
    n_forms: int = 0


def predict(fit: Fit, N: float, D: float, *, arm: str | None = None) -> Prediction:
    """Predicted loss with its bands.

    Args:
        fit: What was fitted.
        N: Parameters, in the counting of the points.
        D: Tokens.
        arm: Name of the arm; the reference if not given.

    Raises:
        InputError: If N or D is not positive and finite, or the fit has no such arm.
    """
    for key, value in (("N", N), ("D", D)):
        if not 0 < value < float("inf"):
            raise InputError(f"{key} = {value}: a prediction is at a positive finite number")
    index = arm_index(fit, arm)
    name = fit.arms[index]
    bare = Prediction(
        N=N,
        D=D,
        arm=name,
        allowed=fit.allows(N, D),
        reason=_reason(fit, N, D),
        decades_N=decades(N, fit.N_range),
        decades_D=decades(D, fit.D_range),
    )
    if fit.solution is None or not bare.allowed:
        return bare
    where = at(N, D, index)
    best = _at(fit.solution, np.array(fit.solution.theta), where)
    draws = _at(fit.solution, fit.solution.samples.array(), where)[:, 0]
    low, high = _band(draws, best[0])
    new_low, new_high = _band(_new_runs(fit, fit.solution, draws), best[0])
    forms = [best[0], *(loss(o.law, np.array(o.theta), where)[0] for o in fit.alternatives)]
    return Prediction(
        N=N,
        D=D,
        arm=name,
        allowed=True,
        reason="",
        decades_N=bare.decades_N,
        decades_D=bare.decades_D,
        loss=float(best[0]),
        low=low,
        high=high,
        new_low=min(low, new_low),
        new_high=max(high, new_high),
        form_low=float(min(forms)),
        form_high=float(max(forms)),
        n_forms=len(forms),
    )


def arm_index(fit: Fit, arm: str | None) -> int:
    """Index of the arm in the fit, 0 for None.

    Raises:
        InputError: If the fit has no such arm.
    """
    if arm is None:
        return 0
    if arm not in fit.arms:
        raise InputError(f"arm = {arm!r}: the fit holds {listed(list(map(repr, fit.arms)))}")
    return fit.arms.index(arm)


def _at(solution: Solution, theta: Array, where: At) -> Array:
    return loss(solution.law, theta, where)


def _new_runs(fit: Fit, solution: Solution, draws: Array) -> Array:
    """The draws with the noise of one run on each, in the unit that the fit took residuals in."""
    random = np.random.default_rng(fit.settings.seed)
    noise = solution.noise * random.standard_t(solution.degrees, len(draws))
    match fit.settings.residual:
        case Residual.LOG:
            return draws * np.exp(noise)
        case Residual.LINEAR:
            return draws + noise


def _band(draws: Array, best: float) -> tuple[float, float]:
    low, high = np.quantile(draws, QUANTILES)
    return min(float(low), float(best)), max(float(high), float(best))


def _reason(fit: Fit, N: float, D: float) -> str:
    if fit.allows(N, D):
        return ""
    match fit.status:
        case Status.NOT_IDENTIFIED:
            return fit.verdict[0]
        case _:
            return (
                f"N = {N:.3g}, D = {D:.3g} (D/N = {D / N:.3g}) lies outside the data, N "
                f"{_span(fit.N_range)}, D {_span(fit.D_range)}, D/N {_span(fit.ratio_range)}, and "
                "this fit predicts inside alone"
            )


def _span(ends: tuple[float, float] | None) -> str:
    return "none" if ends is None else f"{ends[0]:.3g} to {ends[1]:.3g}"


def decades(value: float, ends: tuple[float, float] | None) -> float:
    """How far a value lies beyond a range, log10; 0 inside it or without one."""
    if ends is None:
        return 0.0
    return max(0.0, log10(ends[0] / value), log10(value / ends[1]))
