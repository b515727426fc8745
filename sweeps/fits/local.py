"""The local power fit: what a design too small for five constants still says, inside its range.

    ln L = ln L0 - a (ln N - ln N0) - b (ln D - ln D0)

Ordinary least squares on cell means of ln L, so repeated seeds do not count as new cells. Intervals
are Student t with n_cells - 3 degrees of freedom, exact for normal errors; the draws behind the
bands are theta + s R^-1 z sqrt(df / chi2), i.e. multivariate t. Curvature that the form leaves out
lands in s and widens the intervals along an axis of three or more levels; along one of two levels
it cannot be seen, and the line between them is an assumption.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeps.fits.identifiability import Design
from sweeps.fits.points import Points
from sweeps.fits.result import Estimate, Fit, Method, Samples, Solution, Status
from sweeps.intervals import t_half_width
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, at, loss
from sweeps.laws.local_power import LocalPower


def fit_local(points: Points, design: Design, *, recipe: str, resamples: int, seed: int) -> Fit:
    """Fits the local power law; the design must have at least 5 cells and rank 3."""
    sizes, data, means = _cell_means(points)
    where = at(sizes, data)
    law = LocalPower.about(where)
    columns = law.jacobian(np.zeros(3), where)
    theta, _, _, singular = np.linalg.lstsq(columns, means, rcond=None)
    residuals = columns @ theta - means
    df = len(means) - len(theta)
    covariance = float(residuals @ residuals) / df * np.linalg.inv(columns.T @ columns)
    half = t_half_width(1.0, df) * np.sqrt(np.diag(covariance))
    ends = np.stack([theta, theta - half, theta + half])
    solution = Solution(
        law=law,
        theta=tuple(theta.tolist()),
        samples=Samples.of(_draws(theta, covariance, df, resamples, seed)),
        covariance=tuple(tuple(row) for row in covariance.tolist()),
        method=Method.STUDENT_T,
        delta=None,
        objective=float(residuals @ residuals) / 2,
        rms=float(np.sqrt(np.mean(residuals**2))),
        condition=float(singular[0] / singular[-1]),
    )
    return Fit(
        recipe=recipe,
        status=Status.INSIDE_ONLY,
        estimates=(*_refused(design), *_estimates(law, ends)),
        verdict=_verdict(law, design, ends),
        solution=solution,
        n_points=design.n_points,
        n_cells=design.n_cells,
        N_range=(float(sizes.min()), float(sizes.max())),
        D_range=(float(data.min()), float(data.max())),
        seed=seed,
        input_hash=points.digest,
    )


def _cell_means(points: Points) -> tuple[Array, Array, Array]:
    _, first, count = np.unique(points.cell, return_index=True, return_counts=True)
    sums = np.bincount(points.cell, weights=np.log(points.loss))
    return points.N[first], points.D[first], sums / count


def _draws(theta: NDArray[Any], covariance: NDArray[Any], df: int, count: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    normal = random.standard_normal((count, len(theta))) @ root.T
    widening = np.sqrt(df / random.chisquare(df, size=(count, 1)))
    draws: Array = theta + normal * widening
    return draws


def _refused(design: Design) -> tuple[Estimate, ...]:
    reason = "; ".join(design.reasons)
    return tuple(Estimate(name=name, reason=reason) for name in Chinchilla.parameters)


def _estimates(law: LocalPower, ends: Array) -> tuple[Estimate, ...]:
    values, lows, highs = law.constants(ends).tolist()
    return tuple(
        Estimate(name=name, value=value, low=low, high=high, identified=True)
        for name, value, low, high in zip(law.parameters, values, lows, highs, strict=True)
    )


def _verdict(law: LocalPower, design: Design, ends: Array) -> tuple[str, ...]:
    center, low, high = loss(law, ends * [1, 0, 0], at(np.exp(law.x0), np.exp(law.y0))).ravel()
    (_, a, b), (_, a_low, b_low), (_, a_high, b_high) = ends.tolist()
    return (
        f"E, A, B, alpha, beta are not identified: {'; '.join(design.reasons)}.",
        f"In their place {law.formula} about N0 = {np.exp(law.x0):.3g}, D0 = {np.exp(law.y0):.3g}: "
        f"L0 = {center:.4f} ({low:.4f} to {high:.4f}) nats per token, a = {a:.4f} "
        f"({a_low:.4f} to {a_high:.4f}), b = {b:.4f} ({b_low:.4f} to {b_high:.4f}), 95 % t "
        f"intervals from {design.n_cells} cells, counted as independent although the token counts "
        "of one model share a run.",
        "It predicts inside the data range alone; nothing is said beyond it.",
        *(
            f"With two {what} nothing checks the power law between them."
            for what, levels in (("sizes", design.n_sizes), ("token counts", design.n_tokens))
            if levels == 2
        ),
    )
