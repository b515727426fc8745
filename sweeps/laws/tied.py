"""The tied law: the Chinchilla law with one exponent for size and data.

    L(N, D) = E + A / N^alpha + B / D^alpha
    theta   = (E, ln A - alpha x0, ln B - alpha y0, alpha)

With alpha = beta the best ratio D/N is the same at every budget. One constant fewer than Chinchilla
holds where N and D moved nearly together, and often predicts a larger size better.

Source: Hoffmann et al. 2022 (arXiv 2203.15556), whose three approaches find nearly equal exponents.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, At, Bounds
from sweeps.laws.projection import projected_starts

SPREAD = [0, 1, 2, 3, 3]
"""Which entry of theta serves as each of Chinchilla's five."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """E + A / N^alpha + B / D^alpha about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "tied"
    formula: ClassVar[str] = "L = E + A / N^alpha + B / D^alpha"
    parameters: ClassVar[tuple[str, ...]] = ("E", "A", "B", "alpha")
    shape: ClassVar[tuple[str, ...]] = ("E", "alpha")

    @classmethod
    def about(cls, where: At) -> "Tied":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for theta (..., 4), shape (..., n)."""
        return self._free.log_loss(theta[..., SPREAD], where)

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 4): [1 / L, s1, s2, -s1 x - s2 y]."""
        free = self._free.jacobian(theta[..., SPREAD], where)
        free[..., 3] += free[..., 4]
        return free[..., :4]

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D: -alpha s1 and -alpha s2."""
        return self._free.slopes(theta[..., SPREAD], where)

    def constants(self, theta: Array) -> Array:
        """E, A, B, alpha from theta, shape (..., 4); A and B in the units of N and D."""
        return self._free.constants(theta[..., SPREAD])[..., :4]

    def bounds(self, where: At, loss: Array) -> Bounds:
        """As for Chinchilla."""
        free = self._free.bounds(where, loss)
        return Bounds(lower=free.lower[:4], upper=free.upper[:4])

    def starts(self, where: At, loss: Array) -> Array:
        """The best of a grid of the exponent, shape (3, 4)."""
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        return projected_starts(x, y, loss, is_tied=True)[:, :4]

    @property
    def _free(self) -> Chinchilla:
        return Chinchilla(x0=self.x0, y0=self.y0)
