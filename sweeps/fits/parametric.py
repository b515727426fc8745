"""The fit of a law with constants: optimum, draws, what stands, and all that is told beside it.

Intervals are percentiles of the cluster bootstrap, widened for the constants fitted (`widening`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sweeps.fits.bootstrap import CAUTIOUS_CELLS, bootstrap
from sweeps.fits.compare import Compared, Searched, search
from sweeps.fits.constants import condition, estimates, refit, status_of
from sweeps.fits.forms import part
from sweeps.fits.identifiability import Design
from sweeps.fits.local import refused
from sweeps.fits.outliers import outliers, robust_noise
from sweeps.fits.points import Points
from sweeps.fits.profile import profiles
from sweeps.fits.result import Alternative, Fit, Method, Samples, Solution, Status
from sweeps.fits.settings import Settings
from sweeps.fits.verdict import bare_verdict, law_verdict
from sweeps.fits.widening import widened, widening
from sweeps.laws.law import Array

SAME_OBJECTIVE = 1e-6


def fit_law(
    bare: Fit, chosen: Compared, rivals: Sequence[Compared], points: Points, design: Design
) -> Fit:
    """The fit of a form to a design that can carry it.

    Args:
        bare: What is known of the points before.
        chosen: The form, its optimum and its criteria.
        rivals: The other forms that were tried.
        points: What was fitted.
        design: Of the points, for this form.
    """
    found, settings = chosen.searched, bare.settings
    draws = drawn(found, points, settings)
    constants = estimates(found, draws)
    solution = _solution(found, points, draws)
    far = outliers(points, found.target.residuals(found.optimum.theta), solution.noise)
    told = replace(
        bare,
        status=status_of(found.law, constants),
        estimates=constants,
        solution=solution,
        criteria=chosen.criteria,
        rivals=tuple(one.criteria for one in rivals),
        alternatives=_alternatives(chosen, rivals),
        outliers=far,
        without_outliers=(
            refit(_without(found, points, {one.row for one in far}, settings)) if far else ()
        ),
        profiles=profiles(found, points) if points.n_clusters < CAUTIOUS_CELLS else (),
    )
    return replace(told, verdict=law_verdict(told, design))


def drawn(found: Searched, points: Points, settings: Settings) -> Array:
    """Draws of theta behind the intervals, shape (rows, p)."""
    draws = bootstrap(
        found.target, points, found.optimum, resamples=settings.resamples, seed=settings.seed
    )
    factor = widening(points.n_clusters, found.spent, grouped=points.is_grouped)
    return widened(draws, found.optimum.theta, found.target.bounds, factor)


def fit_bare(bare: Fit, chosen: Compared, points: Points, design: Design) -> Fit:
    """The optimum of a form that was asked for by name where the design carries no interval."""
    found = chosen.searched
    told = replace(
        bare,
        status=Status.NOT_IDENTIFIED,
        estimates=refused(found.law, "; ".join(design.reasons)),
        solution=_solution(found, points, np.empty((0, len(found.optimum.theta)))),
        criteria=chosen.criteria,
    )
    values = found.law.constants(found.optimum.theta)
    return replace(told, verdict=bare_verdict(told, design, values))


def _solution(found: Searched, points: Points, draws: Array) -> Solution:
    target, optimum = found.target, found.optimum
    residuals, jacobian = target.residuals(optimum.theta), target.jacobian(optimum.theta)
    free = ~target.bounds.held
    hit = target.bounds.hit(optimum.theta)
    best, others = optimum.objectives[0], optimum.objectives[1:]
    apart = [value for value in others if value > best * (1 + SAME_OBJECTIVE)]
    covariance = np.atleast_2d(np.cov(draws, rowvar=False)) if len(draws) > 1 else np.empty((0, 0))
    return Solution(
        law=found.law,
        theta=tuple(optimum.theta.tolist()),
        samples=Samples.of(draws),
        covariance=tuple(tuple(row) for row in covariance.tolist()),
        method=Method.BOOTSTRAP if len(draws) else Method.NONE,
        delta=optimum.delta if np.isfinite(optimum.delta) else None,
        objective=optimum.objective,
        rms=float(np.sqrt(np.mean(residuals**2))),
        noise=robust_noise(residuals, found.n_free),
        degrees=max(1, points.n_clusters - found.spent),
        gradient=_gradient(jacobian[:, free & ~hit], residuals, optimum.delta),
        condition=condition(jacobian[:, free]),
        bounds_hit=tuple(name for name, on in zip(found.law.parameters, hit, strict=True) if on),
        starts=len(optimum.objectives),
        starts_agreeing=len(optimum.objectives) - len(apart),
        basin_ratio=apart[0] / best if apart and best > 0 else None,
    )


def _gradient(jacobian: Array, residuals: Array, delta: float) -> float:
    """Largest |sum clip(r) J| over sum |clip(r) J|, over the columns; 0 at an exact optimum."""
    pulls = np.clip(residuals, -delta, delta)[:, None] * jacobian
    whole = np.abs(pulls).sum(axis=0)
    return float((np.abs(pulls.sum(axis=0)) / np.where(whole > 0, whole, 1.0)).max(initial=0.0))


def _without(found: Searched, points: Points, rows: set[int], settings: Settings) -> Searched:
    kept = part(points, ~np.isin(points.row, list(rows)))
    return search(found.law, kept, settings, found.optimum.delta)


def _alternatives(chosen: Compared, rivals: Sequence[Compared]) -> tuple[Alternative, ...]:
    """The other forms, then the chosen one without the largest size."""
    named = [(f"the {one.criteria.law} law", one.searched) for one in rivals]
    if chosen.without_largest is not None:
        named.append(("without the largest size", chosen.without_largest))
    return tuple(
        Alternative(what=what, law=one.law, theta=tuple(one.optimum.theta.tolist()))
        for what, one in named
    )
