"""The best constants of a law: a start that needs no guess, then Levenberg-Marquardt.

    r_i = ln Lhat_i - ln L_i        objective = sum_i w_i H(r_i)      (a sum, never a mean)
    H(r) = r^2 / 2 inside delta, delta (|r| - delta / 2) outside      Huber

Start: for (alpha, beta) on a 17 x 17 grid in [0.02, 1.5]^2 the law is linear in (E, A', B'): solved
by non-negative least squares with weights 1 / L^2 (variable projection); the three best local
minima of the grid go on.

Polish: Levenberg-Marquardt, all searches in one batch, with J the Jacobian of ln Lhat:

    g    = sum w clip(r, -delta, delta) J
    G    = sum w J J' over |r| <= delta             beyond delta the Huber loss is linear
    step = -(G + lambda diag(sum w min(1, delta / |r|) J J'))^-1 g

lambda x 0.2 when the objective falls and x 8 when it does not. The damping is scaled as in
iteratively reweighted squares, which holds where few residuals lie inside delta. A parameter that
pushes against a bound rests there. Every decision looks at relative changes, so scaling the
objective changes nothing.

delta by default 1.345 x 1.4826 x median |r| of the least-squares residuals (corrected for the
constants spent), at least 1e-6; 1e-3 is what Hoffmann et al. 2022 used.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sweeps.fits.points import Points
from sweeps.laws import Array, Chinchilla

GRID = np.linspace(0.02, 1.5, 17)
MIN_DELTA = 1e-6
HOFFMANN_DELTA = 1e-3
EXPONENT_BOUNDS = (0.005, 3.0)
LEAST_DAMPING = 1e-7
"""Keeps the step finite where fewer residuals than parameters lie inside delta."""
SMALLEST_TERM = 1e-5
"""A term below this share of the smallest loss, at the centre of the data, counts as zero."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """Limits of theta, each of shape (5,)."""

    lower: Array
    upper: Array

    def hit(self, theta: Array) -> NDArray[np.bool_]:
        """Which parameters lie on a limit; same shape as theta."""
        slack = 1e-6 * (self.upper - self.lower)
        return (theta <= self.lower + slack) | (theta >= self.upper - slack)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """What the searches found.

    Attributes:
        theta: Best parameters, shape (5,).
        objective: At theta.
        delta: Huber threshold used.
        objectives: Of every search, best first.
        bounds: Limits of the search.
    """

    theta: Array
    objective: float
    delta: float
    objectives: tuple[float, ...]
    bounds: Bounds


def huber(residuals: Array, delta: float) -> Array:
    """Huber loss of each residual; delta may be infinite."""
    size = np.abs(residuals)
    inner = np.minimum(size, delta)
    return inner * (size - inner / 2)


def search_bounds(points: Points) -> Bounds:
    """Limits of (E, ln A', ln B', alpha, beta): no term far above the largest loss."""
    low, high = np.log(points.loss.min()), np.log(points.loss.max())
    low += np.log(SMALLEST_TERM)
    least, most = EXPONENT_BOUNDS
    return Bounds(
        lower=np.array([0.0, low, low, least, least]),
        upper=np.array([points.loss.max(), high + 5, high + 5, most, most]),
    )


def optimize(law: Chinchilla, points: Points, *, delta: float | None = None) -> Optimum:
    """Best constants over all starts.

    Args:
        law: Centred on the points.
        points: At least one row.
        delta: Huber threshold on ln L; taken from the data if not given.
    """
    bounds = search_bounds(points)
    theta = grid_starts(law, points)
    weights = np.ones((len(theta), len(points)))
    if delta is None:
        theta, values = polish(law, theta, points, weights, np.inf, bounds)
        delta = robust_delta(law, theta[np.argmin(values)], points)
    theta, values = polish(law, theta, points, weights, delta, bounds)
    order = np.argsort(values, kind="stable")
    return Optimum(
        theta=theta[order[0]],
        objective=float(values[order[0]]),
        delta=delta,
        objectives=tuple(values[order].tolist()),
        bounds=bounds,
    )


def robust_delta(law: Chinchilla, theta: Array, points: Points) -> float:
    """1.345 robust standard deviations of the residuals at theta, at least `MIN_DELTA`."""
    residuals = law.log_loss(theta, points.N, points.D) - np.log(points.loss)
    spent = np.sqrt(len(points) / max(1, len(points) - len(theta)))
    return max(MIN_DELTA, float(1.345 * 1.4826 * spent * np.median(np.abs(residuals))))


def grid_starts(law: Chinchilla, points: Points, count: int = 3) -> Array:
    """Starts of shape (count, 5): local minima of the exponent grid, then its next best nodes."""
    x, y = np.log(points.N) - law.x0, np.log(points.D) - law.y0
    cost = np.empty((len(GRID), len(GRID)))
    scale = np.empty((len(GRID), len(GRID), 3))
    for i, alpha in enumerate(GRID):
        for j, beta in enumerate(GRID):
            terms = np.stack([np.ones_like(x), np.exp(-alpha * x), np.exp(-beta * y)], axis=1)
            scale[i, j], cost[i, j] = nnls(terms / points.loss[:, None], np.ones_like(x))
    ranked = np.argsort(cost, axis=None, kind="stable")
    minima = _local_minima(cost).ravel()
    chosen = sorted(ranked.tolist(), key=lambda node: not minima[node])[:count]
    nodes = np.array(np.unravel_index(chosen, cost.shape)).T
    terms = scale[nodes[:, 0], nodes[:, 1]]
    # A term that least squares switched off may still return.
    logs = np.log(np.maximum(terms[:, 1:], 1e-3 * points.loss.min()))
    return np.concatenate([terms[:, :1], logs, GRID[nodes]], axis=1)


def _local_minima(cost: Array) -> NDArray[np.bool_]:
    padded = np.pad(cost, 1, constant_values=np.inf)
    n, m = cost.shape
    steps = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    around = np.stack([padded[i : i + n, j : j + m] for i, j in steps])
    lowest: NDArray[np.bool_] = cost <= around.min(axis=0)
    return lowest


def polish(
    law: Chinchilla,
    start: Array,
    points: Points,
    weights: Array,
    delta: float,
    bounds: Bounds,
    *,
    tolerance: float = 1e-12,
    max_steps: int = 5000,
) -> tuple[Array, Array]:
    """Levenberg-Marquardt from every start at once.

    Args:
        law: Centred on the points.
        start: Shape (s, 5).
        points: n rows.
        weights: Shape (s, n), not negative.
        delta: Huber threshold; infinite for least squares.
        bounds: Limits of theta.
        tolerance: Relative decrease at which a search ends.
        max_steps: Trials allowed to a search.

    Returns:
        theta of shape (s, 5) and the objectives of shape (s,).
    """
    observed = np.log(points.loss)

    def evaluate(theta: Array, weight: Array) -> tuple[Array, Array]:
        residuals = law.log_loss(theta, points.N, points.D) - observed
        return residuals, (weight * huber(residuals, delta)).sum(axis=-1)

    theta = np.clip(start, bounds.lower, bounds.upper)
    residuals, value = evaluate(theta, weights)
    damping = np.full(len(theta), 1e-3)
    active = np.arange(len(theta))
    for _ in range(max_steps):
        here, weight = theta[active], weights[active]
        jacobian = law.jacobian(here, points.N, points.D)
        model = _quadratic(jacobian, residuals[active], weight, delta)
        step = _damped_step(*model, damping[active], here, bounds)
        trial = np.clip(here + step, bounds.lower, bounds.upper)
        trial_residuals, reached = evaluate(trial, weight)
        better = reached < value[active]
        small = better & (value[active] - reached <= tolerance * value[active])
        stuck = ~better & (damping[active] > 1e8)
        moved = active[better]
        theta[moved], value[moved] = trial[better], reached[better]
        residuals[moved] = trial_residuals[better]
        damping[active] = np.maximum(LEAST_DAMPING, damping[active] * np.where(better, 0.2, 8.0))
        active = active[~(small | stuck)]
        if not len(active):
            break
    return theta, value


def _quadratic(
    jacobian: Array, residuals: Array, weights: Array, delta: float
) -> tuple[Array, Array, Array]:
    """Gradient (s, 5), second derivatives (s, 5, 5) and the diagonal that damps them (s, 5)."""
    size = np.abs(residuals)
    pull = weights * np.clip(residuals, -delta, delta)
    inside = weights * (size <= delta)
    kept = np.where(size <= delta, weights, np.abs(pull) / np.where(size > 0, size, 1.0))
    gradient = np.einsum("snp,sn->sp", jacobian, pull)
    second = np.swapaxes(jacobian * inside[..., None], -1, -2) @ jacobian
    scale = np.einsum("snp,sn->sp", jacobian**2, kept)
    return gradient, second, scale


def _damped_step(
    gradient: Array, second: Array, scale: Array, damping: Array, theta: Array, bounds: Bounds
) -> Array:
    # A parameter that pushes against its limit is taken out, or the others would step for it too.
    held = ((theta <= bounds.lower) & (gradient > 0)) | ((theta >= bounds.upper) & (gradient < 0))
    free = ~held
    matrix = second * (free[..., None] & free[..., None, :])
    damped = damping[:, None] * np.maximum(scale, 1e-12 * scale.max(axis=-1, keepdims=True))
    diagonal = np.einsum("spp->sp", matrix)
    np.add(diagonal, np.where(held | (damped == 0), 1.0, damped), out=diagonal)
    step = np.linalg.solve(matrix, -(gradient * free)[..., None])[..., 0]
    return step.astype(np.float64, copy=False)
