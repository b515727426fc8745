"""Paired gaps made from a noise model, for tests of what many pairs say together."""

from collections.abc import Sequence

import numpy as np

from sweeps.gaps.paired import Gap
from sweeps.laws.law import Array


def made_gap(
    gap: float, *, model: int = 0, tokens: int = 1000, seed: int = 0, baseline: float = 2.0
) -> Gap:
    """One pair."""
    return Gap(
        label=f"m{model} ufp4 s{seed}",
        model=f"m{model}",
        N=100 * (model + 1),
        recipe="ufp4",
        seed=seed,
        tokens=tokens,
        flops=6.0 * tokens,
        cell=f"cell-{model}",
        run_id=f"run-{model}-{seed}",
        baseline_id=f"bf16-{model}-{seed}",
        loss=baseline + gap,
        baseline_loss=baseline,
    )


def pairs_of(losses: Array, baselines: Array) -> list[Gap]:
    """Pairs from losses of shape (models, horizons, seeds)."""
    return [
        made_gap(
            float(losses[place] - baselines[place]),
            model=place[0],
            tokens=1000 * (place[1] + 1),
            seed=place[2],
            baseline=float(baselines[place]),
        )
        for place in np.ndindex(losses.shape)
    ]


def drawn_pairs(
    random: np.random.Generator,
    gaps: Sequence[float],
    *,
    horizons: int,
    seeds: int,
    rho: float,
    sd: float = 0.004,
    trunk: float = 0.7,
) -> list[Gap]:
    """Pairs with a true gap for each model.

    Args:
        random: Source of the noise.
        gaps: True gap of each model, the same at all horizons.
        horizons: Of each run.
        seeds: Of each model.
        rho: Correlation of the losses of a pair.
        sd: Of one run's loss between seeds.
        trunk: Correlation of the losses of one run at two horizons.
    """
    shape = (len(gaps), horizons, seeds)

    def noise() -> Array:
        own = random.standard_normal(shape)
        shared = random.standard_normal((len(gaps), 1, seeds))
        found: Array = sd * (np.sqrt(1 - trunk) * own + np.sqrt(trunk) * shared)
        return found

    common, baseline, recipe = noise(), noise(), noise()
    level = 2.0 - 0.1 * np.arange(horizons)[None, :, None]
    bf16 = level + np.sqrt(rho) * common + np.sqrt(1 - rho) * baseline
    true = np.array(gaps)[:, None, None]
    return pairs_of(level + true + np.sqrt(rho) * common + np.sqrt(1 - rho) * recipe, bf16)
