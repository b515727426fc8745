"""Starts that need no guess: variable projection over a grid of exponents.

For fixed (alpha, beta) the law E + A' exp(-alpha x) + B' exp(-beta y) is linear in (E, A', B'):
solved by non-negative least squares with weights 1 / L^2 for (alpha, beta) on a 17 x 17 grid in
[0.02, 1.5]^2. The best local minima of the grid go on. Deterministic, no seed.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sweeps.laws.law import Array

GRID = np.linspace(0.02, 1.5, 17)


def projected_starts(
    x: Array, y: Array, loss: Array, count: int = 3, *, is_tied: bool = False
) -> Array:
    """Starts (E, ln A', ln B', alpha, beta), shape (count, 5).

    Local minima of the grid come first, then its next best nodes.

    Args:
        x: ln N about the centre, shape (n,).
        y: ln D about the centre, shape (n,).
        loss: Nats per token, shape (n,).
        count: Starts wanted.
        is_tied: Whether only nodes with alpha = beta are taken.
    """
    cost = np.full((len(GRID), len(GRID)), np.inf)
    scale = np.zeros((len(GRID), len(GRID), 3))
    for i, alpha in enumerate(GRID):
        for j, beta in enumerate(GRID):
            if is_tied and i != j:
                continue
            terms = np.stack([np.ones_like(x), np.exp(-alpha * x), np.exp(-beta * y)], axis=1)
            scale[i, j], cost[i, j] = nnls(terms / loss[:, None], np.ones_like(x))
    ranked = np.argsort(cost, axis=None, kind="stable")
    minima = _local_minima(cost).ravel()
    chosen = sorted(ranked.tolist(), key=lambda node: not minima[node])[:count]
    nodes = np.array(np.unravel_index(chosen, cost.shape)).T
    terms = scale[nodes[:, 0], nodes[:, 1]]
    # A term that least squares switched off may still return.
    logs = np.log(np.maximum(terms[:, 1:], 1e-3 * loss.min()))
    return np.concatenate([terms[:, :1], logs, GRID[nodes]], axis=1)


def _local_minima(cost: Array) -> NDArray[np.bool_]:
    padded = np.pad(cost, 1, constant_values=np.inf)
    n, m = cost.shape
    steps = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    around = np.stack([padded[i : i + n, j : j + m] for i, j in steps])
    lowest: NDArray[np.bool_] = np.isfinite(cost) & (cost <= around.min(axis=0))
    return lowest
