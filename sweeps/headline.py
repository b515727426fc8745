"""Headline: which recipe has the lowest loss against BF16, by how much, and is the order settled.

    g_rc  = mean over seeds of the gap of recipe r in cell c       nats per token
    g_rm  = mean of g_rc over the horizons of model m, in cells that every recipe with a gap shares
    G_r   = mean of g_rm over models
    lead  = mean over models of g_2m - g_1m, with a 95 % t interval over models

where 1 is the recipe of the lowest G and 2 the next. Only shared cells enter, so that a recipe does
not win by having diverged where the others are worst. Horizons of one run share its trunk and are
averaged first: a model, with all its other settings, is one observation.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.gaps import GapTable
from sweeps.intervals import interval_of_mean
from sweeps.paired import Gap, Missing
from sweeps.summaries import model_means, seed_mean, seed_percent
from sweeps.wording import listed, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Recipes by mean gap over models, in the cells that all of the recipes share.

    Attributes:
        recipes: Names, lowest mean gap first.
        means: Mean gap of each, nats per token.
        relative: Mean gap of each in percent of the BF16 loss.
        n_models: Models of the shared cells.
        n_cells: Shared cells.
        n_pairs: Pairs of the first recipe in them.
        interval: 95 % t interval of the first one's mean gap; None below 2 models.
        lead: By how much the second is farther, nats per token; None with one recipe.
        lead_interval: 95 % t interval of the lead; None below 2 models.
    """

    recipes: tuple[str, ...]
    means: tuple[float, ...]
    relative: tuple[float, ...]
    n_models: int
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
        recipe: model_means({key: seed_mean(own[key]) for key in shared})
        for recipe, own in cells.items()
    }
    percents = {
        recipe: model_means({key: seed_percent(own[key]) for key in shared})
        for recipe, own in cells.items()
    }
    order = sorted(table, key=lambda recipe: float(table[recipe].mean()))
    first = order[0]
    behind = table[order[1]] - table[first] if len(order) > 1 else None
    return Ranking(
        recipes=tuple(order),
        means=tuple(float(table[recipe].mean()) for recipe in order),
        relative=tuple(float(percents[recipe].mean()) for recipe in order),
        n_models=len(table[first]),
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
    subject = "has the lowest loss against" if len(ranking.recipes) > 1 else "against"
    return (
        f"{ranking.recipes[0]} {subject} BF16: {abs(gap):.4f} nats per token {where} it "
        f"({share:+.2f} % of the BF16 loss), {_interval(ranking.interval, ranking.n_models)}, "
        f"n = {plural(ranking.n_pairs, 'pair')} in {plural(ranking.n_cells, 'cell')}."
    )


def _lead(ranking: Ranking) -> tuple[str, ...]:
    if ranking.lead is None:
        return ()
    sure = _interval(ranking.lead_interval, ranking.n_models)
    is_settled = ranking.lead_interval is not None and ranking.lead_interval[0] > 0
    settled = "" if is_settled else " The order is not settled."
    return (
        f"{ranking.recipes[1]} is {ranking.lead:.4f} nats higher in the same cells ({sure})."
        f"{settled}",
    )


def _interval(ends: tuple[float, float] | None, n_models: int) -> str:
    if ends is None:
        return "no interval from a single model"
    return f"95 % t interval over {plural(n_models, 'model')} {ends[0]:+.4f} to {ends[1]:+.4f}"
