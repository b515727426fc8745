"""What a law of the loss is: ln L and its derivatives at (N, D) of an arm, limits and starts.

    arm      what shares constants with its fellows and differs in some: a recipe in a joint fit;
             arm 0 is the reference (BF16), and the only one where a law knows no arms
    theta    what a search moves, shape (..., p); a batch of resamples is one call
    constants(theta)     the constants of the law's formula, one for each entry of theta

N parameters, D tokens, L nats per token. Residuals are ln Lhat - ln L, unless a fit asks for
Lhat - L. Laws work on logarithms about the centre of the data, x = ln N - x0 and y = ln D - y0:
that takes the strong correlation between a scale and its exponent out of the search.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class At:
    """Where a law is evaluated, of shape (n,).

    Attributes:
        N: Parameters; of shape (..., n) where each theta of a batch moves them to its own places.
        D: Tokens; likewise.
        arm: Index of the arm.
    """

    N: Array
    D: Array
    arm: NDArray[np.intp]

    def __len__(self) -> int:
        """Places."""
        return len(self.arm)

    @property
    def center(self) -> tuple[float, float]:
        """Means of ln N and ln D."""
        return float(np.log(self.N).mean()), float(np.log(self.D).mean())


def at(N: ArrayLike, D: ArrayLike, arm: ArrayLike = 0) -> At:
    """Places from numbers or columns, which are repeated to one length."""
    sizes, data, arms = np.broadcast_arrays(
        np.atleast_1d(np.asarray(N, dtype=np.float64)),
        np.asarray(D, dtype=np.float64),
        np.asarray(arm, dtype=np.intp),
    )
    return At(N=sizes, D=data, arm=arms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounds:
    """Limits of theta, each of shape (p,); a parameter whose limits are one value is held there."""

    lower: Array
    upper: Array

    @property
    def held(self) -> NDArray[np.bool_]:
        """Which parameters cannot move."""
        fixed: NDArray[np.bool_] = self.lower == self.upper
        return fixed

    def hit(self, theta: Array) -> NDArray[np.bool_]:
        """Which parameters that can move lie on a limit; same shape as theta."""
        slack = 1e-6 * (self.upper - self.lower)
        return ((theta <= self.lower + slack) | (theta >= self.upper - slack)) & ~self.held


class Law(Protocol):
    """A form of the loss, centred on the data that it is fitted to."""

    @property
    def name(self) -> str:
        """As in `registry`."""
        ...

    @property
    def formula(self) -> str:
        """For people, in the constants' names."""
        ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the constants, p of them."""
        ...

    @property
    def x0(self) -> float:
        """Centre of ln N."""
        ...

    @property
    def y0(self) -> float:
        """Centre of ln D."""
        ...

    @property
    def shape(self) -> tuple[str, ...]:
        """Constants that a prediction beyond the data needs; the others set scales alone."""
        ...

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L, shape (..., n)."""
        ...

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, p)."""
        ...

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D, each of shape (..., n)."""
        ...

    def constants(self, theta: Array) -> Array:
        """The constants, shape (..., p), in the units of N and D."""
        ...

    def bounds(self, where: At, loss: Array) -> Bounds:
        """Limits of a search over these data."""
        ...

    def starts(self, where: At, loss: Array) -> Array:
        """Where searches begin, shape (s, p); a function of the data alone."""
        ...


def loss(law: Law, theta: Array, where: At) -> Array:
    """Loss that the law predicts, nats per token, shape (..., n)."""
    value: Array = np.exp(law.log_loss(theta, where))
    return value
