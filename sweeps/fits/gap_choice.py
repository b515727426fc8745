"""Which law of a gap to believe: each predicts the gaps of the largest size from the smaller ones.

    held out   root mean square of (predicted - measured) over the pairs of the largest N, nats
    choice     the fewest constants whose held-out error is within one standard error of the least
    AICc       n ln(RSS / n) + n + 2 k + 2 k (k + 1) / (n - k - 1),   k = constants + 1 (the noise)
    BIC        n ln(RSS / n) + n + k ln n

The law of BF16 that the multipliers need is fitted anew without the largest N, so that nothing of
that size is known to the form that predicts it. Neighbours in D are smooth, so leaving out rows
would flatter every form. With fewer than two sizes nothing can be held out; then AICc decides
among the forms with a gap, if the mean gap differs from 0 (t interval).

Source: the one-standard-error rule is that of Breiman et al. 1984, section 3.4.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.fits.differences import Differences
from sweeps.fits.gap_laws import Held, LeastSquares, fit_gap, least_squares
from sweeps.fits.gap_result import GapFit, GapForm
from sweeps.fits.identifiability import MIN_LEVELS
from sweeps.fits.points import Points, make_points
from sweeps.fits.search import optimize
from sweeps.fits.settings import Settings
from sweeps.fits.target import loss_target
from sweeps.intervals import t_half_width
from sweeps.laws.law import Array
from sweeps.laws.registry import LAWS

LEAST_SQUARED = 1e-30


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCriteria:
    """How one form does on the pairs of a format.

    Attributes:
        form: Which.
        n_constants: Of the form.
        n_pairs: Pairs fitted.
        rms: Root mean square of the residuals, nats per token; None where it was not fitted.
        aicc: Corrected Akaike criterion; None with too few pairs for the correction.
        bic: Bayesian criterion; None with the rms.
        held_out: Error on the pairs of the largest N; None where it cannot be held out.
        held_out_se: Its standard error over those pairs; None for one pair.
        reason: Why a number is missing; else empty.
    """

    form: GapForm
    n_constants: int
    n_pairs: int
    rms: float | None = None
    aicc: float | None = None
    bic: float | None = None
    held_out: float | None = None
    held_out_se: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLaws:
    """The laws of the gap of one format.

    Attributes:
        label: Name of the format.
        criteria: Of every form, those of fewer constants first.
        chosen: The form to believe.
        fit: It, with intervals.
        power: The power law in N and D, where the pairs determine it.
        how: How the form was chosen, for people.
    """

    label: str
    criteria: tuple[GapCriteria, ...]
    chosen: GapForm
    fit: GapFit
    power: GapFit | None
    how: str


CONSTANTS = {
    GapForm.NONE: 0,
    GapForm.CONSTANT: 1,
    GapForm.EFF_C: 1,
    GapForm.EFF_N: 1,
    GapForm.EFF_D: 1,
    GapForm.RATIO: 2,
    GapForm.EFF_BOTH: 2,
    GapForm.POWER: 3,
}


def gap_laws(
    pairs: Differences,
    reference: Points,
    law: str | None,
    settings: Settings,
    *,
    center: tuple[float, float] | None = None,
) -> GapLaws:
    """Fits every form, lets each predict the largest size, and chooses.

    Args:
        pairs: At least one.
        reference: The BF16 losses.
        law: Name of the law of BF16 in `sweeps.laws.registry`; None leaves out the multipliers.
        settings: Of the search for that law, and of the draws.
        center: N0 and D0 of the power laws; by default the geometric means.
    """
    whole = hold(reference, law, settings)
    smaller = hold(_below(reference, pairs.N.max()), law, settings)
    criteria = tuple(_criteria(pairs, form, whole, smaller) for form in GapForm)
    chosen, how = choose_form(criteria)
    fits = {
        form: fit_gap(
            pairs,
            form,
            base=whole,
            resamples=settings.resamples,
            seed=settings.seed,
            center=center,
        )
        for form in (chosen, GapForm.POWER)
    }
    best, power = fits[chosen], fits[GapForm.POWER]
    assert isinstance(best, GapFit)
    return GapLaws(
        label=pairs.label,
        criteria=criteria,
        chosen=chosen,
        fit=best,
        power=power if isinstance(power, GapFit) else None,
        how=how,
    )


def choose_form(criteria: Sequence[GapCriteria]) -> tuple[GapForm, str]:
    """The form to believe and how it was chosen.

    Args:
        criteria: Of every form; that of no gap is always fitted.
    """
    predicting = [item for item in criteria if item.held_out is not None]
    if not predicting:
        return _by_aicc(criteria)
    best = min(predicting, key=lambda item: (item.held_out, item.n_constants))
    limit = (best.held_out or 0.0) + (best.held_out_se or 0.0)
    near = [item for item in predicting if item.held_out is not None and item.held_out <= limit]
    chosen = min(near, key=lambda item: (item.n_constants, item.held_out))
    how = "least error on the largest size, which it was not fitted to"
    if chosen is not best:
        how = f"fewest constants within one standard error of the least held-out ({best.form})"
    return chosen.form, how


def hold(reference: Points, law: str | None, settings: Settings) -> Held | None:
    """The law of BF16 at its optimum; None where so few losses do not determine it."""
    if law is None:
        return None
    levels = min(len(np.unique(reference.N)), len(np.unique(reference.D)))
    if levels < MIN_LEVELS:
        return None
    form = LAWS[law](reference.where)
    if reference.n_cells < len(form.parameters):
        return None
    target = loss_target(form, reference, settings.residual)
    starts = form.starts(reference.where, reference.loss)
    return Held(law=form, theta=optimize(target, starts, delta=settings.delta).theta)


def _by_aicc(criteria: Sequence[GapCriteria]) -> tuple[GapForm, str]:
    by_form = {item.form: item for item in criteria}
    if by_form[GapForm.NONE].n_pairs == 1:
        return GapForm.NONE, "one pair carries no law"
    if not _differs_from_zero(by_form[GapForm.NONE], by_form[GapForm.CONSTANT]):
        return GapForm.NONE, "the mean gap does not differ from 0, and no size can be held out"
    scored = [
        (item.aicc, item.n_constants, item.form)
        for item in criteria
        if item.aicc is not None and item.form is not GapForm.NONE
    ]
    if not scored:
        return GapForm.CONSTANT, "so few pairs carry no more than a mean"
    return min(scored)[2], "least AICc, since no size can be held out"


def _differs_from_zero(none: GapCriteria, constant: GapCriteria) -> bool:
    """Whether the t interval of the mean gap leaves 0 out."""
    degrees = none.n_pairs - 1
    if none.rms is None or constant.rms is None:
        return False
    scatter = max(constant.rms**2, LEAST_SQUARED)
    t = np.sqrt(max(0.0, none.rms**2 - scatter) / scatter * degrees)
    return bool(t > t_half_width(1.0, degrees))


def _criteria(
    pairs: Differences, form: GapForm, whole: Held | None, smaller: Held | None
) -> GapCriteria:
    best = least_squares(pairs, form, base=whole)
    count = CONSTANTS[form]
    if isinstance(best, str):
        return GapCriteria(form=form, n_constants=count, n_pairs=len(pairs), reason=best)
    n, k = len(pairs), count + 1
    square = max(float(np.mean(best.residuals**2)), LEAST_SQUARED)
    likelihood = n * np.log(square) + n
    small = n - k - 1
    error, se, reason = _held_out(pairs, form, smaller)
    return GapCriteria(
        form=form,
        n_constants=count,
        n_pairs=n,
        rms=float(np.sqrt(np.mean(best.residuals**2))),
        aicc=float(likelihood + 2 * k + 2 * k * (k + 1) / small) if small > 0 else None,
        bic=float(likelihood + k * np.log(n)),
        held_out=error,
        held_out_se=se,
        reason=reason,
    )


def _held_out(
    pairs: Differences, form: GapForm, smaller: Held | None
) -> tuple[float | None, float | None, str]:
    inside = pairs.N < pairs.N.max()
    if not inside.any():
        return None, None, "there is one size, so none can be held out"
    fitted = least_squares(pairs.chosen(inside), form, base=smaller)
    if isinstance(fitted, str):
        return None, None, f"without the largest size {fitted}"
    errors = _errors(fitted, pairs.chosen(~inside))
    error = float(np.sqrt(np.mean(errors**2)))
    if len(errors) < 2 or error == 0:
        return error, None, ""
    return error, float(np.std(errors**2, ddof=1) / np.sqrt(len(errors)) / (2 * error)), ""


def _errors(fitted: LeastSquares, pairs: Differences) -> Array:
    if fitted.model is None:
        return -pairs.gap
    return fitted.model.predict(fitted.theta, pairs.where) - pairs.gap


def _below(points: Points, largest: float) -> Points:
    rows = points.N < largest
    return make_points(points.N[rows], points.D[rows], points.loss[rows])
