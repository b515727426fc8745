"""`gridlaw run`: plan, submit, carry out in a child process, and say what was found.

Plan and progress go to standard error, the answer to standard output. It is read from the store
alone, so the second run of a finished sweep starts nothing and prints the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path

import typer

from api.claim_tables import verdict_lines
from api.files import write_whole
from api.gap_tables import answer_lines
from api.interrupts import ending_as_interrupt
from api.opening import making
from api.pages import answer_page, report_path
from api.plan_tables import plan_lines, warning_lines
from api.progress import display, headline
from api.scheduler_process import scheduler
from api.schemas import PlanView
from api.terminal import answer_console, print_json, print_lines, side_console
from orchestrator.service import Service, lay_out
from orchestrator.settings import Settings
from orchestrator.states import State
from sweeps.answer import Answer, to_json
from sweeps.claims.claim_json import judgements_json
from sweeps.claims.judge import Judgement
from sweeps.errors import GridlawError, StorageError
from sweeps.plan import Plan
from sweeps.spec import load_spec

LOOK_SECONDS = 0.5
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def run(path: Path, settings: Settings, *, as_json: bool) -> None:
    """Carry a sweep out from where it stands and print its answer."""
    plan = lay_out(load_spec(path))  # what cannot be laid out is refused before a home is made
    with making(settings) as service, ending_as_interrupt():
        sweep_id = _submit(service, plan)
        if not service.show(sweep_id).is_over:
            try:
                _carry_out(service, sweep_id)
            except KeyboardInterrupt:
                typer.echo(
                    f"Stopped at {headline(service.progress(sweep_id))}; "
                    f"`gridlaw run {path}` goes on from there",
                    err=True,
                )
                raise typer.Exit(INTERRUPTED) from None
        answer, judgements = service.answer(sweep_id), service.judgements(sweep_id)
        places = _places(settings, sweep_id)
        try:
            page = answer_page(service, sweep_id, answer, judgements)
            write_whole(report_path(settings, sweep_id), page, make_folder=True)
        finally:  # a report that cannot be written takes no answer away
            _print_answer(answer, judgements, sweep_id, places, as_json=as_json)
        _complain(service, sweep_id)


def _submit(service: Service, plan: Plan) -> str:
    view = PlanView.of(plan, service.price(plan))
    print_lines(side_console(), plan_lines(view, service.settings.slots))
    print_lines(side_console(), warning_lines(view))
    return service.submit(plan).sweep_id


def _carry_out(service: Service, sweep_id: str) -> None:
    console = side_console()
    with scheduler(service.settings, "--sweep", sweep_id) as child:
        try:
            with display(console) as show:
                while child.is_running(LOOK_SECONDS):
                    try:
                        show(service.progress(sweep_id))
                    except StorageError:  # the scheduler waits for the disk, and so does this
                        continue
                show(service.progress(sweep_id))
        except KeyboardInterrupt:
            console.print("Stopping: what is running is checkpointed; Ctrl-C again ends it at once")
            raise
        if service.show(sweep_id).is_over:
            return  # nothing that befell the child afterwards takes the answer away
        child.check()
        raise GridlawError(
            f"the scheduler was stopped before sweep {sweep_id} was over; the same command goes on"
        )


def _print_answer(
    answer: Answer,
    judgements: Sequence[Judgement],
    sweep_id: str,
    places: dict[str, str],
    *,
    as_json: bool,
) -> None:
    if as_json:
        claims = {"claims": judgements_json(judgements)}
        print_json({"sweep_id": sweep_id, "places": places, **to_json(answer), **claims})
        return
    console = answer_console()
    print_lines(console, answer_lines(answer))
    if judgements:
        print_lines(console, ["", *verdict_lines(judgements)])
    print_lines(console, ["", *(f"{name + ':':<13} {place}" for name, place in places.items())])


def _places(settings: Settings, sweep_id: str) -> dict[str, str]:
    return {
        "report": str(report_path(settings, sweep_id)),
        "run folders": str(settings.layout.runs),
        "MLflow store": settings.mlflow_url,
        "MLflow UI": f"mlflow ui --backend-store-uri {settings.mlflow_url}",
    }


def _complain(service: Service, sweep_id: str) -> None:
    runs = service.runs(sweep_id)
    failed = [run for run in runs if run.state is State.FAILED]
    if failed:
        first = failed[0]
        raise GridlawError(
            f"{len(failed)} of {len(runs)} runs failed, the first is {first.spec.label} "
            f"({first.reason}: {first.detail}); `gridlaw retry {sweep_id}` queues them again"
        )
    if any(run.state is State.CANCELLED for run in runs):
        raise GridlawError(f"sweep {sweep_id} was cancelled; the same command queues it again")
