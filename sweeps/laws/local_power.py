"""The local power law: the tangent of any smooth law at the centre of the data.

    L(N, D) = L0 (N / N0)^-a (D / D0)^-b
    theta   = (ln L0, a, b),   (ln N0, ln D0) = (x0, y0)

It serves inside the data range alone, where a design cannot carry more constants.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweeps.laws.law import Array, At, Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPower:
    """L0 (N / N0)^-a (D / D0)^-b about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "local power"
    formula: ClassVar[str] = "L = L0 (N / N0)^-a (D / D0)^-b"
    parameters: ClassVar[tuple[str, ...]] = ("L0", "a", "b")
    shape: ClassVar[tuple[str, ...]] = ("L0", "a", "b")

    @classmethod
    def about(cls, where: At) -> "LocalPower":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for theta (..., 3), shape (..., n)."""
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        value: Array = theta[..., 0, None] - theta[..., 1, None] * x - theta[..., 2, None] * y
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 3): [1, -x, -y], whatever theta is."""
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        columns = np.stack([np.ones_like(x), -x, -y], axis=-1)
        batch = np.broadcast_shapes(theta.shape[:-1], x.shape[:-1])
        return np.broadcast_to(columns, (*batch, *columns.shape[-2:]))

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D: -a and -b everywhere."""
        ones = np.ones_like(where.N)
        return -theta[..., 1, None] * ones, -theta[..., 2, None] * ones

    def constants(self, theta: Array) -> Array:
        """L0, a, b from theta, shape (..., 3)."""
        return np.concatenate([np.exp(theta[..., :1]), theta[..., 1:]], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """None: the fit is linear."""
        unlimited = np.full(3, np.inf)
        return Bounds(lower=-unlimited, upper=unlimited)

    def starts(self, where: At, loss: Array) -> Array:
        """Least squares on ln L, which is the optimum without outliers; shape (1, 3)."""
        columns = self.jacobian(np.zeros(3), where)
        theta = np.linalg.lstsq(columns, np.log(loss), rcond=None)[0]
        return theta[None].astype(np.float64, copy=False)
