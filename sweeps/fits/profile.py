"""Profile intervals: how far one constant can move before the fit of all others gets clearly worse.

    c is inside  <=>  min over the rest of objective - least objective  <=  t(m - p)^2 V_c / (2 K_c)
    K = G^-1,  G = sum J J' over |r| <= delta            curvature of the objective
    V = K (m / (m - p) sum_g s_g s_g') K,  s_g = sum over cluster g of clip(r, -delta, delta) J

over m clusters and p constants that can move. For independent rows and least squares V_c / K_c is
the residual variance, and this the classical profile of Bates and Watts 1988, section 6.1; with
clusters the ratio scales it as Chandler and Bate 2007 do. Unlike a bootstrap it needs no resamples
of few clusters, and it follows the bend of the valley; it trusts the residuals near the optimum.
Only constants that the search moves as they are (E, alpha, beta) have one.
"""

from dataclasses import replace

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from sweeps.fits.compare import Searched
from sweeps.fits.points import Points
from sweeps.fits.result import Estimate
from sweeps.fits.search import polish
from sweeps.intervals import LEVEL
from sweeps.laws.law import Array, Bounds, Law

WIDEST = 12.0
"""How many standard errors of the quadratic model are searched for an end."""

TOLERANCE = 1e-3
"""Of an end, in standard errors."""


def profiles(found: Searched, points: Points) -> tuple[Estimate, ...]:
    """Profile intervals of the constants that are entries of theta; none without freedom."""
    target, theta = found.target, found.optimum.theta
    free = ~target.bounds.held
    degrees = points.n_clusters - int(free.sum())
    if degrees < 1 or found.optimum.objective == 0:
        return ()
    curvature, variance = _calibration(found, points)
    if curvature is None or variance is None:
        return ()
    reach = float(stats.t.ppf((1 + LEVEL) / 2, degrees))
    own = _own(found.law, theta)
    columns = np.flatnonzero(free).tolist()
    return tuple(
        _profile(found, place, name, reach**2 * ratio / 2, reach * np.sqrt(spread))
        for name, place in own.items()
        if place in columns
        for spread, ratio in [_of(place, columns, curvature, variance)]
    )


def _of(place: int, columns: list[int], curvature: Array, variance: Array) -> tuple[float, float]:
    at = columns.index(place)
    return float(variance[at]), float(variance[at] / curvature[at])


def _calibration(found: Searched, points: Points) -> tuple[Array | None, Array | None]:
    """Diagonals of K and of V over what can move; None where the curvature has no inverse."""
    target, optimum = found.target, found.optimum
    free = ~target.bounds.held
    residuals = target.residuals(optimum.theta)
    jacobian = target.jacobian(optimum.theta)[:, free]
    inside = np.abs(residuals) <= optimum.delta
    second = jacobian[inside].T @ jacobian[inside]
    lengths = np.sqrt(np.diag(second))
    if not lengths.all() or np.linalg.cond(second / np.outer(lengths, lengths)) > 1e12:
        return None, None
    inverse = np.linalg.inv(second)
    scores = np.zeros((points.n_clusters, jacobian.shape[1]))
    pull = np.clip(residuals, -optimum.delta, optimum.delta)
    np.add.at(scores, points.cluster, pull[:, None] * jacobian)
    clusters = points.n_clusters
    spread = clusters / (clusters - jacobian.shape[1]) * scores.T @ scores
    return np.diag(inverse), np.diag(inverse @ spread @ inverse)


def _own(law: Law, theta: Array) -> dict[str, int]:
    """Constants that are entries of theta, by the place of the entry."""
    moved = theta + 0.01 * np.arange(1, len(theta) + 1)
    pairs = [
        (name, place)
        for number, name in enumerate(law.parameters)
        for place in range(len(theta))
        if all(
            np.isclose(law.constants(at)[number], at[place], rtol=1e-12) for at in (theta, moved)
        )
    ]
    return dict(pairs)


def _profile(found: Searched, place: int, name: str, allowed: float, half: float) -> Estimate:
    theta, bounds = found.optimum.theta, found.target.bounds
    best = float(theta[place])

    def excess(value: float) -> float:
        held = np.arange(len(theta)) == place
        lower, upper = (np.where(held, value, side) for side in (bounds.lower, bounds.upper))
        target = replace(found.target, bounds=Bounds(lower=lower, upper=upper))
        start = np.where(held, value, theta)[None]
        weights = np.ones((1, len(target.where)))
        _, reached = polish(target, start, weights, found.optimum.delta, tolerance=1e-9)
        return float(reached[0]) - found.optimum.objective - allowed

    ends = []
    for side, limit in ((-1, bounds.lower[place]), (1, bounds.upper[place])):
        furthest = best + side * WIDEST * half
        furthest = float(max(furthest, limit) if side < 0 else min(furthest, limit))
        if furthest == best or excess(furthest) < 0:
            reason = "its profile stays within the allowed loss of fit to the end of the search"
            return Estimate(name=name, reason=reason)
        ends.append(float(brentq(excess, best, furthest, xtol=TOLERANCE * half, rtol=1e-9)))
    return Estimate(name=name, value=best, low=ends[0], high=ends[1], identified=True)
