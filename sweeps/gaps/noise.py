"""Noise floor: how far the same run lands from itself under other seeds, alone and as a pair.

In cell c (one model at one D) seed i has the losses b_ci under BF16 and f_ci under the recipe. With
deviations from the cell's means, averaged over the horizons of a model and pooled over models,

    s_b^2 = mean (b - b_c)^2      s_f^2 = mean (f - f_c)^2      q = mean (b - b_c)(f - f_c)
    pair s.d.^2 = s_b^2 + s_f^2 - 2 q = Var(gap between seeds),      rho = q / (s_b s_f)

rho is what pairing is worth: unpaired runs would need 1 / (1 - rho) times the seeds when s_b = s_f.
It is measured, since rounding makes trajectories part. Horizons of one run share its trunk: they
refine the mean square but add no degrees, df = sum over models of (seeds - 1). Nats per token.
Intervals: of an s.d. chi-squared, of rho by Fisher's z with df - 2.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import atanh, sqrt, tanh

import numpy as np
from scipy import stats

from sweeps.gaps.paired import Gap
from sweeps.intervals import LEVEL, Ends
from sweeps.laws.law import Array

LEAST_DF_OF_RHO = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Noise between seeds of one recipe and its BF16 partners, nats per token.

    Attributes:
        n_models: Models with repeated seeds.
        n_clusters: Their (model, seed) clusters.
        df: Degrees of freedom.
        bf16_sd: Of one BF16 run.
        recipe_sd: Of one run of the recipe.
        pair_sd: Of the gap of one pair.
        pair_interval: Of it, chi-squared.
        rho: Correlation of the two runs of a pair; None when one of them has no noise, and below
            `LEAST_DF_OF_RHO` degrees, where it may come out as anything.
        rho_interval: None without rho, and at +-1.
        level: Of the intervals.
    """

    n_models: int
    n_clusters: int
    df: int
    bf16_sd: float
    recipe_sd: float
    pair_sd: float
    pair_interval: Ends
    rho: float | None
    rho_interval: Ends | None
    level: float


def noise(gaps: Iterable[Gap], level: float = LEVEL) -> Noise | None:
    """Noise floor from the repeated seeds among the gaps of one recipe; None without a repeat."""
    models: dict[str, dict[int, list[Gap]]] = defaultdict(lambda: defaultdict(list))
    for gap in gaps:
        models[gap.cell][gap.tokens].append(gap)
    found = [part for cells in models.values() if (part := _of_model(list(cells.values())))]
    if not found:
        return None
    seeds, products = zip(*found, strict=True)
    df = sum(count - 1 for count in seeds)
    bf16, recipe, shared = np.sum(products, axis=0) / df
    pair = max(bf16 + recipe - 2 * shared, 0.0)
    is_known = df >= LEAST_DF_OF_RHO and bf16 * recipe > 0
    rho = float(np.clip(shared / sqrt(bf16 * recipe), -1, 1)) if is_known else None
    return Noise(
        n_models=len(found),
        n_clusters=sum(seeds),
        df=df,
        bf16_sd=sqrt(bf16),
        recipe_sd=sqrt(recipe),
        pair_sd=sqrt(pair),
        pair_interval=sd_interval(sqrt(pair), df, level),
        rho=rho,
        rho_interval=_rho_interval(rho, df, level),
        level=level,
    )


def sd_interval(sd: float, df: float, level: float = LEVEL) -> Ends:
    """Chi-squared interval of a standard deviation of normal noise, measured with df degrees."""
    tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], df)
    low, high = sd * np.sqrt(df / tails)
    return float(low), float(high)


def _of_model(cells: Sequence[list[Gap]]) -> tuple[int, Array] | None:
    """Seeds of a model, and (seeds - 1) times its mean squares and product over its horizons."""
    repeated = [cell for cell in cells if len(cell) > 1]
    if not repeated:
        return None
    seeds = len({gap.run_id for cell in repeated for gap in cell})
    squares = [np.cov(*_losses(cell)) for cell in repeated]
    mean = np.mean(squares, axis=0)
    return seeds, (seeds - 1) * np.array([mean[0, 0], mean[1, 1], mean[0, 1]])


def _losses(cell: Sequence[Gap]) -> tuple[list[float], list[float]]:
    return [gap.baseline_loss for gap in cell], [gap.loss for gap in cell]


def _rho_interval(rho: float | None, df: int, level: float) -> Ends | None:
    if rho is None or abs(rho) == 1:
        return None
    half = float(stats.norm.ppf((1 + level) / 2)) / sqrt(df - 2)
    return tanh(atanh(rho) - half), tanh(atanh(rho) + half)
