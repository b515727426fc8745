"""Effective data and size read off the BF16 losses themselves, without a law.

    eff_D = D' / D with L_bf16(N, D') = L_bf16(N, D) + gap        along D at the same N
    eff_N = N' / N with L_bf16(N', D) = L_bf16(N, D) + gap        along N at the same D

Between measured BF16 losses ln D is a monotone cubic of L (PCHIP); at a D where another size was
not measured, its loss is taken from its own curve. Nothing is said beyond the BF16 losses: a gap
that leads out of them is not identified, nor is one where the BF16 losses do not fall.

Source: Fritsch and Butland 1984 for the interpolation, as in scipy.
"""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from sweeps.fits.points import Points
from sweeps.laws.law import Array

SAME = 1e-9
"""Relative slack within which a place counts as inside a range."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """BF16 losses along one axis.

    Attributes:
        place: ln N or ln D, ascending.
        loss: Nats per token.
    """

    place: Array
    loss: Array

    @property
    def falls(self) -> bool:
        """Whether each loss is below the one before."""
        return len(self.loss) > 1 and bool(np.all(np.diff(self.loss) < 0))

    def at(self, place: float) -> float | None:
        """The loss at a place inside the curve."""
        low, high = self.place[0] - SAME, self.place[-1] + SAME
        if not low <= place <= high:
            return None
        if len(self.place) == 1:
            return float(self.loss[0])
        return float(PchipInterpolator(self.place, self.loss)(np.clip(place, low, high)))

    def where(self, loss: float) -> float | None:
        """The place at which the curve has a loss; None outside it."""
        if not self.loss[-1] <= loss <= self.loss[0]:
            return None
        return float(PchipInterpolator(self.loss[::-1], self.place[::-1])(loss))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baseline:
    """Mean BF16 losses by size.

    Attributes:
        along_D: For each N, ascending, the curve over ln D.
    """

    along_D: dict[float, Curve]

    @classmethod
    def of(cls, reference: Points) -> "Baseline":
        """From the BF16 losses."""
        curves = {}
        for size in np.unique(reference.N):
            mine = reference.N == size
            tokens, index = np.unique(reference.D[mine], return_inverse=True)
            means = np.bincount(index, weights=reference.loss[mine]) / np.bincount(index)
            curves[float(size)] = Curve(place=np.log(tokens), loss=means)
        return cls(along_D=curves)

    def effective_data(self, N: float, D: float, gap: float) -> float | str:
        """Logarithm of eff_D at (N, D), or why the BF16 losses do not say it."""
        return _shift(self.along_D[N], np.log(D), gap, f"BF16 losses of {N:.3g} parameters")

    def effective_size(self, N: float, D: float, gap: float) -> float | str:
        """Logarithm of eff_N at (N, D), or why the BF16 losses do not say it."""
        found = {
            size: loss
            for size, curve in self.along_D.items()
            if (curve.falls or len(curve.place) == 1)
            and (loss := curve.at(float(np.log(D)))) is not None
        }
        if N not in found or len(found) < 2:
            return f"no other size was measured around {D:.3g} tokens"
        across = Curve(place=np.log(list(found)), loss=np.array(list(found.values())))
        return _shift(across, np.log(N), gap, f"BF16 losses at {D:.3g} tokens")


def _shift(curve: Curve, place: float, gap: float, what: str) -> float | str:
    if len(curve.place) < 2:
        return f"there is one of the {what}"
    if not curve.falls:
        return f"the {what} do not fall from one to the next"
    start = curve.at(place)
    assert start is not None
    found = curve.where(start + gap)
    return f"the gap leads out of the {what}" if found is None else found - place
