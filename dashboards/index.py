"""Index: the sweeps of a store as one small page with links to their reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dashboards.page import document, source


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One sweep on the page.

    Attributes:
        sweep_id: Its identity in the store.
        name: What its owner calls it.
        state: In one word.
        runs_done: Runs that need no more work, diverged ones among them.
        runs_diverged: Of them, how many diverged.
        runs_failed: Runs that failed.
        runs_total: All runs.
        tokens_done: Training tokens seen so far.
        tokens_total: Training tokens asked for.
        submitted_at: Timezone-aware.
        report_href: Path of its report on the same server.
    """

    sweep_id: str
    name: str
    state: str
    runs_done: int
    runs_diverged: int
    runs_failed: int
    runs_total: int
    tokens_done: int
    tokens_total: int
    submitted_at: datetime
    report_href: str


def render(rows: Sequence[SweepRow]) -> str:
    """The page as HTML, newest sweep first."""
    newest = sorted(rows, key=lambda row: row.submitted_at.astimezone(UTC), reverse=True)
    return document("index.html", scripts=(source("theme.js"),), rows=newest, UTC=UTC)
