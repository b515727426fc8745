"""Straight lines of ln L by least squares, with Student t, where cells may share runs.

Repeats of a cell are averaged first, so that seeds do not count as new cells. Where no two cells
share a run, this is ordinary least squares with n_cells - p degrees of freedom. Where they do (the
budgets of one run share its trunk), cells of one size are one unit u of several, and as in a split
plot each coefficient of ln L = ln L0 - a x - b y is judged by what is independent for it:

    b        = -sum w_u b_u / sum w_u,  b_u the slope within u,  w_u = sum over u of (y - mean)^2
    Var b    = sum w_u^2 (b_u - b)^2 / (1 - w_u / W) / W^2,  W = sum w_u       CR2, clustered by u
    L0, a    from the means of the units, shifted by b; n_units - 2 degrees

b has Satterthwaite's degrees of freedom (n_units - 1 for equal w_u), and so have L0 and a where
they inherit the error of b. Curvature that the form leaves out lands between the units, and widens
the intervals along an axis of three or more levels; along one of two levels it cannot be seen. The
draws behind bands are t draws of each part with its own degrees.

Sources: Bell and McCaffrey 2002 for CR2 and its degrees of freedom; Satterthwaite 1946.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.fits.identifiability import units
from sweeps.fits.points import Points
from sweeps.fits.settings import Settings
from sweeps.laws.law import Array, At, Law, at
from sweeps.laws.local_power import LocalPower
from sweeps.wording import plural

LEAST_UNITS = 3
"""Between two runs a line has no error to be judged by."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Means of ln L over the repeats of each cell; all of shape (cells,)."""

    where: At
    mean: Array
    unit: NDArray[np.intp]

    @property
    def n_units(self) -> int:
        """What is independent."""
        return int(self.unit.max()) + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lines:
    """A linear fit of ln L.

    Attributes:
        theta: Best values, shape (p,).
        covariance: Shape (p, p).
        df: Degrees of freedom of each interval, shape (p,).
        draws: t draws of theta, shape (rows, p).
    """

    theta: Array
    covariance: Array
    df: Array
    draws: Array


def plane_obstacle(points: Points) -> str:
    """Why no plane can be laid through the points with an interval; empty if one can."""
    cells = cells_of(points)
    if cells.n_units == len(cells.mean):
        return ""
    sizes = np.unique(np.stack([cells.unit, cells.where.N]), axis=1)[0]
    if len(np.unique(sizes)) < len(sizes):
        return "one cluster spans several model sizes, so no cell is independent of the others"
    if cells.n_units < LEAST_UNITS:
        return (
            f"its cells share the runs of {plural(cells.n_units, 'model size')}, fewer than the "
            f"{LEAST_UNITS} that an interval needs"
        )
    if np.count_nonzero(_weights(cells)) < 2:
        return "one model alone was measured at several token counts, so b has no interval"
    return ""


def cells_of(points: Points) -> Cells:
    """Cells of the points, with the units that they form."""
    _, first, count = np.unique(points.cell, return_index=True, return_counts=True)
    sums = np.bincount(points.cell, weights=np.log(points.loss))
    return Cells(where=at(points.N[first], points.D[first]), mean=sums / count, unit=units(points))


def means(unit: NDArray[np.intp], values: Array) -> Array:
    """Mean over each unit."""
    found: Array = np.bincount(unit, weights=values) / np.bincount(unit)
    return found


def least_squares(law: Law, where: At, mean: Array, settings: Settings) -> Lines:
    """Ordinary least squares on values that are independent."""
    columns = law.jacobian(np.zeros(len(law.parameters)), where)
    theta, covariance, df = _ordinary(columns, mean)
    random = np.random.default_rng(settings.seed)
    return Lines(
        theta=theta,
        covariance=covariance,
        df=np.full(len(theta), df),
        draws=theta + _t_draws(random, covariance, df, settings.resamples),
    )


def split_plane(law: LocalPower, cells: Cells, settings: Settings) -> Lines:
    """Slopes inside the units give b, their means L0 and a."""
    y, unit = np.log(cells.where.D) - law.y0, cells.unit
    b, b_variance, b_df = _pooled_slope(cells)
    x, d = (means(unit, column) for column in (np.log(cells.where.N) - law.x0, y))
    columns = np.stack([np.ones_like(x), -x], axis=1)
    between, covariance, df = _ordinary(columns, means(unit, cells.mean) + b * d)
    # What an error of b moves L0 and a by.
    shift = np.linalg.lstsq(columns, d, rcond=None)[0]
    inherited = shift**2 * b_variance
    own = np.diag(covariance)
    total = own + inherited
    degrees = np.full(2, float(df))
    if total.all():
        degrees = total**2 / (own**2 / df + inherited**2 / b_df)
    whole = np.zeros((3, 3))
    whole[:2, :2] = covariance + np.outer(shift, shift) * b_variance
    whole[:2, 2] = whole[2, :2] = shift * b_variance
    whole[2, 2] = b_variance
    random = np.random.default_rng(settings.seed)
    slopes = np.sqrt(b_variance) * random.standard_t(b_df, settings.resamples)
    levels = _t_draws(random, covariance, df, settings.resamples) + slopes[:, None] * shift
    theta = np.append(between, b)
    return Lines(
        theta=theta,
        covariance=whole,
        df=np.append(degrees, b_df),
        draws=theta + np.column_stack([levels, slopes]),
    )


def _weights(cells: Cells) -> Array:
    """Sum over each unit of (ln D - mean)^2."""
    y = np.log(cells.where.D)
    squares = (y - means(cells.unit, y)[cells.unit]) ** 2
    return np.asarray(np.bincount(cells.unit, weights=squares), dtype=np.float64)


def _pooled_slope(cells: Cells) -> tuple[float, float, float]:
    """Value of b, its CR2 variance over the units, and Satterthwaite's degrees of freedom."""
    y, unit = np.log(cells.where.D), cells.unit
    y = y - means(unit, y)[unit]
    weights = _weights(cells)
    scores = np.bincount(unit, weights=y * (cells.mean - means(unit, cells.mean)[unit]))
    total = float(weights.sum())
    b = -float(scores.sum()) / total
    share = weights / total
    apart = (scores + b * weights) / np.sqrt(1 - share) / total
    spread = np.diag(weights) - np.outer(weights, share)
    spread /= np.sqrt(np.outer(1 - share, 1 - share))
    df = float(np.trace(spread) ** 2 / (spread**2).sum())
    return b, float(apart @ apart), df


def _ordinary(columns: Array, values: Array) -> tuple[Array, Array, int]:
    """Least squares: coefficients, their covariance and its degrees of freedom."""
    theta = np.linalg.lstsq(columns, values, rcond=None)[0]
    residuals = columns @ theta - values
    df = len(values) - columns.shape[1]
    covariance = float(residuals @ residuals) / df * np.linalg.inv(columns.T @ columns)
    return theta.astype(np.float64, copy=False), covariance, df


def _t_draws(random: np.random.Generator, covariance: Array, df: float, count: int) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    normal = random.standard_normal((count, len(values))) @ root.T
    draws: Array = normal * np.sqrt(df / random.chisquare(df, size=(count, 1)))
    return draws
