"""Worth of compute and critical tokens from the law of the gap, on the frontier of the BF16 law.

    L_fmt = L_bf16 + c N^a D^b        C_mult at one budget C: L*_bf16(C_mult C) = L*_fmt(C)
    D*    where dL_fmt / d ln D = 0   at the largest N; there is none unless the gap grows with D

Where multipliers are no constants this is what they come to at C. C is the largest budget of the
paired runs whose best N and D under BF16 lie inside the data; beyond, the law would be asked for
what was not measured. The law of BF16 is held at its best constants: intervals are over the gap.
"""

from dataclasses import dataclass

import numpy as np

from sweeps.effective.frontier import (
    FARTHEST_TOKENS,
    GapSurface,
    LawSurface,
    best_size,
    critical_tokens,
    log_compute_multiplier,
)
from sweeps.effective.result import FrontierWorth, Method, Multiplier
from sweeps.fits.differences import Differences
from sweeps.fits.gap_laws import Held
from sweeps.fits.gap_result import GapFit
from sweeps.fits.result import QUANTILES, Estimate
from sweeps.laws.frontier import FLOPS_PER_N_D
from sweeps.laws.gap_power import GapPower
from sweeps.laws.law import Array

LEAST_SOLVED = 0.975
"""Share of the draws that must have a solution before their quantiles are the interval's."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Surfaces:
    """The two surfaces, with the best gap in row 0 and its draws below."""

    bf16: LawSurface
    other: GapSurface


def frontier_worth(base: Held, power: GapFit, pairs: Differences) -> FrontierWorth | None:
    """Both numbers from the power law of a gap; None without draws of it."""
    if power.samples is None or not isinstance(power.model, GapPower):
        return None
    theta = np.concatenate([np.array([power.theta]), power.samples.array()])
    bf16 = LawSurface(law=base.law, theta=np.tile(base.theta, (len(theta), 1)))
    surfaces = _Surfaces(bf16=bf16, other=GapSurface(base=bf16, gap=power.model, gap_theta=theta))
    budget = _budget(base, pairs)
    return FrontierWorth(
        flops=budget,
        C_mult=_worth(surfaces, power, budget),
        N=power.N_range[1],
        critical_tokens=_critical(surfaces, power),
    )


def _budget(base: Held, pairs: Differences) -> float | None:
    flops = np.unique(FLOPS_PER_N_D * pairs.N * pairs.D)
    rows = np.tile(base.theta, (len(flops), 1))
    N = np.exp(best_size(LawSurface(law=base.law, theta=rows), flops))
    D = flops / FLOPS_PER_N_D / N
    inside = (N >= pairs.N.min()) & (N <= pairs.N.max())
    inside &= (D >= pairs.D.min()) & (D <= pairs.D.max())
    return float(flops[inside].max()) if inside.any() else None


def _worth(surfaces: _Surfaces, power: GapFit, budget: float | None) -> Multiplier:
    name, n, method = "C_mult", power.n_cells, Method.FRONTIER
    if budget is None:
        reason = "at no budget of the pairs do the best N and D lie inside the data"
        return Multiplier(name=name, n=n, method=method, reason=reason)
    logs = log_compute_multiplier(surfaces.bf16, surfaces.other, budget)
    if (ends := _ends(logs)) is None:
        reason = "the law of the gap has no frontier that BF16 could meet"
        return Multiplier(name=name, n=n, method=method, reason=reason)
    low, high = np.exp(ends).tolist()
    return Multiplier(
        name=name,
        value=float(np.exp(logs[0])),
        low=low,
        high=high,
        n=n,
        over=f"{power.over}, at the best law of BF16",
        method=method,
    )


def _critical(surfaces: _Surfaces, power: GapFit) -> Estimate:
    name, size = "critical tokens", power.N_range[1]
    tokens = critical_tokens(surfaces.other, size, power.D_range)
    if (ends := _ends(tokens)) is None:
        reason = (
            f"within {FARTHEST_TOKENS:.0f} times the measured tokens more of them never clearly "
            f"raise the loss at {size:.3g} parameters"
        )
        return Estimate(name=name, reason=reason)
    low, high = ends
    return Estimate(name=name, value=float(tokens[0]), low=low, high=high, identified=True)


def _ends(values: Array) -> tuple[float, float] | None:
    """Quantiles of the draws, whose first row is the best value; None where too few have one."""
    solved = np.isfinite(values)
    if not solved[0] or solved[1:].mean() < LEAST_SOLVED:
        return None
    low, high = np.quantile(values[1:][solved[1:]], QUANTILES).tolist()
    return low, high
