"""The best N and D for a budget, by the fitted law.

    N*(C) = argmin over N of L(N, C / f(N)),   D* = C / f(N*),   f FLOPs per token, 6 N by default

In the Chinchilla law with f = 6 N:  N* = G (C / 6)^(beta / (alpha + beta)),
G = (alpha A / (beta B))^(1 / (alpha + beta)). Any law is minimised on a grid of ln N, for all draws
of the fit at once, and the least three nodes are joined by a parabola. Bands are 95 %, of the mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.errors import InputError
from sweeps.fits.predict import arm_index, decades
from sweeps.fits.result import QUANTILES, Fit, Solution, Status
from sweeps.laws.law import Array, at

Band = tuple[float, float]
REACH = np.log(1e4)
"""How far beyond the sizes of the data a best size is looked for, as a factor in N."""

STEP = 0.05
"""Of the grid, in ln N: the parabola through three nodes is then good to 1e-3 in N, 1e-6 in L."""

EXPECTED_SHARE = 0.975
"""The share of draws that must have a best size, so that 95 % ends are ends of something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The best use of a budget; numbers are None where the fit cannot tell.

    Attributes:
        flops: The budget.
        reason: Why nothing is said; else empty.
        N: Parameters.
        N_band: 95 % interval.
        D: Tokens.
        D_band: 95 % interval.
        ratio: D/N.
        ratio_band: 95 % interval.
        loss: Nats per token.
        loss_band: 95 % interval of the least mean loss.
        decades_N: log10 of N over the nearest end of the data, 0 inside.
        decades_D: The same of D.
    """

    flops: float
    reason: str = ""
    N: float | None = None
    N_band: Band | None = None
    D: float | None = None
    D_band: Band | None = None
    ratio: float | None = None
    ratio_band: Band | None = None
    loss: float | None = None
    loss_band: Band | None = None
    decades_N: float | None = None
    decades_D: float | None = None


def six_N(N: Array) -> Array:
    """Forward and backward FLOPs per token, attention and logits left out."""
    return 6 * N


def optimal(
    fit: Fit,
    flops: Sequence[float],
    *,
    flops_per_token: Callable[[Array], Array] = six_N,
    arm: str | None = None,
) -> tuple[Allocation, ...]:
    """The best N and D for each budget.

    Args:
        fit: What was fitted.
        flops: Budgets, forward and backward.
        flops_per_token: Of N, shape (n,), increasing.
        arm: Name of the arm; the reference if not given.

    Raises:
        InputError: If a budget is not positive and finite, or the fit has no such arm.
    """
    for budget in flops:
        if not 0 < budget < float("inf"):
            raise InputError(f"flops = {budget}: a budget is a positive finite number of FLOPs")
    index = arm_index(fit, arm)
    if fit.solution is None or fit.N_range is None or fit.status is not Status.IDENTIFIED:
        reason = "the fit does not identify the law, so no best size follows from it"
        return tuple(Allocation(flops=float(budget), reason=reason) for budget in flops)
    return tuple(
        _allocation(fit.solution, budget, flops_per_token, index, fit.N_range, fit.D_range)
        for budget in map(float, flops)
    )


def _allocation(
    solution: Solution,
    budget: float,
    flops_per_token: Callable[[Array], Array],
    arm: int,
    N_range: Band,
    D_range: Band | None,
) -> Allocation:
    first, last = np.log(N_range[0]) - REACH, np.log(N_range[1]) + REACH
    grid = np.arange(first, last + STEP, STEP)
    sizes = np.exp(grid)
    where = at(sizes, budget / flops_per_token(sizes), arm)
    curves = solution.law.log_loss(np.array(solution.theta), where)
    best = _least(curves[None])
    if not np.isfinite(best[0, 0]):
        reason = f"no size within a factor of {np.exp(REACH):.0e} of the data is best"
        return Allocation(flops=budget, reason=reason)
    draws = _least(solution.law.log_loss(solution.samples.array(), where))
    inside = draws[np.isfinite(draws[:, 0])]
    if len(inside) < EXPECTED_SHARE * len(draws):
        reason = f"{len(draws) - len(inside)} of {len(draws)} draws of the fit have no best size"
        return Allocation(flops=budget, reason=reason)
    rows = np.concatenate([best, inside])
    N = np.exp(first + STEP * rows[:, 0])
    D = budget / flops_per_token(N)
    columns = {"N": N, "D": D, "ratio": D / N, "loss": np.exp(rows[:, 1])}
    values = {name: float(column[0]) for name, column in columns.items()}
    bands = {name: _band(column) for name, column in columns.items()}
    return Allocation(
        flops=budget,
        N=values["N"],
        N_band=bands["N"],
        D=values["D"],
        D_band=bands["D"],
        ratio=values["ratio"],
        ratio_band=bands["ratio"],
        loss=values["loss"],
        loss_band=bands["loss"],
        decades_N=decades(values["N"], N_range),
        decades_D=decades(values["D"], D_range),
    )


def _least(curves: Array) -> Array:
    """Place in steps of the grid and height of each row's least value, (rows, 2); NaN at an end."""
    node = curves.argmin(axis=1)
    inner = np.clip(node, 1, curves.shape[1] - 2)
    rows = np.arange(len(curves))
    left, middle, right = (curves[rows, inner + step] for step in (-1, 0, 1))
    slope, bend = (right - left) / 2, right - 2 * middle + left
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = -slope / bend
    found = np.stack([inner + shift, middle + slope * shift / 2], axis=1)
    return np.where((node == inner)[:, None] & (bend > 0)[:, None], found, np.nan)


def _band(column: Array) -> Band:
    low, high = np.quantile(column[1:], QUANTILES)
    return min(float(low), float(column[0])), max(float(high), float(column[0]))
