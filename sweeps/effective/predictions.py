"""Published laws held against measured gaps: what they predict, beside what was found.

    size    Kumar, Sun (Tencent)     a gap in nats at each cell: rms of the difference, share of
            cells with the measured sign, Spearman's rank correlation over the cells
    order   Panferov                 which of two recipes has the smaller gap: rank correlation over
            recipes, which is 1 where the order is as predicted
    signs   Chen (ByteDance)         the gap falls with N and rises with D: against the exponents
            a, b of gap = c N^a D^b, where their 95 % intervals leave 0 out

The constants are as published, of other models, data and blocks: a law that misses the size may
still have the order. Gaps in nats per token, means over the pairs of a cell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from kernels.recipes import Recipe
from sweeps.fits.differences import Differences
from sweeps.fits.gap_result import GapFit
from sweeps.laws.law import Array
from sweeps.laws.published import bytedance, kumar, tencent, unified

LEAST_RANKED = 3
"""Two values are always in order or against it."""

SIZES: Mapping[str, Callable[[Recipe, Array, Array], Array | str]] = {
    kumar.NAME: kumar.gap,
    tencent.NAME: tencent.gap,
}
RANGES = {
    kumar.NAME: (kumar.N_RANGE, kumar.D_RANGE),
    tencent.NAME: (tencent.N_RANGE, tencent.D_RANGE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A law that gives sizes, against the gaps of one recipe.

    Attributes:
        law: Its name.
        recipe: Name of the recipe.
        N: Parameters of each cell.
        D: Tokens of each cell.
        measured: Mean gap of each cell, nats per token.
        predicted: Gap of each cell by the law; empty where it says nothing.
        rms: Of predicted - measured; None without a prediction.
        same_sign: Share of the cells with the measured sign.
        rank: Spearman's correlation over the cells; None below 3 or for equal values.
        decades: How far the farthest cell lies outside the law's own runs, in powers of ten of N or
            D; 0 inside.
        reason: Why it says nothing; else empty.
    """

    law: str
    recipe: str
    N: tuple[float, ...]
    D: tuple[float, ...]
    measured: tuple[float, ...]
    predicted: tuple[float, ...] = ()
    rms: float | None = None
    same_sign: float | None = None
    rank: float | None = None
    decades: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A law against the order of the recipes by their mean gap over shared cells.

    Attributes:
        law: Its name.
        recipes: Those that it speaks of, by the predicted gap, smallest first.
        measured: Their mean gaps, nats per token, over the cells that all of them have.
        rank: Spearman's correlation; None below 3 recipes or for equal values.
        n_cells: Cells that all of them have.
    """

    law: str
    recipes: tuple[str, ...]
    measured: tuple[float, ...]
    rank: float | None
    n_cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """A law that gives signs, against the power law of one recipe's gap.

    Attributes:
        law: Its name.
        recipe: Name of the recipe.
        with_N: Whether the gap moves with N as predicted; None where its exponent may be 0.
        with_D: The same with D.
        reason: Why it says nothing; else empty.
    """

    law: str
    recipe: str
    with_N: bool | None = None
    with_D: bool | None = None
    reason: str = ""


def predicted(recipe: Recipe, pairs: Differences) -> tuple[Predicted, ...]:
    """Every law that gives sizes, against the gaps of one recipe."""
    cells = _cells(pairs)
    N, D = (np.array([place[axis] for place in cells]) for axis in (0, 1))
    measured = np.array(list(cells.values()))
    return tuple(_predicted(law, recipe, N, D, measured) for law in SIZES)


def orders(recipes: Mapping[str, Recipe], tables: Mapping[str, Differences]) -> tuple[Order, ...]:
    """Every law that orders recipes, those with sizes among them."""
    found = []
    for law in (*SIZES, unified.NAME):
        speaking = [name for name in tables if _worth(law, recipes[name], 1e8, 1e10) is not None]
        shared = _shared([_cells(tables[name]) for name in speaking])
        if not shared:
            continue
        worth = {name: _mean_worth(law, recipes[name], shared) for name in speaking}
        order = sorted(speaking, key=lambda name: worth[name])
        gaps = {name: _mean_gap(tables[name], shared) for name in speaking}
        found.append(
            Order(
                law=law,
                recipes=tuple(order),
                measured=tuple(gaps[name] for name in order),
                rank=_rank([worth[name] for name in order], [gaps[name] for name in order]),
                n_cells=len(shared),
            )
        )
    return tuple(found)


def signs(recipe: Recipe, power: GapFit | None, name: str) -> Signs:
    """The law of signs against the power law of one recipe's gap."""
    law = bytedance.NAME
    if silence := bytedance.silence(recipe):
        return Signs(law=law, recipe=name, reason=silence)
    if power is None:
        return Signs(law=law, recipe=name, reason="no power law of the gap is determined")
    ends = {item.name: (item.low, item.high) for item in power.estimates}
    return Signs(
        law=law,
        recipe=name,
        with_N=_agrees(bytedance.SIGN_OF_N, *ends["a"]),
        with_D=_agrees(bytedance.SIGN_OF_D, *ends["b"]),
    )


def _predicted(law: str, recipe: Recipe, N: Array, D: Array, measured: Array) -> Predicted:
    gaps = SIZES[law](recipe, N, D)
    silent = Predicted(
        law=law,
        recipe=recipe.name,
        N=tuple(N.tolist()),
        D=tuple(D.tolist()),
        measured=tuple(measured.tolist()),
        decades=max(map(_decades, (N, D), RANGES[law])),
    )
    if isinstance(gaps, str):
        return replace(silent, reason=gaps)
    return replace(
        silent,
        predicted=tuple(gaps.tolist()),
        rms=float(np.sqrt(np.mean((gaps - measured) ** 2))),
        same_sign=float(np.mean(np.sign(gaps) == np.sign(measured))),
        rank=_rank(gaps.tolist(), measured.tolist()),
    )


def _decades(values: Array, bounds: tuple[float, float]) -> float:
    low, high = np.log10(bounds)
    places = np.log10(values)
    return float(max(0.0, low - places.min(), places.max() - high))


def _agrees(sign: int, low: float | None, high: float | None) -> bool | None:
    if low is None or high is None or low <= 0 <= high:
        return None
    return sign * low > 0


def _rank(one: Sequence[float], other: Sequence[float]) -> float | None:
    if len(one) < LEAST_RANKED or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(stats.spearmanr(one, other).statistic)


def _worth(law: str, recipe: Recipe, N: float, D: float) -> float | None:
    """A number that grows with the predicted gap; None where the law says nothing."""
    if law == unified.NAME:
        capacity = unified.capacity(recipe)
        return None if isinstance(capacity, str) else -capacity
    gap = SIZES[law](recipe, np.array([N]), np.array([D]))
    return None if isinstance(gap, str) else float(gap[0])


def _mean_worth(law: str, recipe: Recipe, cells: Sequence[tuple[float, float]]) -> float:
    values = [_worth(law, recipe, N, D) for N, D in cells]
    return float(np.mean([value for value in values if value is not None]))


def _mean_gap(pairs: Differences, cells: Sequence[tuple[float, float]]) -> float:
    means = _cells(pairs)
    return float(np.mean([means[cell] for cell in cells]))


def _shared(
    tables: Sequence[dict[tuple[float, float], float]],
) -> list[tuple[float, float]]:
    return sorted(set.intersection(*map(set, tables))) if tables else []


def _cells(pairs: Differences) -> dict[tuple[float, float], float]:
    gaps: dict[tuple[float, float], list[float]] = {}
    for N, D, gap in zip(pairs.N.tolist(), pairs.D.tolist(), pairs.gap.tolist(), strict=True):
        gaps.setdefault((N, D), []).append(gap)
    return {place: float(np.mean(values)) for place, values in gaps.items()}
