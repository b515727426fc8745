"""Laws of the loss over model size and data, on centred logarithms.

    chinchilla     L(N, D) = E + A / N^alpha + B / D^beta
                   theta = (E, ln A - alpha x0, ln B - beta y0, alpha, beta)
                   ln L  = ln(E + exp(theta1 - alpha x) + exp(theta2 - beta y))
    local power    L(N, D) = L0 (N / N0)^-a (D / D0)^-b
                   theta = (ln L0, a, b)

with x = ln N - x0, y = ln D - y0 and (x0, y0) = (ln N0, ln D0) the means over the data. Centring
takes the strong correlation between ln A and alpha (ln B and beta) out of the fit; E is kept as it
is, so that E = 0 is a point that a search can reach and stay on. The local power law is the tangent
of any smooth law at the centre: it serves inside the data range alone.

N parameters, D tokens, L nats per token. Every method takes theta of shape (..., p) and N, D of
shape (n,), so a batch of resamples is one call. Residuals are ln Lhat - ln L.

Source: Hoffmann et al. 2022 (arXiv 2203.15556), section 3.3, for the first form and the residual.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chinchilla:
    """E + A / N^alpha + B / D^beta about the centre (ln N0, ln D0)."""

    x0: float
    y0: float

    name: ClassVar[str] = "chinchilla"
    formula: ClassVar[str] = "L = E + A / N^alpha + B / D^beta"
    parameters: ClassVar[tuple[str, ...]] = ("E", "A", "B", "alpha", "beta")

    def log_loss(self, theta: Array, N: Array, D: Array) -> Array:
        """Logarithm of L for theta (..., 5), shape (..., n)."""
        size, data = self._terms(theta, N, D)
        value: Array = np.log(theta[..., 0, None] + size + data)
        return value

    def jacobian(self, theta: Array, N: Array, D: Array) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 5): [1 / L, s1, s2, -s1 x, -s2 y].

        s1 and s2 are the shares of the size and the data term in L.
        """
        size, data = self._terms(theta, N, D)
        total = theta[..., 0, None] + size + data
        columns = np.empty((*total.shape, 5))
        columns[..., 0] = 1 / total
        columns[..., 1] = size / total
        columns[..., 2] = data / total
        columns[..., 3] = columns[..., 1] * (self.x0 - np.log(N))
        columns[..., 4] = columns[..., 2] * (self.y0 - np.log(D))
        return columns

    def constants(self, theta: Array) -> Array:
        """E, A, B, alpha, beta from theta, shape (..., 5); A and B in the units of N and D."""
        alpha, beta = theta[..., 3], theta[..., 4]
        A = np.exp(theta[..., 1] + alpha * self.x0)
        B = np.exp(theta[..., 2] + beta * self.y0)
        return np.stack([theta[..., 0], A, B, alpha, beta], axis=-1)

    def _terms(self, theta: Array, N: Array, D: Array) -> tuple[Array, Array]:
        """The terms A / N^alpha and B / D^beta, each of shape (..., n)."""
        x, y = np.log(N) - self.x0, np.log(D) - self.y0
        size = np.exp(theta[..., 1, None] - theta[..., 3, None] * x)
        data = np.exp(theta[..., 2, None] - theta[..., 4, None] * y)
        return size, data


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPower:
    """L0 (N / N0)^-a (D / D0)^-b about the centre (ln N0, ln D0)."""

    x0: float
    y0: float

    name: ClassVar[str] = "local power"
    formula: ClassVar[str] = "L = L0 (N / N0)^-a (D / D0)^-b"
    parameters: ClassVar[tuple[str, ...]] = ("L0", "a", "b")

    def log_loss(self, theta: Array, N: Array, D: Array) -> Array:
        """Logarithm of L for theta (..., 3), shape (..., n)."""
        x, y = np.log(N) - self.x0, np.log(D) - self.y0
        value: Array = theta[..., 0, None] - theta[..., 1, None] * x - theta[..., 2, None] * y
        return value

    def jacobian(self, theta: Array, N: Array, D: Array) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 3): [1, -x, -y], whatever theta is."""
        x, y = np.log(N) - self.x0, np.log(D) - self.y0
        columns = np.stack([np.ones_like(x), -x, -y], axis=-1)
        return np.broadcast_to(columns, (*theta.shape[:-1], *columns.shape))

    def constants(self, theta: Array) -> Array:
        """L0, a, b from theta, shape (..., 3)."""
        return np.concatenate([np.exp(theta[..., :1]), theta[..., 1:]], axis=-1)


Law = Chinchilla | LocalPower


def loss(law: Law, theta: Array, N: Array, D: Array) -> Array:
    """Loss that the law predicts, nats per token, shape (..., n)."""
    value: Array = np.exp(law.log_loss(theta, N, D))
    return value


def log_residual(law: Law, theta: Array, N: Array, D: Array, observed: Array) -> Array:
    """ln(predicted loss) - ln(observed loss), shape (..., n)."""
    return law.log_loss(theta, N, D) - np.log(observed)
