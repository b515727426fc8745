"""The best parameters of a target: Levenberg-Marquardt from every start, all searches in one batch.

With J the Jacobian of the residuals r, weights w and the Huber threshold delta:

    g    = sum w clip(r, -delta, delta) J
    G    = sum w J J' over |r| <= delta             beyond delta the Huber loss is linear
    step = -(G + lambda diag(sum w min(1, delta / |r|) J J'))^-1 g

lambda x 0.2 when the objective falls and x 8 when it does not. The damping is scaled as in
iteratively reweighted squares, which holds where few residuals lie inside delta. A parameter that
pushes against a bound rests there; one whose bounds are one value is held. Every decision looks at
relative changes, so scaling the objective changes nothing.

delta by default 1.345 x 1.4826 x median |r| of the least-squares residuals (corrected for the
parameters spent), at least 1e-6; 1e-3 is what Hoffmann et al. 2022 used on ln L.
"""

from dataclasses import dataclass

import numpy as np

from sweeps.fits.target import Target, huber
from sweeps.laws.law import Array, Bounds

MIN_DELTA = 1e-6
HOFFMANN_DELTA = 1e-3
LEAST_DAMPING = 1e-7
"""Keeps the step finite where fewer residuals than parameters lie inside delta."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """What the searches found.

    Attributes:
        theta: Best parameters, shape (p,).
        objective: At theta.
        delta: Huber threshold used.
        objectives: Of every search, best first.
    """

    theta: Array
    objective: float
    delta: float
    objectives: tuple[float, ...]


def optimize(target: Target, starts: Array, *, delta: float | None = None) -> Optimum:
    """Best parameters over all starts.

    Args:
        target: What is lowered.
        starts: Shape (s, p).
        delta: Huber threshold in the unit of the residuals; taken from the data if not given.
    """
    theta = starts
    weights = np.ones((len(theta), len(target.where)))
    if delta is None:
        theta, values = polish(target, theta, weights, np.inf)
        delta = robust_delta(target.residuals(theta[np.argmin(values)]), theta.shape[-1])
    theta, values = polish(target, theta, weights, delta)
    order = np.argsort(values, kind="stable")
    return Optimum(
        theta=theta[order[0]],
        objective=float(values[order[0]]),
        delta=delta,
        objectives=tuple(values[order].tolist()),
    )


def robust_delta(residuals: Array, spent: int) -> float:
    """1.345 robust standard deviations of n residuals after p parameters, at least `MIN_DELTA`."""
    count = len(residuals)
    scale = np.sqrt(count / max(1, count - spent))
    return max(MIN_DELTA, float(1.345 * 1.4826 * scale * np.median(np.abs(residuals))))


def polish(
    target: Target,
    start: Array,
    weights: Array,
    delta: float,
    *,
    tolerance: float = 1e-12,
    max_steps: int = 5000,
) -> tuple[Array, Array]:
    """Levenberg-Marquardt from every start at once.

    Args:
        target: What is lowered.
        start: Shape (s, p).
        weights: Shape (s, n), not negative.
        delta: Huber threshold; infinite for least squares.
        tolerance: Relative decrease at which a search ends.
        max_steps: Trials allowed to a search.

    Returns:
        theta of shape (s, p) and the objectives of shape (s,).
    """
    bounds = target.bounds

    def evaluate(theta: Array, weight: Array) -> tuple[Array, Array]:
        residuals = target.residuals(theta)
        return residuals, (weight * huber(residuals, delta)).sum(axis=-1)

    theta = np.clip(start, bounds.lower, bounds.upper)
    residuals, value = evaluate(theta, weights)
    damping = np.full(len(theta), 1e-3)
    active = np.arange(len(theta))
    for _ in range(max_steps):
        here, weight = theta[active], weights[active]
        jacobian = target.jacobian(here)
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
    """Gradient (s, p), second derivatives (s, p, p) and the diagonal that damps them (s, p)."""
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
    held |= bounds.held
    free = ~held
    matrix = second * (free[..., None] & free[..., None, :])
    damped = damping[:, None] * np.maximum(scale, 1e-12 * scale.max(axis=-1, keepdims=True))
    diagonal = np.einsum("spp->sp", matrix)
    np.add(diagonal, np.where(held | (damped == 0), 1.0, damped), out=diagonal)
    step = np.linalg.solve(matrix, -(gradient * free)[..., None])[..., 0]
    return step.astype(np.float64, copy=False)
