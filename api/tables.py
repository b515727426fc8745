"""What the verbs print for people: lists, one sweep, endpoints with their gaps, fits.

Each function takes what the service gives and returns lines and tables for a console. Losses are
in nats per token to four decimals, gaps carry their sign, a dash stands for what is not there.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType

from api.progress import line
from api.schemas import standing
from api.terminal import heading, number, plain_table
from kernels.verdict import Preflight
from orchestrator.states import State
from orchestrator.summaries import Progress, RunSummary, SweepSummary
from sweeps.answer import Answer
from sweeps.endpoints import Row
from sweeps.fits.result import Estimate, Fit
from sweeps.wording import plural

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


def answer_lines(answer: Answer) -> Lines:
    """The endpoints with their gaps, then what they say in words, fits included."""
    yield from _endpoints(answer)
    for sentence in (*answer.headline, *answer.sentences):
        yield ""
        yield sentence


def gap_lines(answer: Answer) -> Lines:
    """The endpoints with their gaps, and a summary of each recipe."""
    yield from _endpoints(answer)
    yield ""
    yield heading("Gap to bf16 by recipe: mean and 95 % t interval over models")
    table = plain_table(
        left=("recipe",),
        right=("mean", "low", "high", "mean %", "cells", "pairs", "bf16 wins", "no pair"),
    )
    table.add_column("note", overflow="fold")
    for summary in answer.gaps.summaries:
        table.add_row(
            summary.recipe,
            number(summary.mean, "+.4f"),
            number(summary.low, "+.4f"),
            number(summary.high, "+.4f"),
            number(summary.mean_relative, "+.2f"),
            str(summary.n_cells),
            str(summary.n_pairs),
            str(summary.n_bf16_wins),
            str(summary.n_unpaired),
            summary.reason,
        )
    yield table


def fit_lines(fits: Iterable[Fit]) -> Lines:
    """Each fit: what may be read off it, and its constants with their intervals."""
    for fit in fits:
        yield heading(
            f"Fit of {fit.recipe}: {fit.status}, law {fit.law_name}, "
            f"{plural(fit.n_points, 'endpoint')} in {plural(fit.n_cells, 'cell')}"
        )
        table = plain_table(left=("constant",), right=("value", "95 % low", "95 % high"))
        table.add_column("why not", overflow="fold")
        for estimate in fit.estimates:
            table.add_row(estimate.name, *_estimate(estimate), estimate.reason)
        yield table
        yield from fit.verdict
        yield ""


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


def _estimate(estimate: Estimate) -> tuple[str, str, str]:
    return (
        number(estimate.value, ".4g"),
        number(estimate.low, ".4g"),
        number(estimate.high, ".4g"),
    )


def _endpoints(answer: Answer) -> Lines:
    title = "Endpoints: validation loss and gap to bf16, nats per token"
    if answer.unigram_entropy is not None:
        low, high = (f"{entropy:.4f}" for entropy in answer.unigram_entropy)
        title += f" (unigram entropy {low if low == high else f'{low} to {high}'})"
    yield heading(title)
    noted = any(row.reason for row in answer.rows)
    table = plain_table(
        left=("model", "recipe"), right=("seed", "tokens", "loss", "s.e.", "gap", "gap %")
    )
    if noted:
        table.add_column("note", overflow="fold")
    for row in answer.rows:
        table.add_row(*_cells(row), *([row.reason] if noted else []))
    yield table


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.model,
        row.recipe,
        str(row.seed),
        f"{row.tokens:,}",
        number(row.loss, ".4f"),
        number(row.loss_se, ".4f"),
        number(row.gap, "+.4f"),
        number(row.relative, "+.2f"),
    )
