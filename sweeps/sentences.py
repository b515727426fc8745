"""The answer in words: every number with its unit, n and interval."""

from collections import Counter
from collections.abc import Sequence

from sweeps.effective.result import Effective
from sweeps.endpoints import Row
from sweeps.fits.result import Fit
from sweeps.fits.verdict import absent_sentence
from sweeps.gaps.certainty import Basis, over
from sweeps.gaps.equivalence import Verdict
from sweeps.gaps.pair import GapTable
from sweeps.gaps.paired import Gap, Missing, Unpaired
from sweeps.gaps.summaries import GapSummary
from sweeps.records import Outcome, RunRecord
from sweeps.wording import listed, plural

LISTED = 12
"""Items named one by one before the rest is counted."""

UNFINISHED = (Missing.UNFINISHED, Missing.BASELINE_UNFINISHED)

ONE_SEED = "Too few repeated seeds: no interval is over seeds, and no noise floor is known."


def sentences(
    runs: Sequence[RunRecord],
    rows: Sequence[Row],
    table: GapTable,
    fits: Sequence[Fit],
    effective: Sequence[Effective],
    learnt: str,
) -> list[str]:
    """What the sweep found, most important first.

    Args:
        runs: Every run once.
        rows: Every planned endpoint.
        table: Its gaps.
        fits: One for each recipe.
        effective: What each recipe is worth in BF16.
        learnt: The sentence that sets the losses against the unigram entropy.
    """
    return [
        _progress(rows),
        *([learnt] if learnt else []),
        *_diverged(runs),
        *(_summary(summary) for summary in table.summaries),
        *_floor(table.summaries),
        *_beside_margin(table),
        *_beaten(table.gaps),
        *_alone(table),
        *_fits(fits),
        *_worth(effective),
    ]


def learnt(losses: Sequence[tuple[float, float]]) -> str:
    """Sets losses against unigram entropies, given as pairs; empty without any."""
    if not losses:
        return ""
    values, entropies = zip(*losses, strict=True)
    below = sum(loss < entropy for loss, entropy in losses)
    return (
        f"Unigram entropy of the training tokens is {_range(entropies)} nats per token; "
        f"{below} of {len(losses)} endpoint losses lie below it ({_range(values)})."
    )


def _diverged(runs: Sequence[RunRecord]) -> list[str]:
    lost = [run for run in runs if run.outcome is Outcome.DIVERGED]
    said = [f"{run.spec.label} diverged: {run.detail}." for run in lost[:LISTED]]
    more = len(lost) - len(said)
    return [*said, f"{plural(more, 'more run')} diverged."] if more else said


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4f}", f"{max(values):.4f}"
    return low if low == high else f"{low} to {high}"


def _progress(rows: Sequence[Row]) -> str:
    if not rows:
        return "No endpoint was asked for."
    missing = Counter(row.reason for row in rows if row.loss is None or row.reason == "diverged")
    parts = "".join(f", {count} {reason}" for reason, count in sorted(missing.items()))
    return f"{len(rows) - missing.total()} of {len(rows)} endpoints measured{parts}."


def _summary(summary: GapSummary) -> str:
    if summary.mean is None or summary.mean_relative is None:
        return f"{summary.recipe}: no gap, as none of its endpoints has a pair."
    cells, pairs = plural(summary.n_cells, "cell"), plural(summary.n_pairs, "pair")
    return (
        f"{summary.recipe}: mean gap to bf16 {summary.mean:+.4f} nats per token "
        f"({summary.mean_relative:+.2f} % of the bf16 loss) over {cells}, "
        f"{over(summary.certainty, summary.n_models)}; "
        f"bf16 is better in {summary.n_bf16_wins} of {pairs}"
        f"{f', {summary.n_diverged} more diverged' if summary.n_diverged else ''}."
    )


def _floor(summaries: Sequence[GapSummary]) -> list[str]:
    """The noise between seeds, and which gap so many seeds can show."""
    floors = [summary.noise.pair_sd for summary in summaries if summary.noise is not None]
    found = [
        summary.certainty.detectable
        for summary in summaries
        if summary.certainty is not None and summary.certainty.basis is Basis.SEEDS
    ]
    if not floors or not found:
        return [ONE_SEED] if any(summary.n_pairs for summary in summaries) else []
    seeds = _span([summary.seeds_needed.present for summary in summaries if summary.seeds_needed])
    noise = _range(floors)
    return [
        f"Noise between seeds: the gap of one pair has a standard deviation of {noise} nats per "
        f"token; with {seeds} at each model a mean gap of {_range(found)} would be told from zero "
        "with 80 % power."
    ]


def _beside_margin(table: GapTable) -> list[str]:
    """Recipes by what the equivalence test says of them."""
    said: dict[Verdict, list[str]] = {}
    for summary in table.summaries:
        if summary.certainty is not None:
            said.setdefault(summary.certainty.equivalence.verdict, []).append(summary.recipe)
    words = {
        Verdict.EQUIVALENT: "within it",
        Verdict.NO_WORSE: "no worse than it",
        Verdict.WORSE: "above it",
        Verdict.UNDECIDED: "undecided",
    }
    parts = [f"{word}: {listed(said[one])}" for one, word in words.items() if one in said]
    if not parts:
        return []
    return [
        f"Mean gap beside a margin of {table.margin:g} nats (two one-sided t tests at "
        f"{100 * table.level:.4g} %): {'; '.join(parts)}."
    ]


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return plural(low, "seed") if low == high else f"{low} to {high} seeds"


def _beaten(gaps: Sequence[Gap]) -> list[str]:
    if not gaps:
        return []
    lost = [gap for gap in gaps if not gap.bf16_wins]
    if not lost:
        every = "its only pair" if len(gaps) == 1 else f"every one of the {len(gaps):,} pairs"
        return [f"bf16 has the lower loss in {every}."]
    named = [f"{gap.label} at {gap.tokens:,} tokens ({gap.gap:+.4f})" for gap in lost]
    pairs = "its only pair" if len(gaps) == 1 else f"{len(lost)} of {len(gaps):,} pairs"
    return [f"bf16 does not have the lower loss in {pairs}: {_listing(named)}."]


def _alone(table: GapTable) -> list[str]:
    if not table.unpaired:
        return []
    waiting = [item for item in table.unpaired if item.reason in UNFINISHED]
    runs: dict[tuple[str, str], list[str]] = {}
    for item in table.unpaired:
        if item.reason not in UNFINISHED:
            runs.setdefault((item.label, item.reason), []).append(f"{item.tokens:,}")
    named = [f"{label} at {listed(at)} tokens ({why})" for (label, why), at in runs.items()]
    parts = [_listing(named)] if named else []
    if waiting:
        parts.append(_waiting(waiting))
    return [f"Without a gap: {'; '.join(parts)}."]


def _waiting(waiting: Sequence[Unpaired]) -> str:
    """They come by themselves, so that they are counted rather than named."""
    runs = len({item.run_id for item in waiting})
    own = any(item.reason is Missing.UNFINISHED for item in waiting)
    partner = any(item.reason is Missing.BASELINE_UNFINISHED for item in waiting)
    whose = [*(["it"] if own else []), *(["its baseline"] if partner else [])]
    return (
        f"{plural(len(waiting), 'endpoint')} of {plural(runs, 'run')}, as "
        f"{' or '.join(whose)} is unfinished"
    )


def _listing(named: Sequence[str]) -> str:
    more = f"; and {plural(len(named) - LISTED, 'more run')}" if len(named) > LISTED else ""
    return "; ".join(named[:LISTED]) + more


def _fits(fits: Sequence[Fit]) -> list[str]:
    """The verdicts, each sentence once with all the recipes that it holds for.

    Constants are told of the first recipe alone, BF16; the tables of the fits have the others.
    """
    said: dict[tuple[int, str], list[str]] = {}
    for fit in fits:
        for place, sentence in enumerate(fit.verdict):
            told_elsewhere = fit is not fits[0] and _is_of_constants(fit, sentence)
            if not told_elsewhere and not _is_of_unfinished(fit, sentence):
                said.setdefault((place, sentence), []).append(fit.label)
    in_order = sorted(said, key=lambda key: key[0])
    return [f"Fit of {_whose(said[key], len(fits))}: {key[1]}" for key in in_order]


def _is_of_constants(fit: Fit, sentence: str) -> bool:
    return fit.solution is not None and sentence.startswith(fit.solution.law.formula)


def _is_of_unfinished(fit: Fit, sentence: str) -> bool:
    """Whether it only names what is still to come, which the first sentence counts for all."""
    return all(one.reason == Missing.UNFINISHED for one in fit.excluded) and (
        sentence == absent_sentence(fit.excluded, fit.settings.diverged)
    )


def _whose(labels: Sequence[str], number: int) -> str:
    return "every recipe" if len(labels) == number > 2 else listed(labels)


def _worth(effective: Sequence[Effective]) -> list[str]:
    """What is said of effective numbers, each sentence once with all its recipes."""
    said: dict[str, list[str]] = {}
    for one in effective:
        for sentence in one.verdict:
            said.setdefault(sentence, []).append(one.label)
    number = len(effective)
    return [f"Worth of {_whose(labels, number)}: {sentence}" for sentence, labels in said.items()]
