"""Headline: which recipe ends closest to BF16, by how much, and whether the order is settled.

    g_rc  = mean over seeds of the gap of recipe r in cell c       nats per token
    G_r   = mean of g_rc over the cells that every recipe with a gap shares
    lead  = mean over those cells of g_2c - g_1c, with a 95 % t interval over cells

where 1 is the recipe of the lowest G and 2 the next. Only shared cells enter, so that a recipe does
not win by having diverged where the others are worst. A cell is one (N, D) with all other fields.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.gaps import GapTable
from sweeps.intervals import interval_of_mean
from sweeps.paired import Gap, Missing
from sweeps.wording import listed, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Recipes by mean gap over the cells that all of them share.

    Attributes:
        recipes: Names, lowest mean gap first.
        means: Mean gap of each, nats per token.
        relative: Mean gap of each in percent of the BF16 loss.
        n_cells: Shared cells.
        n_pairs: Pairs of the first recipe in them.
        interval: 95 % t interval of the first one's mean gap; None below 2 cells.
        lead: By how much the second is farther, nats per token; None with one recipe.
        lead_interval: 95 % t interval of the lead; None below 2 cells.
    """

    recipes: tuple[str, ...]
    means: tuple[float, ...]
    relative: tuple[float, ...]
    n_cells: int
    n_pairs: int
    interval: tuple[float, float] | None
    lead: float | None
    lead_interval: tuple[float, float] | None


def rank(gaps: Sequence[Gap]) -> Ranking | None:
    """Order of the recipes; None when no cell is shared by all that have a gap."""
    cells: dict[str, dict[tuple[str, int], list[Gap]]] = defaultdict(lambda: defaultdict(list))
    for gap in gaps:
        cells[gap.recipe][gap.cell, gap.tokens].append(gap)
    shared = sorted(set.intersection(*(set(own) for own in cells.values()))) if cells else []
    if not shared:
        return None
    table = {
        recipe: np.array([np.mean([gap.gap for gap in own[cell]]) for cell in shared])
        for recipe, own in cells.items()
    }
    order = sorted(table, key=lambda recipe: float(table[recipe].mean()))
    first = order[0]
    behind = table[order[1]] - table[first] if len(order) > 1 else None
    return Ranking(
        recipes=tuple(order),
        means=tuple(float(table[recipe].mean()) for recipe in order),
        relative=tuple(
            float(np.mean([np.mean([g.relative for g in cells[recipe][cell]]) for cell in shared]))
            for recipe in order
        ),
        n_cells=len(shared),
        n_pairs=sum(len(cells[first][cell]) for cell in shared),
        interval=interval_of_mean(table[first]),
        lead=None if behind is None else float(behind.mean()),
        lead_interval=None if behind is None else interval_of_mean(behind),
    )


def headline(table: GapTable) -> tuple[str, ...]:
    """The answer in a few sentences, each number with unit, n and interval."""
    ranking = rank(table.gaps)
    missing = _missing(table)
    if ranking is None:
        none_shared = "The recipes share no cell in which all have a gap, so they have no order."
        return (*((none_shared,) if table.gaps else ()), *missing)
    return (_closest(ranking), *_lead(ranking), *missing)


def _missing(table: GapTable) -> tuple[str, ...]:
    silent = [summary.recipe for summary in table.summaries if not summary.n_pairs]
    lost = Counter(one.recipe for one in table.unpaired if one.reason is Missing.DIVERGED)
    said = [
        f"{recipe} diverged before {plural(number, 'endpoint')}, which "
        f"{'has' if number == 1 else 'have'} no gap."
        for recipe, number in lost.items()
    ]
    return (*((f"No gap could be measured for {listed(silent)}.",) if silent else ()), *said)


def _closest(ranking: Ranking) -> str:
    gap, share = ranking.means[0], ranking.relative[0]
    where = "above" if gap > 0 else "below"
    sure = (
        f"95 % interval {_range(ranking.interval)}"
        if ranking.interval is not None
        else "no interval from a single cell"
    )
    subject = "ends closest to BF16: its" if len(ranking.recipes) > 1 else "against BF16: its"
    return (
        f"{ranking.recipes[0]} {subject} loss is {abs(gap):.4f} nats per token {where} BF16 "
        f"({share:+.2f} % of the BF16 loss), {sure}, n = {plural(ranking.n_pairs, 'pair')} in "
        f"{plural(ranking.n_cells, 'cell')}."
    )


def _lead(ranking: Ranking) -> tuple[str, ...]:
    if ranking.lead is None:
        return ()
    second = ranking.recipes[1]
    if ranking.lead_interval is None:
        return (f"{second} is {ranking.lead:.4f} nats farther, from a single cell.",)
    low, _ = ranking.lead_interval
    settled = "" if low > 0 else " The interval includes zero: the order is not settled."
    return (
        f"{second} is {ranking.lead:.4f} nats farther over the same cells "
        f"(95 % interval {_range(ranking.lead_interval)}).{settled}",
    )


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:+.4f} to {ends[1]:+.4f}"
