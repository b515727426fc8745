"""The gap of a format as a power law of its own, fitted to paired differences.

    gap(N, D) = c (N / N0)^a (D / D0)^b,   (ln N0, ln D0) = (x0, y0)
    theta     = (c, and those of a, b that are free)

    constant    a = b = 0
    ratio       a = -b: the gap follows D / N alone
    power       a and b free

c may have either sign, so that a format that beats BF16 is no special case. Forward quantization
acts like lost capacity: its gap grows with D and falls with N.

Source: power laws of a quantization error in N and D are in Kumar et al. 2024 (arXiv 2411.04330)
and Chen et al. 2025 (arXiv 2505.14302).
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from sweeps.laws.law import Array, At, Bounds

EXPONENT_LIMIT = 5.0
LARGEST_GAP = 100.0
"""Nats per token: far above what any vocabulary allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPower:
    """c (N / N0)^a (D / D0)^b with some directions of (a, b) free.

    Attributes:
        x0: ln N0.
        y0: ln D0.
        names: Of the constants, c first.
        directions: What a unit of each free exponent adds to (a, b).
    """

    x0: float
    y0: float
    names: tuple[str, ...]
    directions: tuple[tuple[float, float], ...]

    @classmethod
    def constant(cls, x0: float, y0: float) -> "GapPower":
        """The same gap everywhere."""
        return cls(x0=x0, y0=y0, names=("c",), directions=())

    @classmethod
    def ratio(cls, x0: float, y0: float) -> "GapPower":
        """The gap c (D / N)^b, with D0 / N0 at the centre."""
        return cls(x0=x0, y0=y0, names=("c", "b"), directions=((-1.0, 1.0),))

    @classmethod
    def power(cls, x0: float, y0: float) -> "GapPower":
        """Both exponents free."""
        return cls(x0=x0, y0=y0, names=("c", "a", "b"), directions=((1.0, 0.0), (0.0, 1.0)))

    def predict(self, theta: Array, where: At) -> Array:
        """Gap in nats per token for theta (..., p), shape (..., n)."""
        scale = np.exp(theta[..., 1:] @ self._columns(where))
        value: Array = theta[..., 0, None] * scale
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of the gap by theta, shape (..., n, p): [g / c, g times each direction]."""
        columns = self._columns(where)
        scale = np.exp(theta[..., 1:] @ columns)
        slopes = (theta[..., 0, None] * scale)[..., None, :] * columns
        return np.swapaxes(np.concatenate([scale[..., None, :], slopes], axis=-2), -1, -2)

    def exponents(self, theta: Array) -> tuple[Array, Array]:
        """The exponents a of N and b of D, each of shape (...)."""
        turn = np.asarray(self.directions, dtype=np.float64).reshape(-1, 2)
        both = theta[..., 1:] @ turn
        return both[..., 0], both[..., 1]

    def bounds(self) -> Bounds:
        """Nearly none on c; exponents end where no data of losses could show them."""
        limit = np.full(len(self.names), EXPONENT_LIMIT)
        limit[0] = LARGEST_GAP
        return Bounds(lower=-limit, upper=limit)

    def starts(self, gap: Array) -> Array:
        """The mean gap without a trend, and with trends of either sign; shape (s, p)."""
        corners = list(product((gap.mean(),), *[(-0.5, 0.0, 0.5)] * len(self.directions)))
        return np.array(corners)

    def _columns(self, where: At) -> Array:
        """What multiplies each free exponent, shape (p - 1, n)."""
        x, y = np.log(where.N) - self.x0, np.log(where.D) - self.y0
        return np.array([u * x + v * y for u, v in self.directions]).reshape(-1, len(where))
