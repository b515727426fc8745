"""What the terminal shows of gaps: cells, recipes, the noise between seeds, and what has no gap.

Each function takes an answer and returns lines and tables for a console. Losses and gaps are in
nats per token to four decimals, gaps carry their sign, a dash stands for what is not there.
"""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from api.terminal import MISSING, heading, number, plain_table
from sweeps.answer import Answer
from sweeps.effective.result import Effective, Multiplier
from sweeps.gaps.cell_rows import CellRow
from sweeps.gaps.certainty import Basis
from sweeps.gaps.pair import GapTable
from sweeps.gaps.paired import Unpaired
from sweeps.gaps.summaries import GapSummary, by_gap
from sweeps.intervals import Ends
from sweeps.wording import listed, plural

Lines = Iterator[RenderableType]

LISTED = 20
"""Lines of endpoints without a gap before the rest is counted."""


def answer_lines(answer: Answer) -> Lines:
    """The cells with their gaps, then what they say in words, fits included."""
    yield from _cells(answer.cells, answer.gaps, answer.unigram_entropy)
    for sentence in (*answer.headline, *answer.sentences):
        yield ""
        yield sentence


def gap_lines(answer: Answer, *, floors: bool = False) -> Lines:
    """The cells, the recipes, the noise between seeds, and what has no gap.

    Args:
        answer: What the sweep found.
        floors: Whether an E of its own was asked for each recipe.
    """
    yield from _cells(answer.cells, answer.gaps, answer.unigram_entropy)
    yield from _recipes(answer.gaps)
    summaries = by_gap(answer.gaps.summaries)
    yield from _repeats(summaries)
    order = [summary.recipe for summary in summaries]
    effective = sorted(answer.formats.effective, key=lambda one: order.index(one.label))
    yield from _worth(effective)
    if floors:
        yield from _floors(effective)
    yield from _without(answer.gaps.unpaired)
    for sentence in answer.headline:
        yield ""
        yield sentence


def _cells(rows: Sequence[CellRow], table: GapTable, entropy: Ends | None) -> Lines:
    level = f"{100 * table.level:.4g} %"
    is_sure = any(row.gap is not None and row.gap.low is not None for row in rows)
    title = "Cells: validation loss and gap to bf16, mean over seeds, nats per token"
    yield heading(title)
    if entropy is not None:
        low, high = (f"{value:.4f}" for value in entropy)
        told = low if low == high else f"{low} to {high}"
        yield f"Unigram entropy of the training tokens: {told}"
    if is_sure:
        yield f"+/-: half of the {level} t interval over seeds, noise of a recipe's cells pooled"
    noted = any(row.note for row in rows)
    shown = plain_table(
        left=("model", "recipe"),
        right=("tokens", "seeds", "loss", "gap", *(["+/-"] if is_sure else []), "gap %"),
    )
    if noted:
        shown.add_column("note", overflow="fold")
    for row in rows:
        shown.add_row(*_cell(row, is_sure), *([row.note] if noted else []))
    yield shown


def _cell(row: CellRow, is_sure: bool) -> tuple[str, ...]:
    gap = row.gap
    high = None if gap is None or gap.high is None else gap.high - gap.mean
    return (
        row.model,
        row.recipe,
        f"{row.tokens:,}",
        str(row.n_measured),
        number(row.loss, ".4f"),
        number(None if gap is None else gap.mean, "+.4f"),
        *([number(high, ".4f")] if is_sure else []),
        number(None if gap is None else gap.relative, "+.2f"),
    )


def _recipes(table: GapTable) -> Lines:
    summaries = by_gap(table.summaries)
    if not summaries:
        return
    bases = {one.certainty.basis for one in summaries if one.certainty is not None}
    level = f"{100 * table.level:.4g} %"
    over = "seeds at these models" if Basis.SEEDS in bases else "models"
    yield ""
    yield heading(f"Gap to bf16 by recipe: mean over models, nats per token, {level} t interval")
    yield "wins: pairs in which bf16 has the lower loss"
    if bases:
        yield f"low, high: over {over}"
        yield f"at {table.margin:g}: by two one-sided t tests the gap lies within that margin of"
        yield "zero, above it, or is no worse than it"
    shown = plain_table(
        left=("recipe",),
        right=("gap", "low", "high", "gap %", "wins", "no pair", f"at {table.margin:g}"),
    )
    for one in summaries:
        shown.add_row(
            one.recipe,
            number(one.mean, "+.4f"),
            number(one.low, "+.4f"),
            number(one.high, "+.4f"),
            number(one.mean_relative, "+.2f"),
            f"{one.n_bf16_wins}/{one.n_pairs}",
            str(one.n_unpaired),
            MISSING if one.certainty is None else one.certainty.equivalence.verdict.value,
        )
    yield shown
    reasons: dict[str, list[str]] = {}
    for one in summaries:
        if one.reason:
            reasons.setdefault(one.reason, []).append(one.recipe)
    for reason, recipes in reasons.items():
        yield f"{listed(recipes)}: {reason}"


def _repeats(summaries: Sequence[GapSummary]) -> Lines:
    """Intervals beside the first one, and the noise that they stand on."""
    sure = [one for one in summaries if one.seeds_needed is not None]
    if sure:
        yield ""
        yield heading("Other intervals of the mean gap, and what more seeds would show")
        yield "bootstrap: studentised, over seeds; over models: t, of models like these"
        yield "detects: gap told from zero with 80 % power; resolve: seeds of each model that"
        yield "tell this gap from zero; halve: seeds for an interval half as wide"
        table = plain_table(
            left=("recipe",),
            right=("bootstrap", "over models", "detects", "resolve", "halve"),
        )
        for one in sure:
            table.add_row(one.recipe, _ends(one.bootstrap), _ends(one.over_models), *_needed(one))
        yield table
    noisy = [(one.recipe, one.noise) for one in summaries if one.noise is not None]
    if noisy:
        level = f"{100 * noisy[0][1].level:.4g} %"
        yield ""
        yield heading(f"Noise between seeds, nats per token, {level} intervals in brackets")
        yield "pair s.d.: of one pair's gap; rho: of the two losses of a pair"
        table = plain_table(left=("recipe",), right=("models", "runs", "df", "pair s.d.", "rho"))
        for recipe, floor in noisy:
            rho = _within(floor.rho, floor.rho_interval, "+.2f")
            pair = _within(floor.pair_sd, floor.pair_interval, ".4f")
            counted = (str(floor.n_models), str(floor.n_clusters), str(floor.df))
            table.add_row(recipe, *counted, pair, rho)
        yield table


def _needed(one: GapSummary) -> tuple[str, str, str]:
    if one.seeds_needed is None or one.certainty is None:
        return MISSING, MISSING, MISSING
    return (
        f"{one.certainty.detectable:.4f}",
        number(one.seeds_needed.to_resolve, ","),
        number(one.seeds_needed.to_halve, ","),
    )


def _within(value: float | None, ends: Ends | None, form: str) -> str:
    """`0.0046 (0.0033 to 0.0076)`."""
    if value is None or ends is None:
        return number(value, form)
    return f"{value:{form}} ({ends[0]:{form}} to {ends[1]:{form}})"


def _ends(ends: Ends | None) -> str:
    return MISSING if ends is None else f"{ends[0]:+.4f} to {ends[1]:+.4f}"


def _worth(found: Sequence[Effective]) -> Lines:
    """Effective numbers, and why some of them are not known."""
    if not found:
        return
    yield ""
    yield heading("Worth in bf16: multipliers of compute, parameters and tokens, 95 % intervals")
    numbers = [(one, (one.C_mult, one.eff_N, one.eff_D)) for one in found]
    if any(item.value is not None for _, items in numbers for item in items):
        yield "A recipe pays from a speed-up over bf16 of 1 / C_mult"
        table = plain_table(left=("recipe",), right=("C_mult", "eff_N", "eff_D", "cells"))
        for one, items in numbers:
            table.add_row(one.label, *map(_multiplier, items), str(one.n_cells))
        yield table
    unknown: dict[tuple[str, str], list[str]] = {}
    for one, items in numbers:
        whys = [(item.name, _why(item)) for item in items if item.reason]
        for why in dict.fromkeys(why for _, why in whys):
            names = listed([name for name, its in whys if its == why])
            unknown.setdefault((names, why), []).append(one.label)
    for (names, why), labels in unknown.items():
        whose = "every recipe" if len(labels) == len(found) > 2 else listed(labels)
        yield f"{names} of {whose}: {why}"


def _why(one: Multiplier) -> str:
    return f"{'not identified' if one.value is None else 'no interval'}, {one.reason}"


def _multiplier(one: Multiplier) -> str:
    if one.value is None:
        return MISSING
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f} ({one.low:.3f}-{one.high:.3f})"


def _floors(found: Sequence[Effective]) -> Lines:
    """Whether recipes need an irreducible loss of their own."""
    tested = [(one.label, one.floor) for one in found if one.floor is not None]
    untested = [one.label for one in found if one.floor is None]
    yield ""
    yield heading("Irreducible loss E: shared with bf16, or one of the recipe's own")
    if not tested or untested:
        whose = listed(untested) if tested else "any recipe"
        yield f"not tested for {whose}: it takes a law of the bf16 losses with an E, and a C_mult"
    if not tested:
        return
    yield "held out: relative r.m.s. error in % at the largest model, left out of the fit"
    yield "an own E, a gap that never closes, needs the lower AICc and the lower error"
    table = plain_table(
        left=("recipe",),
        right=("AICc", "own E", "held out", "own E", "supported"),
    )
    for label, floor in tested:
        table.add_row(
            label,
            number(floor.aicc_shared, ".1f"),
            number(floor.aicc_own, ".1f"),
            number(_percent(floor.held_out_shared), ".3f"),
            number(_percent(floor.held_out_own), ".3f"),
            "yes" if floor.own_is_supported else "no",
        )
    yield table


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _without(unpaired: Sequence[Unpaired]) -> Lines:
    """Endpoints without a gap, one line for the seeds and tokens of a model that share a reason."""
    if not unpaired:
        return
    cells: dict[tuple[str, str, int, str], list[int]] = {}
    for one in unpaired:
        why = f"{one.reason}: {one.detail}" if one.detail else one.reason.value
        cells.setdefault((one.recipe, one.model, one.tokens, why), []).append(one.seed)
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for (recipe, model, tokens, why), seeds in cells.items():
        told = ", ".join(map(str, sorted(seeds)))
        groups.setdefault((model, recipe, told, why), []).append(f"{tokens:,}")
    yield ""
    yield heading(f"Without a gap: {plural(len(unpaired), 'endpoint')}")
    table = plain_table(left=("model", "recipe", "seed", "tokens", "reason"))
    for (model, recipe, told, why), budgets in list(groups.items())[:LISTED]:
        table.add_row(model, recipe, told, listed(budgets), why)
    yield table
    if len(groups) > LISTED:
        yield f"and {plural(len(groups) - LISTED, 'more line')}; --json lists every endpoint"
