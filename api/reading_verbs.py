"""The verbs that look: plan, list, show and report."""

from pathlib import Path

import typer
from pydantic import BaseModel

from api.files import write_whole
from api.opening import planning, reading
from api.pages import report_page, report_path
from api.plan_tables import plan_lines, warning_lines
from api.schemas import PlanView, RunView, SweepDetail, SweepView
from api.tables import list_lines, sweep_lines
from api.terminal import answer_console, print_json, print_lines, side_console
from orchestrator.service import lay_out
from orchestrator.settings import Settings
from sweeps.spec import load_spec


def print_view(view: BaseModel) -> None:
    """A view as JSON on standard output."""
    print_json(view.model_dump(mode="json"))


def plan(path: Path, settings: Settings, *, as_json: bool) -> None:
    """Print what a sweep would take, and on standard error what it warns of."""
    laid_out = lay_out(load_spec(path))
    with planning(settings) as service:
        view = PlanView.of(laid_out, service.price(laid_out))
    print_lines(side_console(), warning_lines(view))
    if as_json:
        print_view(view)
    else:
        print_lines(answer_console(), plan_lines(view, settings.slots))


def list_sweeps(settings: Settings, *, as_json: bool) -> None:
    """Print all sweeps."""
    with reading(settings) as service:
        sweeps = service.list()
    if as_json:
        views = [SweepView.of(sweep).model_dump(mode="json") for sweep in sweeps]
        print_json({"sweeps": views})
    else:
        print_lines(answer_console(), list_lines(sweeps))


def show(sweep: str, settings: Settings, *, as_json: bool) -> None:
    """Print one sweep and its runs."""
    with reading(settings) as service:
        summary = service.show(sweep)
        progress, runs = service.progress(summary.sweep_id), service.runs(summary.sweep_id)
        spec = service.spec(summary.sweep_id).model_dump(mode="json")
    if as_json:
        detail = SweepDetail.with_progress(summary, progress, spec).model_dump(mode="json")
        views = [RunView.of(run).model_dump(mode="json") for run in runs]
        print_json({"sweep": detail, "runs": views})
    else:
        print_lines(answer_console(), sweep_lines(summary, progress, runs))


def report(sweep: str, settings: Settings, *, out: Path | None) -> None:
    """Write the HTML report of a sweep and print where it is."""
    with reading(settings) as service:
        sweep_id = service.show(sweep).sweep_id
        page = report_page(service, sweep_id)
    path = out or report_path(settings, sweep_id)
    write_whole(path, page, make_folder=out is None)
    typer.echo(str(path))
