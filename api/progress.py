"""The progress of a sweep on a terminal, or line by line where there is none.

    a terminal   one display, redrawn: cells, tokens, speed and time left, then each running run
    else         a line at each finished cell, and one every LINE_SECONDS in between

Both say the same words. Losses are training losses in nats per token; the speed is the sum over
the runs under way; the time left is the store's estimate.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from api.terminal import number, percent, seconds
from orchestrator.summaries import Progress, RunningNow
from sweeps.budget import format_tokens

LINE_SECONDS = 10.0
LISTED = 8
"""Running runs shown one by one; the rest are counted."""

Show = Callable[[Progress], None]


@contextmanager
def display(console: Console, clock: Callable[[], float] = monotonic) -> Iterator[Show]:
    """Something that shows each `Progress` it is given, until the block ends."""
    if console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=4) as live:
            yield lambda progress: live.update(drawing(progress))
    else:
        yield _lines(console, clock)


def headline(progress: Progress) -> str:
    """`5 of 18 cells, 41 % of 9.73Mtok, 12.3ktok/s, 3 min 20 s left`."""
    parts = [f"{progress.cells_done} of {progress.cells_total} cells"]
    if progress.tokens_total:
        share = progress.tokens_done / progress.tokens_total
        parts.append(f"{percent(share)} of {format_tokens(progress.tokens_total)}")
    speed = sum(run.tokens_per_second or 0.0 for run in progress.running)
    if speed:
        parts.append(f"{format_tokens(round(speed))}/s")
    if progress.eta_seconds is not None:
        parts.append(f"{seconds(progress.eta_seconds)} left")
    return ", ".join(parts)


def line(progress: Progress) -> str:
    """The headline and the losses of the runs under way, in one line."""
    shown = [f"{run.label} {_loss(run)}" for run in progress.running[:LISTED]]
    more = len(progress.running) - len(shown)
    shown += [f"{more} more runs"] if more else []
    return "; ".join([headline(progress), *(shown or [_pause(progress)])])


def drawing(progress: Progress) -> Group:
    """The display on a terminal."""
    bar = ProgressBar(total=max(1, progress.tokens_total), completed=progress.tokens_done)
    runs = Table.grid(padding=(0, 2))
    for run in progress.running[:LISTED]:
        speed = run.tokens_per_second
        runs.add_row(
            run.label,
            percent(run.tokens / max(1, run.total_tokens)),
            _loss(run),
            f"{format_tokens(round(speed))}/s" if speed else "starting",
        )
    more = len(progress.running) - LISTED
    rest = [Text(f"and {more} more runs")] if more > 0 else []
    rest += [] if progress.running else [Text(_pause(progress))]
    return Group(Text(headline(progress)), bar, runs, *rest)


def _pause(progress: Progress) -> str:
    is_done = progress.cells_done == progress.cells_total
    return "all runs are over" if is_done else "no run is under way"


def _loss(run: RunningNow) -> str:
    return f"loss {number(run.loss, '.4f')}"


def _lines(console: Console, clock: Callable[[], float]) -> Show:
    said_at = -LINE_SECONDS
    cells = -1

    def show(progress: Progress) -> None:
        nonlocal said_at, cells
        now = clock()
        if progress.cells_done == cells and now - said_at < LINE_SECONDS:
            return
        cells, said_at = progress.cells_done, now
        console.print(line(progress))

    return show
