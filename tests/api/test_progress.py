"""The progress display, on a terminal and where there is none."""

import io
import re

import pytest
from rich.console import Console

from api.progress import display, headline, line
from api.terminal import seconds
from orchestrator.states import State
from orchestrator.summaries import Progress, RunningNow


def running(
    label: str = "2x48h3 ufp4 s0", *, loss: float | None = 2.9131, speed: float | None = 12_300.0
) -> RunningNow:
    return RunningNow(
        run_id="0" * 16,
        label=label,
        horizon=None,
        tokens=400_000,
        total_tokens=1_000_000,
        loss=loss,
        tokens_per_second=speed,
    )


def progress(*runs: RunningNow, cells: int = 5, eta: float | None = 200.0) -> Progress:
    return Progress(
        cells_done=cells,
        cells_total=18,
        runs=dict.fromkeys(State, 0),
        running=runs,
        tokens_done=4_100_000,
        tokens_total=10_000_000,
        eta_seconds=eta,
    )


def test_the_headline_says_cells_tokens_speed_and_time_left():
    said = headline(progress(running(), running(speed=None)))
    assert said == "5 of 18 cells, 41 % of 10Mtok, 12.3ktok/s, 3 min 20 s left"


def test_a_line_has_the_loss_of_each_running_run_and_counts_the_rest():
    runs = [running(f"run {index}") for index in range(10)]
    said = line(progress(*runs))
    assert "run 7 loss 2.9131; 2 more runs" in said
    assert "run 8" not in said


@pytest.mark.parametrize(
    ("cells", "words"), [(5, "no run is under way"), (18, "all runs are over")]
)
def test_where_nothing_runs_the_line_says_why(cells, words):
    assert line(progress(cells=cells)).endswith(f"; {words}")


def test_a_run_without_metrics_has_a_dash():
    assert line(progress(running(loss=None))).endswith("2x48h3 ufp4 s0 loss -")


def test_without_a_terminal_a_line_comes_at_each_cell_and_every_ten_seconds():
    out = io.StringIO()
    now = 0.0
    with display(Console(file=out, width=200), clock=lambda: now) as show:
        for second in range(25):
            now = float(second)
            show(progress(running(), cells=5 if second < 4 else 6))
    cells = [text.split(" ")[0] for text in out.getvalue().splitlines()]
    assert cells == ["5", "6", "6", "6"]  # seconds 0, 4, 14 and 24


@pytest.mark.parametrize("width", [20, 40, 200])
def test_on_a_terminal_of_any_width_the_display_fits_and_is_gone_at_the_end(width):
    out = io.StringIO()
    console = Console(file=out, width=width, height=30, force_terminal=True, color_system=None)
    with display(console) as show:
        show(progress(running()))
    text = out.getvalue()
    assert "5 of 18" in text
    assert "\x1b[2K" in text  # lines are erased
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert max(len(part) for part in re.split(r"[\r\n]", shown)) <= width


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "-"), (0.2, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3599.6, "1 h 00 min")),
        *((359_999, "99 h 59 min"), (360_000, "4 days"), (1e11, "1,157,407 days")),
    ],
)
def test_times_are_short(value, text):
    assert seconds(value) == text
