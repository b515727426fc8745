"""The verbs that ask for something and return at once: submit, cancel, retry."""

from pathlib import Path

import typer

from api.opening import making, reading
from api.reading_verbs import print_view
from api.schemas import SweepView, standing
from orchestrator.service import lay_out
from orchestrator.settings import Settings
from sweeps.spec import load_spec


def submit(path: Path, settings: Settings, *, as_json: bool) -> None:
    """Queue a sweep for the scheduler of this home."""
    plan = lay_out(load_spec(path))  # what cannot be laid out is refused before a home is made
    with making(settings) as service:
        sweep = service.submit(plan)
    if as_json:
        print_view(SweepView.of(sweep))
        return
    typer.echo(f"Sweep {sweep.sweep_id}: {sweep.num_runs} runs, {standing(sweep)}")
    typer.echo(f"`gridlaw show {sweep.sweep_id}` says how far it is; `gridlaw serve` works on it")


def cancel(sweep: str, settings: Settings) -> None:
    """Ask a sweep to stop."""
    with reading(settings) as service:
        asked = service.cancel(sweep)
    typer.echo(f"Sweep {asked.sweep_id}: {standing(asked)}")


def retry(sweep: str, settings: Settings) -> None:
    """Queue again what failed or was cancelled in a sweep."""
    with reading(settings) as service:
        asked = service.retry(sweep)
    typer.echo(f"Sweep {asked.sweep_id}: {standing(asked)}")
