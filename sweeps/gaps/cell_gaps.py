"""Gaps of one recipe cell by cell; a cell is one model at one D, with all its seeds.

    g_c = mean over the k_c seeds,  s.e. = s / sqrt(k_c),  interval g_c +- t(df) s.e.

s is the noise of the recipe's cells pooled, with df = sum over models of (seeds - 1): horizons of
one run share its trunk and add no degrees. Where Bartlett's test finds the cells' noise unequal
(p < 0.01) each cell stands on its own s and k_c - 1 degrees. Below 2 degrees nothing is said.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy import stats

from sweeps.gaps.certainty import LEAST_DF, Basis, Certainty, certainty
from sweeps.gaps.paired import Gap
from sweeps.intervals import Ends, bootstrap_interval, pooled_noise
from sweeps.laws.law import Array

UNEQUAL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGap:
    """Mean gap of one cell over its seeds, nats per token.

    What needs repeated seeds is None without enough of them.

    Attributes:
        cell: Identity of everything but recipe, seeds and tokens.
        model: Name of the model.
        N: Non-embedding parameters.
        tokens: D.
        n_seeds: Pairs.
        n_bf16_wins: Pairs in which BF16 has the strictly lower loss.
        loss: Mean loss of the recipe.
        baseline_loss: Mean loss of the BF16 partners.
        mean: Mean gap.
        relative: Mean gap in percent of the baseline's loss.
        sd: Standard deviation of the gap between the seeds of this cell alone.
        is_pooled: Whether the noise behind the interval is pooled over the recipe's cells.
        certainty: Interval over seeds and what follows.
        bootstrap: Ends of the studentised bootstrap interval over this cell's seeds; None also
            with too few of them.
    """

    cell: str
    model: str
    N: int
    tokens: int
    n_seeds: int
    n_bf16_wins: int
    loss: float
    baseline_loss: float
    mean: float
    relative: float
    sd: float | None
    is_pooled: bool
    certainty: Certainty | None
    bootstrap: Ends | None

    @property
    def low(self) -> float | None:
        """Lower end of the t interval over seeds."""
        return self.certainty.low if self.certainty is not None else None

    @property
    def high(self) -> float | None:
        """Upper end of the t interval over seeds."""
        return self.certainty.high if self.certainty is not None else None


@dataclass(frozen=True, slots=True)
class _Noise:
    """Of one pair's gap."""

    sd: float
    df: int
    is_pooled: bool


def cell_gaps(gaps: Sequence[Gap], *, level: float, margin: float) -> tuple[CellGap, ...]:
    """The cells of one recipe, by N, tokens and settings."""
    groups: dict[tuple[int, int, str], list[Gap]] = defaultdict(list)
    for gap in gaps:
        groups[gap.N, gap.tokens, gap.cell].append(gap)
    cells = [groups[key] for key in sorted(groups)]
    pooled = _pooled(cells)
    return tuple(_cell(cell, pooled, level, margin) for cell in cells)


def _pooled(cells: Sequence[Sequence[Gap]]) -> _Noise | None:
    """The noise of all cells; None without a repeat, or where it is not one noise."""
    values = [_values(cell) for cell in cells]
    noise = pooled_noise(values)
    if noise is None or _is_unequal([one for one in values if len(one) > 1]):
        return None
    seeds: dict[str, int] = {}
    for cell in cells:
        seeds[cell[0].cell] = max(seeds.get(cell[0].cell, 0), len(cell))
    df = sum(count - 1 for count in seeds.values())
    return _Noise(noise[0], df, is_pooled=True) if df >= LEAST_DF else None


def _is_unequal(repeated: Sequence[Array]) -> bool:
    variances = [float(one.var()) for one in repeated]
    if len(repeated) < 2 or not any(variances):
        return False
    return not all(variances) or float(stats.bartlett(*repeated).pvalue) < UNEQUAL


def _values(cell: Sequence[Gap]) -> Array:
    return np.array([gap.gap for gap in cell])


def _cell(cell: Sequence[Gap], pooled: _Noise | None, level: float, margin: float) -> CellGap:
    values = _values(cell)
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    noise = pooled
    if noise is None and sd is not None and len(values) > LEAST_DF:
        noise = _Noise(sd, len(values) - 1, is_pooled=False)
    mean = float(values.mean())
    return CellGap(
        cell=cell[0].cell,
        model=cell[0].model,
        N=cell[0].N,
        tokens=cell[0].tokens,
        n_seeds=len(cell),
        n_bf16_wins=sum(gap.bf16_wins for gap in cell),
        loss=float(np.mean([gap.loss for gap in cell])),
        baseline_loss=float(np.mean([gap.baseline_loss for gap in cell])),
        mean=mean,
        relative=float(np.mean([gap.relative for gap in cell])),
        sd=sd,
        is_pooled=noise is not None and noise.is_pooled,
        certainty=None
        if noise is None
        else certainty(
            mean,
            noise.sd / sqrt(len(cell)),
            noise.df,
            basis=Basis.SEEDS,
            level=level,
            margin=margin,
        ),
        bootstrap=bootstrap_interval([values], level),
    )
