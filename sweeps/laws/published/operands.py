"""What published laws ask of an operand: its bits, how they are split, its block, its error.

    bits       least b with 2^b signed codes
    mantissa   M of the small float whose codes start with the same equal steps, 2^(M + 1) of them
    exponent   E = bits - 1 - M; a uniform grid of 15 codes is E1M2, for it is the same grid
    GMSE       mean squared error of a standard normal block of B, its largest element scaled onto
               the grid's maximum and all rounded to nearest, per element

GMSE is exact up to the quadrature over the largest magnitude a of B half-normals, whose density is
2 B phi(a) (2 Phi(a) - 1)^(B - 1): the others are half-normals cut at a, so that each rounding bin
gives a difference of phi and Phi. A narrower range of a grid keeps the grid's E and M, and its
scale is taken as exact: what the laws cannot see, they do not predict.
"""

from functools import lru_cache
from math import ceil, log2

import numpy as np
from scipy.special import ndtr

from kernels.formats import Grid
from sweeps.laws.law import Array

CARRIER_BITS = 16
STEP_TOLERANCE = 1e-6
QUADRATURE = np.linspace(0.0, 9.0, 1801)[1:]
"""Largest magnitudes of a block; beyond 9 standard deviations lies less than 1e-18."""


def bits(grid: Grid | None) -> int:
    """Bits of a code; 16 without a grid."""
    return CARRIER_BITS if grid is None else ceil(log2(2 * len(grid.magnitudes) - 1))


def split(grid: Grid) -> tuple[int, int]:
    """Exponent and mantissa bits (E, M)."""
    steps = np.diff(grid.magnitudes)
    unequal = np.flatnonzero(np.abs(steps / steps[0] - 1) > STEP_TOLERANCE)
    equal = int(unequal[0]) if len(unequal) else len(steps)
    mantissa = (equal + 1).bit_length() - 2
    return bits(grid) - 1 - mantissa, mantissa


@lru_cache(maxsize=256)
def gaussian_mse(grid: Grid, block: int) -> float:
    """GMSE of a grid with this many elements to a scale, relative to a variance of 1."""
    largest = QUADRATURE[:, None]
    levels = np.array(grid.magnitudes) / grid.maximum * largest
    edges = np.concatenate(
        [np.zeros_like(largest), (levels[:, 1:] + levels[:, :-1]) / 2, largest], axis=1
    )
    density, below = _density(edges), ndtr(edges)
    mass = np.diff(below, axis=1)
    first = -np.diff(density, axis=1)
    second = mass - np.diff(edges * density, axis=1)
    error = 2 * (second - 2 * levels * first + levels**2 * mass).sum(axis=1)
    inside = 2 * ndtr(QUADRATURE) - 1
    # One of the block is its largest and exact; the others lie inside, each with the error above.
    shape = 2 * _density(QUADRATURE) * (block - 1) * inside ** (block - 2)
    return float(np.trapezoid(shape * error, QUADRATURE))


def _density(x: Array) -> Array:
    value: Array = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return value
