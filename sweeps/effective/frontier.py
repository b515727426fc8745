"""Worth of compute on the frontier of least loss, for any two loss surfaces.

    L*(C)   = min over N of L(N, C / 6 N)                     at the minimum dL/dlnN = dL/dlnD
    C_mult  : L*_bf16(C_mult C) = L*_fmt(C)                   what C under the format is worth
    D*      : dL_fmt / d ln D = 0                             tokens beyond which more of them hurt

C in FLOPs, counted as 6 N D. Both equations are solved for every draw at once (bracketed roots,
scipy); a draw without a root in the bracket is NaN. Where a format multiplies N and D by constants,
C_mult is their product at every C.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize.elementwise import find_root

from sweeps.laws.frontier import FLOPS_PER_N_D
from sweeps.laws.gap_power import GapPower
from sweeps.laws.law import Array, At, Law

REACH = 12.0
"""Half the width of the bracket of ln N about the square root of C / 6, and of ln C_mult."""

FARTHEST_TOKENS = 10.0
"""Critical tokens beyond this multiple of the longest run are not reported."""

Rows = NDArray[np.intp]


class Surface(Protocol):
    """Draws of a loss surface; N, D and the results of shape (k,), one draw for each entry."""

    @property
    def rows(self) -> int:
        """Draws."""
        ...

    def loss(self, row: Rows, N: Array, D: Array) -> Array:
        """Nats per token by these draws."""
        ...

    def slopes(self, row: Rows, N: Array, D: Array) -> tuple[Array, Array]:
        """The derivatives by ln N and by ln D, by these draws."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LawSurface:
    """One arm of a law, with draws theta of shape (rows, p)."""

    law: Law
    theta: Array
    arm: int = 0

    @property
    def rows(self) -> int:
        """Draws."""
        return len(self.theta)

    def loss(self, row: Rows, N: Array, D: Array) -> Array:
        """Of the law."""
        value: Array = np.exp(self.law.log_loss(self.theta[row], self._where(N, D)))[:, 0]
        return value

    def slopes(self, row: Rows, N: Array, D: Array) -> tuple[Array, Array]:
        """Of the law."""
        by_N, by_D = self.law.slopes(self.theta[row], self._where(N, D))
        loss = self.loss(row, N, D)
        return by_N[:, 0] * loss, by_D[:, 0] * loss

    def _where(self, N: Array, D: Array) -> At:
        return At(N=N[:, None], D=D[:, None], arm=np.array([self.arm]))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GapSurface:
    """A base surface plus a power law of the gap, with draws gap_theta of shape (rows, k).

    The base has as many draws, or one that serves them all.
    """

    base: Surface
    gap: GapPower
    gap_theta: Array

    @property
    def rows(self) -> int:
        """Draws."""
        return len(self.gap_theta)

    def loss(self, row: Rows, N: Array, D: Array) -> Array:
        """Base and gap together."""
        return self.base.loss(self._base_row(row), N, D) + self._gap(row, N, D)

    def slopes(self, row: Rows, N: Array, D: Array) -> tuple[Array, Array]:
        """Base and gap together."""
        by_N, by_D = self.base.slopes(self._base_row(row), N, D)
        a, b = self.gap.exponents(self.gap_theta[row])
        gap = self._gap(row, N, D)
        return by_N + a * gap, by_D + b * gap

    def _base_row(self, row: Rows) -> Rows:
        return row if self.base.rows == self.rows else np.zeros_like(row)

    def _gap(self, row: Rows, N: Array, D: Array) -> Array:
        a, b = self.gap.exponents(self.gap_theta[row])
        places = a * (np.log(N) - self.gap.x0) + b * (np.log(D) - self.gap.y0)
        value: Array = self.gap_theta[row][:, 0] * np.exp(places)
        return value


def best_size(surface: Surface, flops: Array) -> Array:
    """Logarithm of N of the least loss for C in each draw, shape (rows,); C of that shape."""
    middle = np.log(flops / FLOPS_PER_N_D) / 2

    def tilt(ln_N: Array, row: Array, ln_ND: Array) -> Array:
        by_N, by_D = surface.slopes(row.astype(np.intp), np.exp(ln_N), np.exp(ln_ND - ln_N))
        return by_N - by_D

    found = find_root(
        tilt,
        (middle - REACH, middle + REACH),
        args=(np.arange(surface.rows, dtype=np.float64), 2 * middle),
    )
    return np.where(found.success, found.x, np.nan)


def least_loss(surface: Surface, flops: Array) -> Array:
    """L*(C) in each draw, shape (rows,)."""
    N = np.exp(best_size(surface, flops))
    return surface.loss(np.arange(surface.rows), N, flops / FLOPS_PER_N_D / N)


def log_compute_multiplier(reference: Surface, other: Surface, flops: float) -> Array:
    """Logarithm of C_mult at C in each draw, shape (rows,); the rows of both belong together."""
    C = np.full(reference.rows, flops)
    wanted = least_loss(other, C)

    def excess(ln_m: Array, row: Array, goal: Array) -> Array:
        return least_loss(_Chosen(reference, row.astype(np.intp)), flops * np.exp(ln_m)) - goal

    ends = np.full(reference.rows, REACH)
    rows = np.arange(reference.rows, dtype=np.float64)
    found = find_root(excess, (-ends, ends), args=(rows, wanted))
    return np.where(found.success, found.x, np.nan)


def critical_tokens(surface: Surface, N: float, D_range: tuple[float, float]) -> Array:
    """D* at N in each draw, within the data or up to ten times beyond them; else NaN."""
    low, high = np.log(D_range[0]), np.log(FARTHEST_TOKENS * D_range[1])

    def slope(ln_D: Array, row: Array) -> Array:
        sizes = np.full_like(ln_D, N)
        return surface.slopes(row.astype(np.intp), sizes, np.exp(ln_D))[1]

    rows = np.arange(surface.rows, dtype=np.float64)
    ends = np.full(surface.rows, low), np.full(surface.rows, high)
    found = find_root(slope, ends, args=(rows,))
    return np.where(found.success, np.exp(found.x), np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class _Chosen:
    """Some draws of a surface, in an order of their own."""

    surface: Surface
    chosen: Rows

    @property
    def rows(self) -> int:
        return len(self.chosen)

    def loss(self, row: Rows, N: Array, D: Array) -> Array:
        return self.surface.loss(self.chosen[row], N, D)

    def slopes(self, row: Rows, N: Array, D: Array) -> tuple[Array, Array]:
        return self.surface.slopes(self.chosen[row], N, D)
