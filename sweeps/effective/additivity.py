"""Whether what quantization costs in parts adds up to what it costs together.

    excess = L(whole) - L(bf16) - sum over the parts of (L(part) - L(bf16))
    t      = mean / (s.d. / sqrt(n)),   mean +- t(n - 1) s.e.

over the pairs of (N, D) and cluster that all of them share. Above 0 the parts hurt one another
more than apart, below 0 less. Nats per token. With several pairs in one cluster their means are
taken first, so n counts clusters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt

import numpy as np

from kernels.recipes import GEMMS, Gemm, Recipe
from sweeps.fits.differences import Differences, differences
from sweeps.fits.points import Points
from sweeps.intervals import t_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Additivity:
    """A whole against the sum of its parts.

    Attributes:
        whole: Name of the arm.
        parts: Names of the arms that it is made of.
        mean: Of the excess, nats per token.
        sd: Of the excess over clusters; None for one.
        t: mean over its standard error; None for one cluster.
        interval: 95 %, over clusters; None for one.
        n_clusters: Clusters that hold all of them.
        n_pairs: (N, D) and cluster.
    """

    whole: str
    parts: tuple[str, ...]
    mean: float
    sd: float | None
    t: float | None
    interval: tuple[float, float] | None
    n_clusters: int
    n_pairs: int


def additivity(points: Points, whole: str, parts: Sequence[str]) -> Additivity | None:
    """The excess of a whole over its parts; None where no pair holds all of them."""
    tables = [_by_pair(differences(points, arm)) for arm in (whole, *parts)]
    shared = sorted(set.intersection(*(set(table) for table in tables)))
    if not shared:
        return None
    excess = np.array([tables[0][key] - sum(table[key] for table in tables[1:]) for key in shared])
    _, index = np.unique([cluster for _, _, cluster in shared], return_inverse=True)
    means = np.bincount(index, weights=excess) / np.bincount(index)
    n = len(means)
    sd = float(means.std(ddof=1)) if n > 1 else None
    return Additivity(
        whole=whole,
        parts=tuple(parts),
        mean=float(means.mean()),
        sd=sd,
        t=float(means.mean()) / (sd / sqrt(n)) if sd else None,
        interval=t_interval(means),
        n_clusters=n,
        n_pairs=len(shared),
    )


def decompositions(recipes: Mapping[str, Recipe]) -> list[tuple[str, tuple[str, ...]]]:
    """Recipes that are others put together: (whole, parts).

    Each quantized GEMM of the whole is that of exactly one part, whose other GEMMs stay in the
    carrier; all else agrees.
    """
    found = []
    for whole, recipe in recipes.items():
        quantized = [name for name in GEMMS if _gemm(recipe, name).is_quantized]
        smaller = {
            name: gemms
            for name, other in recipes.items()
            if name != whole and (gemms := _taken(other, recipe, quantized))
        }
        for count in range(2, len(quantized) + 1):
            for parts in combinations(smaller, count):
                taken = [gemm for part in parts for gemm in smaller[part]]
                if sorted(taken) == sorted(quantized):
                    found.append((whole, parts))
    return found


def _taken(part: Recipe, whole: Recipe, quantized: Sequence[str]) -> tuple[str, ...]:
    """GEMMs of the whole that the part quantizes as it does; empty if it does anything else."""
    mine = tuple(name for name in GEMMS if _gemm(part, name).is_quantized)
    if not mine or not set(mine) < set(quantized):
        return ()
    fprop, dgrad, wgrad = (_gemm(whole, name) if name in mine else Gemm() for name in GEMMS)
    try:
        rest = replace(whole, name=part.name, fprop=fprop, dgrad=dgrad, wgrad=wgrad)
    except ValueError:
        # A backward operand quantized from what fprop multiplies has no part without fprop.
        return ()
    return mine if rest == part else ()


def _gemm(recipe: Recipe, name: str) -> Gemm:
    gemm: Gemm = getattr(recipe, name)
    return gemm


def _by_pair(pairs: Differences) -> dict[tuple[float, float, int], float]:
    keys = zip(pairs.N.tolist(), pairs.D.tolist(), pairs.origin.tolist(), strict=True)
    return dict(zip(keys, pairs.gap.tolist(), strict=True))
