"""Clusters: gaps grouped by what is independent, a (model, seed) of a sweep.

    v_mhs = value at model m, horizon h, seed s        v_mh = mean over seeds
    V_m   = mean over the horizons h of v_mh           what a model counts for
    r_ms  = mean over the horizons of s of v_mhs - v_mh
    v_ms  = V_m + r_ms - mean over seeds of r_ms       one value for each (model, seed)

Horizons of one run share its trunk, so that they are averaged first. Where every seed has every
horizon v_ms is simply the mean over horizons; where one is missing, the level of the horizons that
the seed does have does not pass for noise. A model is one with all its other settings.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from sweeps.gaps.paired import Gap
from sweeps.laws.law import Array


class Key(NamedTuple):
    """Where a value stands: the model (`Gap.cell`), D, and the BF16 run, which tells the seed."""

    model: str
    tokens: int
    seed: str


def key_of(gap: Gap) -> Key:
    """Where a gap stands."""
    return Key(gap.cell, gap.tokens, gap.baseline_id)


def gap_values(gaps: Iterable[Gap]) -> dict[Key, float]:
    """Gaps of one recipe in nats per token."""
    return {key_of(gap): gap.gap for gap in gaps}


def percent_values(gaps: Iterable[Gap]) -> dict[Key, float]:
    """Gaps of one recipe in percent of the BF16 loss."""
    return {key_of(gap): gap.relative for gap in gaps}


def clusters(values: Mapping[Key, float]) -> dict[str, Array]:
    """By model, one value for each seed, whose mean is what the model counts for."""
    cells: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for key, value in values.items():
        cells[key.model][key.tokens][key.seed] = value
    return {model: _of_model(horizons) for model, horizons in cells.items()}


def mean_over_models(groups: Mapping[str, Array]) -> float:
    """Mean over models of the mean over seeds."""
    return float(np.mean([group.mean() for group in groups.values()]))


def _of_model(horizons: Mapping[int, Mapping[str, float]]) -> Array:
    means = {tokens: float(np.mean(list(seeds.values()))) for tokens, seeds in horizons.items()}
    residuals: dict[str, list[float]] = defaultdict(list)
    for tokens, seeds in horizons.items():
        for seed, value in seeds.items():
            residuals[seed].append(value - means[tokens])
    apart = np.array([np.mean(residuals[seed]) for seed in sorted(residuals)])
    level = float(np.mean(list(means.values())))
    found: Array = level + apart - apart.mean()
    return found
