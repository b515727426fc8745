"""Bootstrap: refits of a model to clusters drawn with replacement, in batches.

A resample is a vector of weights: how often each cluster (by default an (N, D) cell with all its
seeds and arms) was drawn. Every refit starts at the optimum of the data and follows the same LM.
Fits of two recipes on the same cells with one seed see the same resamples, so their draws may be
combined row by row.

A resample is drawn again if its rows leave open what all rows determine. With u_i the rows of an
orthonormal basis of the columns of the Jacobian at the optimum,

    information kept = smallest eigenvalue of the sum of u_i u_i' over the rows drawn     0 to 1

It is 0, but for rounding, where a whole arm, the third size or the third token count is missing.

Batches have one size everywhere and one thread, which takes a fraction of a second for thousands of
refits: the draws do not depend on the machine's number of cores.

Percentiles of these draws are too narrow, since the residuals are smaller than the noise: what is
reported are the draws of `widening`, where the coverage stands too.
"""

import numpy as np
from numpy.typing import NDArray

from sweeps.fits.points import Points
from sweeps.fits.search import Optimum, polish
from sweeps.fits.target import Target
from sweeps.laws.law import Array

CAUTIOUS_CELLS = 15
"""Below this many clusters a fit says that its intervals rest on little."""

BATCH_ELEMENTS = 60_000
"""Residuals handled at once: the Jacobian of a batch then stays in a processor's cache."""

TOLERANCE = 1e-7
MAX_STEPS = 1000
"""Few resamples take more than 50; those that end on E = 0 or a flat valley take hundreds."""

REDRAWS = 20

LEAST_KEPT = 1e-6
"""Information that a resample keeps at least: far above rounding, far below any real resample."""

OPEN = 1e-9
"""Directions of theta that not even all rows determine, by singular values of the Jacobian."""


def bootstrap(
    target: Target, points: Points, optimum: Optimum, *, resamples: int, seed: int
) -> Array:
    """Refits to resampled clusters.

    Args:
        target: Of the points.
        points: What was fitted.
        optimum: The fit to all of it.
        resamples: Draws asked for.
        seed: Of the draws; the same seed gives the same rows.

    Returns:
        theta of shape (rows, p); rows is below `resamples` only if so few resamples determine the
        law that `REDRAWS` rounds did not fill the rest.
    """
    jacobian = target.jacobian(optimum.theta)[:, ~target.bounds.held]
    weights = draw_weights(points.cluster, jacobian, resamples=resamples, seed=seed)
    size = max(1, BATCH_ELEMENTS // len(points))

    parts = [
        polish(
            target,
            np.tile(optimum.theta, (len(part), 1)),
            part,
            optimum.delta,
            tolerance=TOLERANCE,
            max_steps=MAX_STEPS,
        )[0]
        for part in (weights[row : row + size] for row in range(0, len(weights), size))
    ]
    return np.concatenate(parts) if parts else np.empty((0, len(optimum.theta)))


def draw_weights(cluster: NDArray[np.intp], jacobian: Array, *, resamples: int, seed: int) -> Array:
    """How often each row was drawn; only resamples that determine what all rows determine.

    Args:
        cluster: Index of what is drawn whole, from 0, shape (n,).
        jacobian: Of the residuals at the optimum, by what is free to move, shape (n, p).
        resamples: Draws asked for.
        seed: Of the draws.

    Returns:
        Shape (rows, n); rows may be below `resamples`, as in `bootstrap`.
    """
    random = np.random.default_rng(seed)
    clusters = int(cluster.max(initial=-1)) + 1
    information = _information(cluster, clusters, jacobian)
    kept: list[Array] = []
    missing = resamples
    for _ in range(REDRAWS):
        counts = random.multinomial(clusters, np.full(clusters, 1 / clusters), size=missing)
        determined = _determined(counts, information)
        kept.append(counts[determined][:, cluster].astype(np.float64))
        missing -= len(kept[-1])
        if not missing:
            break
    return np.concatenate(kept)


def _information(cluster: NDArray[np.intp], clusters: int, jacobian: Array) -> Array:
    """Sum of u u' over the rows of each cluster, shape (clusters, r, r)."""
    lengths = np.linalg.norm(jacobian, axis=0)
    columns = jacobian / np.where(lengths > 0, lengths, 1.0)
    basis, singular, _ = np.linalg.svd(columns, full_matrices=False)
    basis = basis[:, singular > OPEN * singular[0]]
    found = np.zeros((clusters, basis.shape[1], basis.shape[1]))
    np.add.at(found, cluster, basis[:, :, None] * basis[:, None, :])
    return found


def _determined(counts: NDArray[np.intp], information: Array) -> NDArray[np.bool_]:
    present = (counts > 0).astype(np.float64)
    kept = np.tensordot(present, information, axes=1)
    enough: NDArray[np.bool_] = np.linalg.eigvalsh(kept)[:, 0] > LEAST_KEPT
    return enough
