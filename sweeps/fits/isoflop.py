"""IsoFLOP curves: at equal compute C, the size N that ends lowest, read off a parabola in ln N.

    L = c0 + c1 x + c2 x^2,  x = ln N - mean ln N       least squares over the points of one budget
    N_opt at x* = -c1 / (2 c2),  D_opt = C / (6 N_opt)
    interval of x*: Fieller, every x at which the slope c1 + 2 c2 x is within t s.e. of zero
    N_opt ~ C^a,  D_opt ~ C^b                           least squares on logarithms over budgets

C = 6 N D. A minimum is refused where it was not measured: the lowest size is the smallest or the
largest one, the curvature is within its noise, or the interval of N_opt leaves the sizes.

A parabola is symmetric in ln N. The valley of E + A / N^alpha + B / D^beta is so only if alpha =
beta, and only on sizes centred on its minimum: else N_opt is off by a factor, and the exponents too
where that factor changes with C. Given a fitted surface, `bias` is this factor: N_opt of the
parabola through the surface's own losses at the same points, over the surface's own minimum. Take
the surface for numbers and parabolas for a look.

Sources: Hoffmann et al. 2022 (arXiv 2203.15556), approach 2; Czech et al. 2026 (arXiv 2603.22339)
for the bias; Fieller, J. R. Stat. Soc. B 16 (1954) 175, for the interval of a ratio.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sweeps.fits.points import Points, make_points
from sweeps.fits.result import Estimate
from sweeps.intervals import t_half_width
from sweeps.laws.frontier import FLOPS_PER_N_D
from sweeps.laws.law import Array, Law, at

SAME_BUDGET = 0.02
"""Points whose C is at most so far, relative, above the least of a budget belong to it."""

MIN_SIZES = 4
"""Three determine a parabola and leave nothing to judge it by."""

MIN_BUDGETS = 3
"""Two determine a power of C and leave nothing to judge it by."""

_FAR = float(np.log(1e4))
_DIGITS = 1e-8

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum:
    """The lowest point of one budget, with 95 % intervals over the noise of its losses.

    Attributes:
        N: Parameters.
        N_range: Fieller interval of N.
        D: Tokens that C leaves for N.
        loss: Mean loss there, nats per token.
        loss_range: t interval of it.
    """

    N: float
    N_range: Ends
    D: float
    loss: float
    loss_range: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Valley:
    """The points of one budget.

    Attributes:
        C: FLOPs, geometric mean over the points.
        n_points: Points.
        n_sizes: Distinct N.
        sizes: Smallest and largest N.
        minimum: None where it is refused.
        reason: Why it is refused; else empty.
        bias: N_opt of the surface's parabola over N_opt of the surface; None without a surface or
            where that parabola has no minimum.
    """

    C: float
    n_points: int
    n_sizes: int
    sizes: Ends
    minimum: Minimum | None
    reason: str
    bias: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsoFlop:
    """What the budgets say together.

    Attributes:
        valleys: By C.
        exponents: a of N_opt ~ C^a and b of D_opt ~ C^b, 95 % t intervals over budgets.
    """

    valleys: tuple[Valley, ...]
    exponents: tuple[Estimate, Estimate]

    @property
    def minima(self) -> tuple[tuple[Valley, Minimum], ...]:
        """Budgets whose minimum was measured."""
        return tuple((one, one.minimum) for one in self.valleys if one.minimum is not None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Surface:
    """A fitted law and its theta."""

    law: Law
    theta: Array

    def best_size(self, C: float) -> float:
        """N with the lowest loss at C FLOPs, within a factor of 10^4 of the law's centre."""

        def log_loss(x: float) -> float:
            N = np.exp(x)
            return float(self.law.log_loss(self.theta, at(N, C / (FLOPS_PER_N_D * N))).item())

        ends = (self.law.x0 - _FAR, self.law.x0 + _FAR)
        found = minimize_scalar(log_loss, bounds=ends, options={"xatol": _DIGITS})
        return float(np.exp(found.x))


def isoflop(points: Points, surface: Surface | None = None) -> IsoFlop:
    """Parabolas of every budget, and how their minima move with C.

    Args:
        points: Of one arm, several sizes at each of some budgets.
        surface: A law fitted to the same points, for the bias of the parabolas.
    """
    valleys = tuple(_valley(points, rows, surface) for rows in _budgets(points))
    found = [(one.C, one.minimum) for one in valleys if one.minimum is not None]
    compute = np.log([C for C, _ in found])
    exponents = (
        _exponent("a", compute, np.log([lowest.N for _, lowest in found])),
        _exponent("b", compute, np.log([lowest.D for _, lowest in found])),
    )
    return IsoFlop(valleys=valleys, exponents=exponents)


def frontier_points(found: IsoFlop) -> Points:
    """The measured minima, one for each budget: what a frontier law is fitted to."""
    lowest = [minimum for _, minimum in found.minima]
    return make_points(
        [one.N for one in lowest], [one.D for one in lowest], [one.loss for one in lowest]
    )


def _budgets(points: Points) -> list[NDArray[np.intp]]:
    """Rows of each budget, by C."""
    compute = FLOPS_PER_N_D * points.N * points.D
    groups: list[list[int]] = []
    for row in np.argsort(compute, kind="stable").tolist():
        if not groups or compute[row] > (1 + SAME_BUDGET) * compute[groups[-1][0]]:
            groups.append([])
        groups[-1].append(row)
    return [np.array(group, dtype=np.intp) for group in groups]


def _valley(points: Points, rows: NDArray[np.intp], surface: Surface | None) -> Valley:
    N, D, losses = points.N[rows], points.D[rows], points.loss[rows]
    C = float(np.exp(np.log(FLOPS_PER_N_D * N * D).mean()))
    sizes = np.unique(N)
    minimum, reason = None, f"{len(sizes)} sizes are fewer than the {MIN_SIZES} that are needed"
    bias = None
    if len(sizes) >= MIN_SIZES:
        minimum, reason = _minimum(C, N, losses)
        bias = _bias(surface, C, N, D) if surface is not None else None
    return Valley(
        C=C,
        n_points=len(rows),
        n_sizes=len(sizes),
        sizes=(float(sizes[0]), float(sizes[-1])),
        minimum=minimum,
        reason=reason,
        bias=bias,
    )


def _minimum(C: float, N: Array, losses: Array) -> tuple[Minimum | None, str]:
    """The minimum, or None and why it is none."""
    sizes = np.unique(N)
    means = [losses[size == N].mean() for size in sizes]
    lowest = int(np.argmin(means))
    if lowest in (0, len(sizes) - 1):
        edge = "smallest" if lowest == 0 else "largest"
        return None, f"the lowest loss is at the {edge} size, so the minimum may lie beyond it"
    center = float(np.log(sizes).mean())
    design, theta = _parabola(np.log(N) - center, losses)
    residuals = design @ theta - losses
    df = len(N) - len(theta)
    covariance = _covariance(design, float(residuals @ residuals) / df)
    ends = _fieller(theta, covariance, t_half_width(1.0, df))
    if ends is None:
        return None, "the curvature is within its noise, so the valley has no measured minimum"
    low, high = (float(np.exp(end + center)) for end in ends)
    if not sizes[0] <= low <= high <= sizes[-1]:
        words = f"the 95 % interval of N_opt, {low:.3g} to {high:.3g}, leaves the sizes"
        return None, f"{words}, {sizes[0]:.3g} to {sizes[-1]:.3g}"
    x = -theta[1] / (2 * theta[2])
    here = np.array([1.0, x, x * x])
    value = float(here @ theta)
    half = t_half_width(float(np.sqrt(max(0.0, here @ covariance @ here))), df)
    best = float(np.exp(x + center))
    found = Minimum(
        N=best,
        N_range=(low, high),
        D=C / (FLOPS_PER_N_D * best),
        loss=value,
        loss_range=(value - half, value + half),
    )
    return found, ""


def _parabola(x: Array, losses: Array) -> tuple[Array, Array]:
    """The design {1, x, x^2} and its least-squares coefficients."""
    design = np.stack([np.ones_like(x), x, x * x], axis=1)
    theta = np.linalg.lstsq(design, losses, rcond=None)[0]
    return design, theta.astype(np.float64, copy=False)


def _covariance(design: Array, variance: float) -> Array:
    value: Array = variance * np.linalg.inv(design.T @ design).astype(np.float64, copy=False)
    return value


def _fieller(theta: Array, covariance: Array, t: float) -> Ends | None:
    """Where the slope is within t standard errors of zero; None unless that is an interval."""
    _, c1, c2 = theta
    square = 4 * (c2**2 - t**2 * covariance[2, 2])
    if c2 <= 0 or square <= 0:
        return None
    linear = 4 * (c1 * c2 - t**2 * covariance[1, 2])
    constant = c1**2 - t**2 * covariance[1, 1]
    middle = -linear / (2 * square)
    half = np.sqrt(max(0.0, middle**2 - constant / square))
    return float(middle - half), float(middle + half)


def _bias(surface: Surface, C: float, N: Array, D: Array) -> float | None:
    center = float(np.log(N).mean())
    losses = np.exp(surface.law.log_loss(surface.theta, at(N, D)))
    _, (_, c1, c2) = _parabola(np.log(N) - center, losses)
    if c2 <= 0:
        return None
    return float(np.exp(center - c1 / (2 * c2))) / surface.best_size(C)


def _exponent(name: str, compute: Array, logs: Array) -> Estimate:
    """Slope of the logarithms over ln C."""
    if len(logs) < MIN_BUDGETS:
        minima = f"{len(logs)} budgets with a measured minimum"
        return Estimate(name=name, reason=f"{minima} are fewer than the {MIN_BUDGETS} needed")
    x = compute - compute.mean()
    slope = float(x @ logs / (x @ x))
    residuals = logs - logs.mean() - slope * x
    df = len(logs) - 2
    half = t_half_width(float(np.sqrt(residuals @ residuals / df / (x @ x))), df)
    return Estimate(name=name, value=slope, low=slope - half, high=slope + half, identified=True)
