"""What a law of a gap says: constants with intervals, and the gap at any (N, D) with its band.

Gaps are in nats per token, positive where BF16 is better; intervals are 95 %. A band is of the mean
gap: it holds neither the noise of a new run nor the error of the form, which grows with the
distance from the data. The distance is said in decades of N and of D.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sweeps.fits.result import QUANTILES, Estimate, Samples
from sweeps.laws.gap_multipliers import GapMultipliers
from sweeps.laws.gap_power import GapPower
from sweeps.laws.law import at


class GapForm(StrEnum):
    """A law of a gap, those of fewer constants first."""

    NONE = "none"
    CONSTANT = "constant"
    EFF_C = "eff_C"
    EFF_N = "eff_N"
    EFF_D = "eff_D"
    RATIO = "ratio"
    EFF_BOTH = "eff_N, eff_D"
    POWER = "power"


FORMULAS = {
    GapForm.NONE: "gap = 0",
    GapForm.CONSTANT: "gap = c",
    GapForm.EFF_C: "gap = L(eff_C N, eff_C D) - L(N, D)",
    GapForm.EFF_N: "gap = L(eff_N N, D) - L(N, D)",
    GapForm.EFF_D: "gap = L(N, eff_D D) - L(N, D)",
    GapForm.RATIO: "gap = c ((D / D0) / (N / N0))^b",
    GapForm.EFF_BOTH: "gap = L(eff_N N, eff_D D) - L(N, D)",
    GapForm.POWER: "gap = c (N / N0)^a (D / D0)^b",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GapFit:
    """A law fitted to the paired differences of one format.

    Attributes:
        label: Name of the format.
        form: Which law.
        estimates: Its constants; c in nats per token at (N0, D0), multipliers as ratios.
        errors: Standard error of each, of the logarithm for a multiplier; empty without one.
        N0: Where c is taken.
        D0: Where c is taken.
        model: What predicts; None for no gap.
        theta: Its parameters.
        samples: Draws of theta behind the intervals.
        over: What the intervals are over.
        n_pairs: Paired differences.
        n_cells: Distinct (N, D).
        n_clusters: What the bootstrap drew from.
        sd: Standard deviation of the residuals, nats per token, k constants taken off; None without
            a degree of freedom.
        N_range: Smallest and largest N.
        D_range: Smallest and largest D.
    """

    label: str
    form: GapForm
    estimates: tuple[Estimate, ...]
    errors: tuple[float, ...]
    N0: float
    D0: float
    model: GapPower | GapMultipliers | None
    theta: tuple[float, ...]
    samples: Samples | None
    over: str
    n_pairs: int
    n_cells: int
    n_clusters: int
    sd: float | None
    N_range: tuple[float, float]
    D_range: tuple[float, float]

    @property
    def formula(self) -> str:
        """For people."""
        return FORMULAS[self.form]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapPoint:
    """The gap that a law predicts at one place.

    Attributes:
        N: Parameters.
        D: Tokens.
        gap: Nats per token.
        low: Lower edge of the 95 % band of the mean gap; None without draws.
        high: Upper edge.
        decades_N: How far N lies outside the data, in powers of ten; 0 inside.
        decades_D: The same of D.
    """

    N: float
    D: float
    gap: float
    low: float | None
    high: float | None
    decades_N: float
    decades_D: float


def gap_at(fit: GapFit, N: float, D: float) -> GapPoint:
    """The gap at (N, D) with its band."""
    where = at(N, D)
    low, high = None, None
    gap = 0.0
    if fit.model is not None:
        gap = float(fit.model.predict(np.array(fit.theta), where)[0])
        if fit.samples is not None:
            draws = fit.model.predict(fit.samples.array(), where)[:, 0]
            low, high = np.quantile(draws, QUANTILES).tolist()
    return GapPoint(
        N=N,
        D=D,
        gap=gap,
        low=low,
        high=high,
        decades_N=_decades(N, fit.N_range),
        decades_D=_decades(D, fit.D_range),
    )


def _decades(value: float, bounds: tuple[float, float]) -> float:
    low, high = np.log10(bounds)
    place = np.log10(value)
    return float(max(0.0, low - place, place - high))
