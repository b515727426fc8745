"""The frontier law: the least loss that an amount of training compute buys.

    L(C) = E + K / C^alpha_C            C = 6 N D
    theta = (E, ln K - alpha_C c0, alpha_C),   c = ln C - c0,   c0 = x0 + y0 + ln 6

It holds where the points lie on the frontier: the minima of isoFLOP curves, or one ladder at the
ratio D / N that is best. Of a ladder at another ratio it is the loss along that ladder, no more.

Source: Hoffmann et al. 2022 (arXiv 2203.15556), approaches 1 and 2; with E = 0 it is the power of C
of Kaplan et al. 2020 (arXiv 2001.08361).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import nnls

from sweeps.laws.chinchilla import EXPONENT_BOUNDS, SMALLEST_TERM
from sweeps.laws.law import Array, At, Bounds

FLOPS_PER_N_D = 6.0
"""Forward and backward FLOPs for each parameter and token, attention and logits left out."""

_GRID = np.linspace(0.02, 1.5, 33)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """E + K / C^alpha_C about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "frontier"
    formula: ClassVar[str] = "L = E + K / C^alpha_C, C = 6 N D"
    parameters: ClassVar[tuple[str, ...]] = ("E", "K", "alpha_C")
    shape: ClassVar[tuple[str, ...]] = ("E", "alpha_C")

    @classmethod
    def about(cls, where: At) -> "Frontier":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    @property
    def c0(self) -> float:
        """Centre of ln C."""
        return float(self.x0 + self.y0 + np.log(FLOPS_PER_N_D))

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for theta (..., 3), shape (..., n)."""
        value: Array = np.log(theta[..., 0, None] + self._term(theta, where))
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 3): [1 / L, s, -s c], s the share of K."""
        term = self._term(theta, where)
        total = theta[..., 0, None] + term
        share = term / total
        return np.stack([1 / total, share, -share * self._compute(where)], axis=-1)

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D, which are one: -alpha_C s."""
        term = self._term(theta, where)
        slope = -theta[..., 2, None] * term / (theta[..., 0, None] + term)
        return slope, slope

    def constants(self, theta: Array) -> Array:
        """E, K, alpha_C from theta, shape (..., 3); K in the units of N and D."""
        K = np.exp(theta[..., 1] + theta[..., 2] * self.c0)
        return np.stack([theta[..., 0], K, theta[..., 2]], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """As in the Chinchilla law: no term above the losses, none that is as good as zero."""
        low, high = np.log(loss.min()) + np.log(SMALLEST_TERM), np.log(loss.max()) + 5
        least, most = EXPONENT_BOUNDS
        return Bounds(lower=np.array([0.0, low, least]), upper=np.array([loss.max(), high, most]))

    def starts(self, where: At, loss: Array) -> Array:
        """Best three exponents of a grid, E and K by non-negative least squares; shape (3, 3)."""
        c = self._compute(where)
        found = []
        for exponent in _GRID:
            terms = np.stack([np.ones_like(c), np.exp(-exponent * c)], axis=1)
            (E, K), cost = nnls(terms / loss[:, None], np.ones_like(loss))
            # A term that least squares switched off may still return.
            found.append((cost, E, np.log(max(K, 1e-3 * loss.min())), exponent))
        return np.array([row[1:] for row in sorted(found)[:3]], dtype=np.float64)

    def _compute(self, where: At) -> Array:
        """Logarithm of C about its centre, shape (n,)."""
        value: Array = np.log(where.N) + np.log(where.D) - self.x0 - self.y0
        return value

    def _term(self, theta: Array, where: At) -> Array:
        """K / C^alpha_C, shape (..., n)."""
        value: Array = np.exp(theta[..., 1, None] - theta[..., 2, None] * self._compute(where))
        return value
