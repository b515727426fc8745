"""The gamma law: size and data in one term, with a power over their sum.

    L(N, D) = E + (A / N^alpha + B / D^beta)^gamma
            = E + (U^(1/gamma) + V^(1/gamma))^gamma
    U       = exp(u - a x),  V = exp(v - b y)          what either would leave alone
    theta   = (E, u, v, a, b, ln gamma)
    alpha   = a / gamma,  ln A = (u + a x0) / gamma;   beta and B likewise

gamma = 1 is the Chinchilla law. Below 1 the smaller of U and V counts for less than its sum would
have it: as gamma falls to 0, max(U, V) is left. In U and V gamma only bends the surface between the
two, so that a search can change it without moving the exponents that the data show.

Source: Castro et al. 2025 (Quartet, arXiv 2505.14669), who fit it to BF16 and FP4 runs.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweeps.laws.chinchilla import EXPONENT_BOUNDS, SMALLEST_TERM
from sweeps.laws.law import Array, At, Bounds
from sweeps.laws.projection import projected_starts

GAMMA_BOUNDS = (0.02, 5.0)
BENT_STARTS = (0.2, 0.5, 2.0)
"""Where searches begin beside gamma = 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gamma:
    """E + (A / N^alpha + B / D^beta)^gamma about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "gamma"
    formula: ClassVar[str] = "L = E + (A / N^alpha + B / D^beta)^gamma"
    parameters: ClassVar[tuple[str, ...]] = ("E", "A", "B", "alpha", "beta", "gamma")
    shape: ClassVar[tuple[str, ...]] = ("E", "alpha", "beta", "gamma")

    @classmethod
    def about(cls, where: At) -> "Gamma":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for theta (..., 6), shape (..., n)."""
        excess, _ = self._excess(theta, where)
        value: Array = np.log(theta[..., 0, None] + excess)
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 6).

        With R = L - E, s = R / L, and p and q = 1 - p the shares of U^(1/gamma) and V^(1/gamma) in
        their sum: [1 / L, s p, s q, -s p x, -s q y, -s gamma (p ln p + q ln q)].
        """
        excess, size = self._excess(theta, where)
        data = 1 - size
        total = theta[..., 0, None] + excess
        share = excess / total
        mixing = _x_log_x(size) + _x_log_x(data)
        columns = np.empty((*total.shape[:-1], 6, total.shape[-1]))
        columns[..., 0, :] = 1 / total
        columns[..., 1, :] = share * size
        columns[..., 2, :] = share * data
        columns[..., 3, :] = columns[..., 1, :] * (self.x0 - np.log(where.N))
        columns[..., 4, :] = columns[..., 2, :] * (self.y0 - np.log(where.D))
        columns[..., 5, :] = -np.exp(theta[..., 5, None]) * share * mixing
        return np.swapaxes(columns, -1, -2)

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D: -a s p and -b s q."""
        excess, size = self._excess(theta, where)
        share = excess / (theta[..., 0, None] + excess)
        return -theta[..., 3, None] * share * size, -theta[..., 4, None] * share * (1 - size)

    def constants(self, theta: Array) -> Array:
        """E, A, B, alpha, beta, gamma from theta, shape (..., 6).

        A and B are in the units of N and D; infinite where gamma is too small for them.
        """
        gamma = np.exp(theta[..., 5])
        with np.errstate(over="ignore"):
            A = np.exp((theta[..., 1] + theta[..., 3] * self.x0) / gamma)
            B = np.exp((theta[..., 2] + theta[..., 4] * self.y0) / gamma)
        exponents = theta[..., 3] / gamma, theta[..., 4] / gamma
        return np.stack([theta[..., 0], A, B, *exponents, gamma], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """As for Chinchilla, with the exponents of U and V in the place of alpha and beta."""
        low, high = np.log(loss.min()) + np.log(SMALLEST_TERM), np.log(loss.max()) + 5
        least, most = EXPONENT_BOUNDS
        bent, flat = np.log(GAMMA_BOUNDS)
        return Bounds(
            lower=np.array([0.0, low, low, least, least, bent]),
            upper=np.array([loss.max(), high, high, most, most, flat]),
        )

    def starts(self, where: At, loss: Array) -> Array:
        """Chinchilla's starts, and for each of them and each gamma the law that bends otherwise.

        That law has U = V at the centre, and the same E, loss and slopes there; shape (12, 6).
        """
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        straight = projected_starts(x, y, loss)
        terms = np.exp(straight[:, 1:3])
        excess = terms.sum(axis=1, keepdims=True)
        exponents = 2 * straight[:, 3:] * terms / excess
        found = [np.append(straight, np.zeros((len(straight), 1)), axis=1)]
        for gamma in BENT_STARTS:
            even = np.repeat(np.log(excess) - gamma * np.log(2), 2, axis=1)
            bend = np.full((len(straight), 1), np.log(gamma))
            found.append(np.concatenate([straight[:, :1], even, exponents, bend], axis=1))
        return np.concatenate(found)

    def _excess(self, theta: Array, where: At) -> tuple[Array, Array]:
        """L - E, and the share of U^(1/gamma) in its sum with V^(1/gamma); each (..., n)."""
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        size = theta[..., 1, None] - theta[..., 3, None] * x
        data = theta[..., 2, None] - theta[..., 4, None] * y
        gamma = np.exp(theta[..., 5, None])
        # The larger one is taken out, since 1 / gamma can be 50.
        odds = np.exp(-np.abs(size - data) / gamma)
        excess = np.exp(np.maximum(size, data) + gamma * np.log1p(odds))
        return excess, np.where(size >= data, 1.0, odds) / (1 + odds)


def _x_log_x(share: Array) -> Array:
    """Its limit, 0, at 0."""
    value: Array = share * np.log(np.where(share > 0, share, 1.0))
    return value
