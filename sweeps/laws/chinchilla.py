"""The Chinchilla law: what is irreducible, what size costs, what data cost.

    L(N, D) = E + A / N^alpha + B / D^beta
    theta   = (E, ln A - alpha x0, ln B - beta y0, alpha, beta)
    ln L    = ln(E + exp(theta1 - alpha x) + exp(theta2 - beta y))

E is kept as it is, so that E = 0 is a point that a search can reach and stay on.

Source: Hoffmann et al. 2022 (arXiv 2203.15556), section 3.3, for the form and the residual.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweeps.laws.law import Array, At, Bounds
from sweeps.laws.projection import projected_starts

EXPONENT_BOUNDS = (0.005, 3.0)
SMALLEST_TERM = 1e-5
"""A term below this share of the smallest loss, at the centre of the data, counts as zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chinchilla:
    """E + A / N^alpha + B / D^beta about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "chinchilla"
    formula: ClassVar[str] = "L = E + A / N^alpha + B / D^beta"
    parameters: ClassVar[tuple[str, ...]] = ("E", "A", "B", "alpha", "beta")
    shape: ClassVar[tuple[str, ...]] = ("E", "alpha", "beta")

    @classmethod
    def about(cls, where: At) -> "Chinchilla":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for theta (..., 5), shape (..., n)."""
        size, data = self._terms(theta, where)
        value: Array = np.log(theta[..., 0, None] + size + data)
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 5): [1 / L, s1, s2, -s1 x, -s2 y].

        s1 and s2 are the shares of the size and the data term in L.
        """
        size, data = self._terms(theta, where)
        total = theta[..., 0, None] + size + data
        columns = np.empty((*total.shape[:-1], 5, total.shape[-1]))
        columns[..., 0, :] = 1 / total
        columns[..., 1, :] = size * columns[..., 0, :]
        columns[..., 2, :] = data * columns[..., 0, :]
        columns[..., 3, :] = columns[..., 1, :] * (self.x0 - np.log(where.N))
        columns[..., 4, :] = columns[..., 2, :] * (self.y0 - np.log(where.D))
        return np.swapaxes(columns, -1, -2)

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D: -alpha s1 and -beta s2."""
        size, data = self._terms(theta, where)
        total = theta[..., 0, None] + size + data
        return -theta[..., 3, None] * size / total, -theta[..., 4, None] * data / total

    def constants(self, theta: Array) -> Array:
        """E, A, B, alpha, beta from theta, shape (..., 5); A and B in the units of N and D."""
        alpha, beta = theta[..., 3], theta[..., 4]
        A = np.exp(theta[..., 1] + alpha * self.x0)
        B = np.exp(theta[..., 2] + beta * self.y0)
        return np.stack([theta[..., 0], A, B, alpha, beta], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """No term far above the largest loss, none that could not be told from zero."""
        low, high = np.log(loss.min()) + np.log(SMALLEST_TERM), np.log(loss.max()) + 5
        least, most = EXPONENT_BOUNDS
        return Bounds(
            lower=np.array([0.0, low, low, least, least]),
            upper=np.array([loss.max(), high, high, most, most]),
        )

    def starts(self, where: At, loss: Array) -> Array:
        """The best of a grid of exponents, shape (3, 5)."""
        return projected_starts(np.log(where.N) - self.x0, np.log(where.D) - self.y0, loss)

    def _terms(self, theta: Array, where: At) -> tuple[Array, Array]:
        """The terms A / N^alpha and B / D^beta, each of shape (..., n)."""
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        size = np.exp(theta[..., 1, None] - theta[..., 3, None] * x)
        data = np.exp(theta[..., 2, None] - theta[..., 4, None] * y)
        return size, data
