"""The gap of a format as the loss that BF16 would have with fewer parameters or less data.

    gap(N, D) = L(m_N N, m_D D) - L(N, D)        L: the law of BF16, with its constants held
    theta     = logarithms of the free multipliers

    eff_C           m_N = m_D = m
    eff_N           m_D = 1
    eff_D           m_N = 1
    eff_N, eff_D    both free

Only the gap is fitted, so that an error of the law L cancels between its two places.

Source: eff_N as in Kumar et al. 2024 (arXiv 2411.04330), eff_D beside it as in Castro et al. 2025
(Quartet, arXiv 2505.14669).
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sweeps.laws.law import Array, At, Bounds, Law, loss

LOG_LIMIT = 7.0
"""Multipliers between e^-7 and e^7: beyond lies nothing that could be told from no training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapMultipliers:
    """L(m_N N, m_D D) - L(N, D) about a law that is held.

    Attributes:
        law: L.
        base: Its theta.
        names: Of the multipliers.
        directions: What a unit of each entry of theta adds to (ln m_N, ln m_D).
    """

    law: Law
    base: tuple[float, ...]
    names: tuple[str, ...]
    directions: tuple[tuple[float, float], ...]

    @classmethod
    def compute(cls, law: Law, base: Array) -> "GapMultipliers":
        """One multiplier of N and D alike."""
        return cls._of(law, base, {"eff_C": (1.0, 1.0)})

    @classmethod
    def parameters(cls, law: Law, base: Array) -> "GapMultipliers":
        """Of N alone."""
        return cls._of(law, base, {"eff_N": (1.0, 0.0)})

    @classmethod
    def data(cls, law: Law, base: Array) -> "GapMultipliers":
        """Of D alone."""
        return cls._of(law, base, {"eff_D": (0.0, 1.0)})

    @classmethod
    def both(cls, law: Law, base: Array) -> "GapMultipliers":
        """Of N and of D."""
        return cls._of(law, base, {"eff_N": (1.0, 0.0), "eff_D": (0.0, 1.0)})

    def predict(self, theta: Array, where: At) -> Array:
        """Gap in nats per token for theta (..., p), shape (..., n)."""
        base = np.asarray(self.base)
        return loss(self.law, base, self._scaled(theta, where)) - loss(self.law, base, where)

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of the gap by theta, shape (..., n, p): L times its slopes, turned."""
        base, scaled = np.asarray(self.base), self._scaled(theta, where)
        slopes = np.stack(self.law.slopes(base, scaled), axis=-1)
        turn = np.asarray(self.directions)
        value: Array = loss(self.law, base, scaled)[..., None] * (slopes @ turn.T)
        return value

    def bounds(self) -> Bounds:
        """Within a factor of e^7 either way."""
        limit = np.full(len(self.names), LOG_LIMIT)
        return Bounds(lower=-limit, upper=limit)

    def starts(self) -> Array:
        """Little and much loss of each, shape (s, p)."""
        return np.array(list(product((-0.1, -1.0), repeat=len(self.names))))

    def _scaled(self, theta: Array, where: At) -> At:
        both = theta @ np.asarray(self.directions)
        return replace(
            where,
            N=where.N * np.exp(both[..., 0, None]),
            D=where.D * np.exp(both[..., 1, None]),
        )

    @classmethod
    def _of(cls, law: Law, base: Array, free: dict[str, tuple[float, float]]) -> "GapMultipliers":
        return cls(
            law=law,
            base=tuple(base.tolist()),
            names=tuple(free),
            directions=tuple(free.values()),
        )
