"""The ladder law: loss along a ladder of one ratio D/N, as a power of compute.

    L(C) = L0 (C / C0)^-c          C = 6 N D,  ln C0 = x0 + y0 + ln 6
    theta = (ln L0, c)

Where N and D moved together their effects cannot be told apart, and neither can a floor: over a
narrow range E + K / C^alpha_C is this power to within the noise. It says what the next rung of the
same ladder costs, and nothing of another ratio.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweeps.laws.law import Array, At, Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """L0 (C / C0)^-c about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "ladder"
    formula: ClassVar[str] = "L = L0 (C / C0)^-c, C = 6 N D"
    parameters: ClassVar[tuple[str, ...]] = ("L0", "c")
    shape: ClassVar[tuple[str, ...]] = ("L0", "c")

    @classmethod
    def about(cls, where: At) -> "Ladder":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for theta (..., 2), shape (..., n)."""
        value: Array = theta[..., 0, None] - theta[..., 1, None] * self._compute(where)
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 2): [1, -ln(C / C0)], whatever theta is."""
        compute = self._compute(where)
        columns = np.stack([np.ones_like(compute), -compute], axis=-1)
        batch = np.broadcast_shapes(theta.shape[:-1], compute.shape[:-1])
        return np.broadcast_to(columns, (*batch, *columns.shape[-2:]))

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D, which are one along the ladder: -c."""
        slope = -theta[..., 1, None] * np.ones_like(where.N)
        return slope, slope

    def constants(self, theta: Array) -> Array:
        """L0, c from theta, shape (..., 2)."""
        return np.concatenate([np.exp(theta[..., :1]), theta[..., 1:]], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """None: the fit is linear."""
        unlimited = np.full(2, np.inf)
        return Bounds(lower=-unlimited, upper=unlimited)

    def starts(self, where: At, loss: Array) -> Array:
        """Least squares on ln L, which is the optimum without outliers; shape (1, 2)."""
        columns = self.jacobian(np.zeros(2), where)
        theta = np.linalg.lstsq(columns, np.log(loss), rcond=None)[0]
        return theta[None].astype(np.float64, copy=False)

    def _compute(self, where: At) -> Array:
        """Logarithm of C about its centre, shape (n,)."""
        value: Array = np.log(where.N) + np.log(where.D) - self.x0 - self.y0
        return value
