"""Summary of one recipe's gaps over cells; a cell is one (N, D) with all fields but the seeds.

With k seeds in cell c,

    g_c = mean over seeds,   s^2 = sum_c sum_s (g_cs - g_c)^2 / sum_c (k_c - 1)   seed noise, pooled
    s.e.(g_c) = s / sqrt(k_c),   interval of a cell: t with sum_c (k_c - 1) degrees of freedom
    G_m       = mean of g_c over the cells of one model, its horizons
    mean gap  = mean over models of G_m,  interval: t over the G_m, n_models - 1 degrees

Horizons of one run share its trunk, so that their gaps are no independent observations: a model is
one. The interval of the mean holds seed noise and how the gap differs from model to model.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from sweeps.intervals import interval_of_mean, pooled_noise, t_half_width
from sweeps.laws.law import Array
from sweeps.paired import Gap, Unpaired

NO_INTERVAL = {0: "no pair", 1: "one model: an interval over models needs at least 2"}
"""Why so few models give no mean or no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellGap:
    """Mean gap of one cell over its seeds; s.e. and interval are None without repeated seeds."""

    model: str
    N: int
    tokens: int
    n_seeds: int
    mean: float
    se: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapSummary:
    """What the gaps of one recipe say together.

    Attributes:
        recipe: Its name.
        n_models: Models, with all their other settings, that have at least one pair.
        n_cells: Cells with at least one pair.
        n_pairs: Pairs in them.
        n_unpaired: Endpoints of the recipe without a pair.
        n_bf16_wins: Pairs in which BF16 has the strictly lower loss.
        mean: Mean gap over models, nats per token; None without a pair.
        low: Lower end of the 95 % t interval over models; None below 2 models.
        high: Upper end of it.
        mean_relative: Mean over models of the gap in percent of the baseline's loss.
        reason: Why there is no mean or no interval; else empty.
        seed_sd: Pooled s.d. of paired differences between seeds; None without repeats.
        seed_df: Its degrees of freedom.
        cells: The cells, by N and tokens.
    """

    recipe: str
    n_models: int
    n_cells: int
    n_pairs: int
    n_unpaired: int
    n_bf16_wins: int
    mean: float | None
    low: float | None
    high: float | None
    mean_relative: float | None
    reason: str
    seed_sd: float | None
    seed_df: int
    cells: tuple[CellGap, ...]


def summarise(recipe: str, gaps: Sequence[Gap], unpaired: Sequence[Unpaired]) -> GapSummary:
    """Summary of the gaps of one recipe among all."""
    mine = [gap for gap in gaps if gap.recipe == recipe]
    groups: dict[tuple[int, int, str], list[Gap]] = defaultdict(list)
    for gap in mine:
        groups[gap.N, gap.tokens, gap.cell].append(gap)
    cells = [groups[key] for key in sorted(groups)]
    noise = pooled_noise([np.array([gap.gap for gap in cell]) for cell in cells])
    means = model_means({(cell[0].cell, cell[0].tokens): seed_mean(cell) for cell in cells})
    relative = model_means({(cell[0].cell, cell[0].tokens): seed_percent(cell) for cell in cells})
    low, high = interval_of_mean(means) or (None, None)
    return GapSummary(
        recipe=recipe,
        n_models=len(means),
        n_cells=len(cells),
        n_pairs=len(mine),
        n_unpaired=sum(lone.recipe == recipe for lone in unpaired),
        n_bf16_wins=sum(gap.bf16_wins for gap in mine),
        mean=float(means.mean()) if cells else None,
        low=low,
        high=high,
        mean_relative=float(relative.mean()) if cells else None,
        reason=NO_INTERVAL.get(len(means), ""),
        seed_sd=noise[0] if noise is not None else None,
        seed_df=noise[1] if noise is not None else 0,
        cells=tuple(_cell(cell, noise) for cell in cells),
    )


def seed_mean(cell: Sequence[Gap]) -> float:
    """Mean gap of a cell over its seeds, nats per token."""
    return float(np.mean([gap.gap for gap in cell]))


def seed_percent(cell: Sequence[Gap]) -> float:
    """Mean gap of a cell over its seeds, percent of the baseline's loss."""
    return float(np.mean([gap.relative for gap in cell]))


def model_means(values: Mapping[tuple[str, int], float]) -> Array:
    """Mean over the horizons of each model, from values by (`Gap.cell`, tokens)."""
    horizons: dict[str, list[float]] = defaultdict(list)
    for (model, _), value in values.items():
        horizons[model].append(value)
    return np.array([np.mean(values) for values in horizons.values()])


def _cell(cell: Sequence[Gap], noise: tuple[float, int] | None) -> CellGap:
    mean = seed_mean(cell)
    se = noise[0] / sqrt(len(cell)) if noise is not None else None
    half = t_half_width(se, noise[1]) if noise is not None and se is not None else None
    return CellGap(
        model=cell[0].model,
        N=cell[0].N,
        tokens=cell[0].tokens,
        n_seeds=len(cell),
        mean=mean,
        se=se,
        low=mean - half if half is not None else None,
        high=mean + half if half is not None else None,
    )
