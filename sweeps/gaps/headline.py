"""Headline: which recipe has the lowest loss against BF16, by how much, and is the order settled.

    g_rmhs = gap of recipe r at model m, horizon h, seed s, where every recipe with a gap has one
    G_r    = mean over models of V_m of these (`sweeps.gaps.clusters`)            nats per token
    lead   = G_2 - G_1 over the same pairs, so that the BF16 loss cancels

where 1 is the recipe of the lowest G and 2 the next. Only shared pairs enter, so that a recipe does
not win by having diverged where the others are worst. The interval is over seeds at these models
where there are repeats, else over models. The two recipes compared are picked by their results out
of R (R - 1) / 2 pairs of recipes, so the lead is tested at the level that holds for all of them
together (Bonferroni).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from sweeps.gaps.certainty import Certainty, level_text, over
from sweeps.gaps.clusters import Key, clusters, key_of, mean_over_models
from sweeps.gaps.pair import GapTable
from sweeps.gaps.paired import Gap, Missing
from sweeps.gaps.summaries import certainty_of
from sweeps.intervals import LEVEL, mean_of_groups
from sweeps.wording import listed, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Recipes by mean gap over models, in the pairs that all of the recipes share.

    Attributes:
        recipes: Names, lowest mean gap first.
        means: Mean gap of each, nats per token.
        relative: Mean gap of each in percent of the BF16 loss.
        n_models: Models of the shared pairs.
        n_cells: Cells of the shared pairs.
        n_pairs: Shared pairs of one recipe.
        certainty: Of the first one's mean gap; None with one value in all.
        leads: By how much each of the others is farther, nats per token.
        lead_certainties: Of each lead, at the level that holds for all pairs of recipes together.
        n_comparisons: Pairs of recipes.
    """

    recipes: tuple[str, ...]
    means: tuple[float, ...]
    relative: tuple[float, ...]
    n_models: int
    n_cells: int
    n_pairs: int
    certainty: Certainty | None
    leads: tuple[float, ...]
    lead_certainties: tuple[Certainty | None, ...]
    n_comparisons: int

    @property
    def not_told_apart(self) -> tuple[str, ...]:
        """Recipes whose distance from the first may be zero."""
        apart = zip(self.recipes[1:], self.lead_certainties, strict=True)
        return tuple(name for name, sure in apart if sure is None or sure.low <= 0)


def rank(gaps: Sequence[Gap], level: float = LEVEL) -> Ranking | None:
    """Order of the recipes; None when no pair is shared by all that have a gap."""
    found: dict[str, dict[Key, Gap]] = defaultdict(dict)
    for gap in gaps:
        found[gap.recipe][key_of(gap)] = gap
    shared = sorted(set.intersection(*(set(own) for own in found.values()))) if found else []
    if not shared:
        return None
    absolute = {recipe: {key: own[key].gap for key in shared} for recipe, own in found.items()}
    percents = {recipe: {key: own[key].relative for key in shared} for recipe, own in found.items()}
    means = {recipe: mean_over_models(clusters(own)) for recipe, own in absolute.items()}
    order = sorted(means, key=lambda recipe: means[recipe])
    first = absolute[order[0]]
    comparisons = comb(len(order), 2)
    joint = 1 - (1 - level) / max(comparisons, 1)
    return Ranking(
        recipes=tuple(order),
        means=tuple(means[recipe] for recipe in order),
        relative=tuple(mean_over_models(clusters(percents[recipe])) for recipe in order),
        n_models=len({key.model for key in shared}),
        n_cells=len({key[:2] for key in shared}),
        n_pairs=len(shared),
        certainty=_certainty(first, level),
        leads=tuple(means[recipe] - means[order[0]] for recipe in order[1:]),
        lead_certainties=tuple(
            _certainty({key: absolute[recipe][key] - first[key] for key in shared}, joint)
            for recipe in order[1:]
        ),
        n_comparisons=comparisons,
    )


def headline(table: GapTable) -> tuple[str, ...]:
    """The answer in a few sentences, each number with unit, n and interval."""
    ranking = rank(table.gaps, table.level)
    missing = _missing(table)
    if ranking is None:
        none_shared = "The recipes share no cell in which all have a gap, so they have no order."
        return (*((none_shared,) if table.gaps else ()), *missing)
    is_part = any(summary.n_pairs > ranking.n_pairs for summary in table.summaries)
    shared = " that all recipes share" if is_part else ""
    return (_closest(ranking, shared), *_lead(ranking, table.level), *missing)


def _certainty(values: dict[Key, float], level: float) -> Certainty | None:
    groups = list(clusters(values).values())
    return certainty_of(mean_of_groups(groups), groups, level=level)


def _missing(table: GapTable) -> tuple[str, ...]:
    silent = [summary.recipe for summary in table.summaries if not summary.n_pairs]
    lost = Counter(one.recipe for one in table.unpaired if one.reason is Missing.DIVERGED)
    said = [
        f"{recipe} diverged before {plural(number, 'endpoint')}, which "
        f"{'has' if number == 1 else 'have'} no gap."
        for recipe, number in lost.items()
    ]
    return (*((f"No gap could be measured for {listed(silent)}.",) if silent else ()), *said)


def _closest(ranking: Ranking, shared: str) -> str:
    gap, share = ranking.means[0], ranking.relative[0]
    where = "above" if gap > 0 else "below"
    subject = "has the lowest loss against" if len(ranking.recipes) > 1 else "against"
    return (
        f"{ranking.recipes[0]} {subject} BF16: {abs(gap):.4f} nats per token {where} it "
        f"({share:+.2f} % of the BF16 loss), {over(ranking.certainty, ranking.n_models)}, "
        f"n = {plural(ranking.n_pairs, 'pair')} in {plural(ranking.n_cells, 'cell')}{shared}."
    )


def _lead(ranking: Ranking, level: float) -> tuple[str, ...]:
    if not ranking.leads:
        return ()
    sure = over(ranking.lead_certainties[0], ranking.n_models)
    if ranking.n_comparisons > 1 and ranking.lead_certainties[0] is not None:
        sure += (
            f", so that all {ranking.n_comparisons} pairs of recipes hold at {level_text(level)}"
        )
    said = f"{ranking.recipes[1]} is {ranking.leads[0]:.4f} nats higher in the same pairs ({sure})."
    open_ones = ranking.not_told_apart
    if not open_ones:
        return (said,)
    said += " The order is not settled."
    if len(open_ones) == len(ranking.leads) > 1:
        said += f" None of the other recipes is told apart from {ranking.recipes[0]}."
    elif len(ranking.recipes) > 2:
        said += f" Not told apart from {ranking.recipes[0]}: {listed(open_ones)}."
    return (said,)
