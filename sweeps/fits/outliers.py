"""Points far from the law: flagged, fitted all the same, and the constants shown without them too.

    noise = 1.4826 x median of the n - p largest |r|        outlier: |r| > 4 noise

A robust threshold sees one bad run among few, where the standard deviation would grow with it. A
robust fit of p constants passes through about p points; their residuals say nothing of the noise
and are left out of the median (Holland and Welsch 1977). No point is dropped silently: a reader
gets both fits.
"""

import numpy as np

from sweeps.fits.evidence import Outlier
from sweeps.fits.points import Points
from sweeps.laws.law import Array

LIMIT = 4.0
EXACT = 1e-9
"""Noise below this is rounding, of which nothing can be an outlier."""


def robust_noise(residuals: Array, spent: int) -> float:
    """Standard deviation of n residuals after p constants, by the median size of the larger."""
    sizes = np.sort(np.abs(residuals))
    return float(1.4826 * np.median(sizes[min(spent, len(sizes) - 1) :]))


def outliers(points: Points, residuals: Array, noise: float) -> tuple[Outlier, ...]:
    """Points more than 4 standard deviations off, furthest first.

    Args:
        points: What was fitted.
        residuals: Prediction less observation, shape (n,).
        noise: Their robust standard deviation.
    """
    if noise < EXACT:
        return ()
    sizes = np.abs(residuals)
    far = [row for row in np.argsort(-sizes, kind="stable") if sizes[row] > LIMIT * noise]
    return tuple(
        Outlier(
            row=int(points.row[row]),
            N=float(points.N[row]),
            D=float(points.D[row]),
            arm=points.arms[points.arm[row]],
            loss=float(points.loss[row]),
            residual=float(residuals[row] / noise),
        )
        for row in far
    )
