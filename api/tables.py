"""What the verbs print for people: lists, one sweep, a preflight.

Each function takes what the service gives and returns lines and tables for a console. A dash
stands for what is not there.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType

from api.progress import line
from api.schemas import standing
from api.terminal import heading, plain_table
from kernels.verdict import Preflight
from orchestrator.states import State
from orchestrator.summaries import Progress, RunSummary, SweepSummary

Lines = Iterator[RenderableType]


def list_lines(sweeps: Sequence[SweepSummary]) -> Lines:
    """All sweeps, newest first."""
    if not sweeps:
        yield "No sweep has been submitted to this home; `gridlaw run SPEC` submits one."
        return
    yield heading("Sweeps, newest first (times in UTC)")
    table = plain_table(
        left=("sweep", "state", "submitted"),
        right=("runs", *(state.value for state in State)),
    )
    for sweep in sweeps:
        table.add_row(
            sweep.sweep_id,
            standing(sweep).value,
            _moment(sweep.created_at),
            str(sweep.num_runs),
            *(str(sweep.runs[state]) for state in State),
        )
    yield table


def sweep_lines(sweep: SweepSummary, progress: Progress, runs: Sequence[RunSummary]) -> Lines:
    """One sweep: where it stands, and each run with what it last said."""
    yield f"Sweep {sweep.sweep_id}: {standing(sweep)}, submitted {_moment(sweep.created_at)} UTC"
    yield line(progress)
    yield ""
    yield heading("Runs, in plan order")
    table = plain_table(
        left=("run", "id", "state", "reason"),
        right=("attempts", "cells", "N"),
    )
    table.add_column("detail", overflow="fold")
    for run in runs:
        table.add_row(
            run.spec.label,
            run.run_id,
            run.state.value,
            run.reason.value,
            str(run.attempt),
            f"{len(run.measured)}/{len(run.horizons)}",
            f"{run.N:,}",
            run.detail,
        )
    yield table


def preflight_lines(found: Preflight) -> Lines:
    """The device, and each check with what it saw."""
    verdict = "passed" if found.passed else "FAILED"
    yield f"Device {found.device}: {verdict} in {found.seconds:.1f} s"
    table = plain_table(left=("check", "result"))
    table.add_column("detail", overflow="fold")
    for check in found.checks:
        table.add_row(check.name, "ok" if check.passed else "FAILED", check.detail)
    yield table


def _moment(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}"
