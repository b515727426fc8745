"""The over-training law: loss at M tokens per parameter and compute C.

    L = E + (a M^eta + b M^-eta) C^-eta        M = D / N, C = 6 N D

Since C^-eta M^eta = 6^-eta N^-2eta and C^-eta M^-eta = 6^-eta D^-2eta, this is the tied law in
other constants,

    alpha = 2 eta,   A = a 6^-eta,   B = b 6^-eta

and is searched as such, by the tied law's theta. At fixed M it is a power of C above E with the
same exponent for every M, so that over-trained models scale alike.

Source: Gadre et al. 2024 (arXiv 2403.08540), equation 4; published fits are plain least squares on
L, which is residual `linear` with delta infinite.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweeps.laws.frontier import FLOPS_PER_N_D
from sweeps.laws.law import Array, At, Bounds
from sweeps.laws.tied import Tied


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtraining:
    """E + (a M^eta + b M^-eta) / C^eta about the centre (x0, y0) of ln N and ln D."""

    x0: float
    y0: float

    name: ClassVar[str] = "overtraining"
    formula: ClassVar[str] = "L = E + (a M^eta + b M^-eta) / C^eta, M = D / N, C = 6 N D"
    parameters: ClassVar[tuple[str, ...]] = ("E", "a", "b", "eta")
    shape: ClassVar[tuple[str, ...]] = ("E", "eta")

    @classmethod
    def about(cls, where: At) -> "Overtraining":
        """Centred on these data."""
        x0, y0 = where.center
        return cls(x0=x0, y0=y0)

    def log_loss(self, theta: Array, where: At) -> Array:
        """Logarithm of L for the tied law's theta (..., 4), shape (..., n)."""
        return self._tied.log_loss(theta, where)

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L by theta, shape (..., n, 4)."""
        return self._tied.jacobian(theta, where)

    def slopes(self, theta: Array, where: At) -> tuple[Array, Array]:
        """Derivatives of ln L by ln N and by ln D."""
        return self._tied.slopes(theta, where)

    def constants(self, theta: Array) -> Array:
        """E, a, b, eta from theta, shape (..., 4); a and b in the units of N and D."""
        E, A, B, alpha = np.moveaxis(self._tied.constants(theta), -1, 0)
        eta = alpha / 2
        per_compute = FLOPS_PER_N_D**eta
        return np.stack([E, A * per_compute, B * per_compute, eta], axis=-1)

    def bounds(self, where: At, loss: Array) -> Bounds:
        """Those of the tied law."""
        return self._tied.bounds(where, loss)

    def starts(self, where: At, loss: Array) -> Array:
        """Those of the tied law, shape (3, 4)."""
        return self._tied.starts(where, loss)

    @property
    def _tied(self) -> Tied:
        return Tied(x0=self.x0, y0=self.y0)
