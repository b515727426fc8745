"""Points on a Chinchilla surface with a known answer."""

from collections.abc import Sequence

import numpy as np

from sweeps.fits.points import Points, make_points
from sweeps.laws.law import Array

TRUTH = {"E": 1.8, "A": 480.0, "B": 2100.0, "alpha": 0.35, "beta": 0.366}


def surface(N: Array, D: Array, truth: dict[str, float] = TRUTH) -> Array:
    """Loss of the surface."""
    value: Array = truth["E"] + truth["A"] / N ** truth["alpha"] + truth["B"] / D ** truth["beta"]
    return value


def grid(sizes: int, budgets: int) -> tuple[Array, Array]:
    """N and D of a full grid over 3e7 to 1e9 parameters and 1e9 to 3e10 tokens."""
    N, D = np.geomspace(3e7, 1e9, sizes), np.geomspace(1e9, 3e10, budgets)
    return np.repeat(N, budgets), np.tile(D, sizes)


def noisy(sizes: int, budgets: int, sigma: float, seed: int = 0) -> Points:
    """Points of a full grid with noise of this standard deviation on ln L."""
    N, D = grid(sizes, budgets)
    noise = np.random.default_rng(seed).normal(0, sigma, len(N))
    return make_points(N, D, surface(N, D) * np.exp(noise))


def columns(points: Points, order: Sequence[int]) -> tuple[Array, Array, Array]:
    """The rows of the points in another order."""
    rows = list(order)
    return points.N[rows], points.D[rows], points.loss[rows]
