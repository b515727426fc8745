"""The answer in words: every number with its unit, n and interval."""

from collections import Counter
from collections.abc import Sequence

from sweeps.endpoints import Row
from sweeps.fits.result import Fit
from sweeps.gaps import GapTable
from sweeps.paired import Gap
from sweeps.records import Outcome, RunRecord
from sweeps.summaries import GapSummary
from sweeps.wording import listed, plural

LISTED = 12
"""Items named one by one before the rest is counted."""


def sentences(
    runs: Sequence[RunRecord],
    rows: Sequence[Row],
    table: GapTable,
    fits: Sequence[Fit],
    learnt: str,
) -> list[str]:
    """What the sweep found, most important first.

    Args:
        runs: Every run once.
        rows: Every planned endpoint.
        table: Its gaps.
        fits: One for each recipe.
        learnt: The sentence that sets the losses against the unigram entropy.
    """
    return [
        _progress(rows),
        *([learnt] if learnt else []),
        *_diverged(runs),
        *(_summary(summary) for summary in table.summaries),
        *_beaten(table.gaps),
        *_alone(table),
        *_fits(fits),
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
    interval = (
        f"95 % t interval over {plural(summary.n_models, 'model')} "
        f"{summary.low:+.4f} to {summary.high:+.4f}"
        if summary.low is not None and summary.high is not None
        else f"no interval ({summary.reason})"
    )
    cells, pairs = plural(summary.n_cells, "cell"), plural(summary.n_pairs, "pair")
    return (
        f"{summary.recipe}: mean gap to bf16 {summary.mean:+.4f} nats per token "
        f"({summary.mean_relative:+.2f} % of the bf16 loss) over {cells}, {interval}; "
        f"bf16 is better in {summary.n_bf16_wins} of {pairs}."
    )


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
    named = [f"{item.label} at {item.tokens:,} tokens ({item.reason})" for item in table.unpaired]
    return [f"Without a gap: {_listing(named)}."]


def _listing(named: Sequence[str]) -> str:
    more = f" and {len(named) - LISTED} more" if len(named) > LISTED else ""
    return "; ".join(named[:LISTED]) + more


def _fits(fits: Sequence[Fit]) -> list[str]:
    """The verdicts, each sentence once with all the recipes that it holds for."""
    said: dict[tuple[int, str], list[str]] = {}
    for fit in fits:
        for place, sentence in enumerate(fit.verdict):
            said.setdefault((place, sentence), []).append(fit.recipe)
    in_order = sorted(said, key=lambda key: key[0])
    return [f"Fit of {listed(said[key])}: {key[1]}" for key in in_order]
