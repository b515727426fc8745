"""Effective numbers of a format cell by cell, by two methods that share no assumption.

    horizontal   the BF16 losses themselves, interpolated; t interval over the pairs of the cell,
                 which holds no error of the interpolated curve
    slope        mean gap over the slope of the BF16 law; its interval holds the errors of both

The noise of a pair is pooled over the cells with repeats; without any it is the scatter of the gaps
about their law. A single multiplier is a summary: where these numbers move with D / N, it is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from sweeps.effective.horizontal import Baseline
from sweeps.effective.result import CellMultipliers, Method, Multiplier
from sweeps.effective.slope import LogRatio, Slope, local_multiplier, slopes
from sweeps.fits.differences import Differences
from sweeps.fits.result import Solution
from sweeps.intervals import pooled_noise, t_half_width
from sweeps.laws.law import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class PairNoise:
    """Standard deviation of one paired difference, its degrees of freedom, and where it is from."""

    sd: float
    df: int
    over: str


def pair_noise(pairs: Differences, law_sd: float | None, law_df: int) -> PairNoise | None:
    """Noise of a pair; None with neither repeats nor a law.

    Args:
        pairs: Of one format.
        law_sd: Scatter of the gaps about their law, nats per token.
        law_df: Its degrees of freedom.
    """
    if (found := pooled_noise(_by_cell(pairs))) is not None:
        sd, df = found
        return PairNoise(sd=sd, df=df, over="seeds, pooled over cells")
    if law_sd is None or law_df < 1:
        return None
    return PairNoise(sd=law_sd, df=law_df, over="scatter about the law of the gap")


def cell_multipliers(
    pairs: Differences, baseline: Baseline, law: Solution | None, noise: PairNoise | None
) -> tuple[CellMultipliers, ...]:
    """Both methods at every cell, ascending in N and D.

    Args:
        pairs: Of one format.
        baseline: The BF16 losses.
        law: Fitted to them; None where no law is.
        noise: Of a pair.
    """
    places = dict.fromkeys(zip(pairs.N.tolist(), pairs.D.tolist(), strict=True))
    groups = _by_cell(pairs)
    found = []
    for (N, D), gaps in zip(places, groups, strict=True):
        by_N, by_D = slopes(law, N, D) if law is not None else (None, None)
        found.append(
            CellMultipliers(
                N=N,
                D=D,
                gap=float(gaps.mean()),
                n=len(gaps),
                horizontal_D=_horizontal(
                    "eff_D", [baseline.effective_data(N, D, gap) for gap in gaps.tolist()]
                ),
                horizontal_N=_horizontal(
                    "eff_N", [baseline.effective_size(N, D, gap) for gap in gaps.tolist()]
                ),
                slope_D=_slope("eff_D", gaps, noise, by_D),
                slope_N=_slope("eff_N", gaps, noise, by_N),
            )
        )
    return tuple(found)


def _by_cell(pairs: Differences) -> list[Array]:
    places = np.stack([pairs.N, pairs.D])
    starts = np.flatnonzero(np.any(np.diff(places, axis=1) != 0, axis=0)) + 1
    return np.split(pairs.gap, starts)


def _horizontal(name: str, logs: Sequence[float | str]) -> Multiplier:
    for item in logs:
        if isinstance(item, str):
            return Multiplier(name=name, method=Method.HORIZONTAL, n=len(logs), reason=item)
    values = np.array(logs)
    mean = float(values.mean())
    if len(values) < 2:
        return Multiplier(
            name=name,
            value=exp(mean),
            n=1,
            method=Method.HORIZONTAL,
            reason="one pair has no interval",
        )
    half = t_half_width(float(values.std(ddof=1)) / sqrt(len(values)), len(values) - 1)
    return Multiplier(
        name=name,
        value=exp(mean),
        low=exp(mean - half),
        high=exp(mean + half),
        n=len(values),
        over=f"{len(values)} pairs of this cell",
        method=Method.HORIZONTAL,
    )


def _slope(name: str, gaps: Array, noise: PairNoise | None, slope: Slope | None) -> Multiplier:
    if slope is None:
        reason = "no law is fitted to the BF16 losses"
        return Multiplier(name=name, method=Method.SLOPE, n=len(gaps), reason=reason)
    se = noise.sd / sqrt(len(gaps)) if noise is not None else None
    found = local_multiplier(float(gaps.mean()), se, noise.df if noise is not None else 0, slope)
    match found:
        case str():
            return Multiplier(name=name, method=Method.SLOPE, n=len(gaps), reason=found)
        case LogRatio():
            low, high = found.ends or (None, None)
            return Multiplier(
                name=name,
                value=exp(found.value),
                low=low,
                high=high,
                n=len(gaps),
                over=noise.over if noise is not None else "",
                method=Method.SLOPE,
                reason="" if low is not None else "there is no repeat to judge the noise by",
            )
