"""Effective numbers of a format: how much BF16 its runs amount to.

    L_fmt(N, D) = L_bf16(eff_N N, eff_D D)         eff_N, eff_D: multipliers of parameters and data
    C_mult      = eff_N eff_D                      of compute, on the frontier of least loss for C
    break-even  = 1 / C_mult                       speed over BF16 from which the format pays
    P(wins | s) = share of the draws of C_mult with s C_mult > 1

Below 1 the format is worth less than BF16. eff_N and eff_D of one fit are strongly correlated and
seldom stand alone; C_mult is what the data determine best. Intervals are 95 %.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sweeps.effective.shared_floor import SharedFloor
from sweeps.fits.gap_choice import GapLaws
from sweeps.fits.result import Estimate, Samples


class Method(StrEnum):
    """Where a multiplier comes from."""

    JOINT = "joint law of BF16 and the format"
    HORIZONTAL = "interpolated BF16 losses"
    SLOPE = "gap over the slope of the BF16 law"
    FRONTIER = "law of the gap on the frontier of the BF16 law"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplier:
    """One effective number.

    Attributes:
        name: `eff_N`, `eff_D`, `C_mult` or `break-even`.
        value: A ratio; None where it is not identified.
        low: Lower end of the 95 % interval; None where there is none.
        high: Upper end.
        n: Cells behind it.
        over: What the interval is over; empty without one.
        method: How it was found.
        reason: Why there is no value, or no interval; else empty.
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    over: str = ""
    method: Method = Method.NONE
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMultipliers:
    """Effective numbers at one (N, D).

    Attributes:
        N: Parameters.
        D: Tokens.
        gap: Mean paired gap, nats per token.
        n: Pairs.
        horizontal_D: eff_D from BF16 losses of this N.
        horizontal_N: eff_N from BF16 losses at this D.
        slope_D: eff_D from the gap over the BF16 law's slope in ln D.
        slope_N: eff_N from the slope in ln N.
    """

    N: float
    D: float
    gap: float
    n: int
    horizontal_D: Multiplier
    horizontal_N: Multiplier
    slope_D: Multiplier
    slope_N: Multiplier


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierWorth:
    """What the law of the gap says on the frontier of least loss.

    Attributes:
        flops: The budget C, counted as 6 N D; None where none lies inside the data.
        C_mult: Multiplier of compute there.
        N: Where the critical tokens are taken.
        critical_tokens: D beyond which more of them raise the loss of the format.
    """

    flops: float | None
    C_mult: Multiplier
    N: float
    critical_tokens: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """Effective numbers of one format.

    Attributes:
        label: Its name.
        eff_N: Multiplier of parameters.
        eff_D: Multiplier of data.
        C_mult: Multiplier of compute.
        break_even: 1 / C_mult.
        correlation: Of ln eff_N and ln eff_D over the draws; None without both.
        draws: Of ln C_mult, one column; None where it is not identified.
        cells: The same cell by cell, ascending in N and D.
        gap: Laws of the gap itself; None without a pair.
        n_points: Endpoints of BF16 and the format that were used; those of the pairs where no law
            was.
        n_cells: Cells that hold both.
        verdict: Sentences for people, most important first.
        frontier: What the power law of the gap says on the frontier; None without it, and without a
            law of BF16.
        floor: Whether the format may share E with BF16; None where it was not asked.
    """

    label: str
    eff_N: Multiplier
    eff_D: Multiplier
    C_mult: Multiplier
    break_even: Multiplier
    correlation: float | None
    draws: Samples | None
    cells: tuple[CellMultipliers, ...]
    gap: GapLaws | None
    n_points: int
    n_cells: int
    verdict: tuple[str, ...]
    frontier: FrontierWorth | None = None
    floor: SharedFloor | None = None

    def wins(self, speedup: float) -> float | None:
        """Share of the draws in which this speed over BF16 more than pays for the loss."""
        if self.draws is None:
            return None
        return float(np.mean(self.draws.array()[:, 0] > -np.log(speedup)))
