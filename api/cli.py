"""The terminal's front door: `gridlaw VERB`. What each verb takes, and what errors become.

    exit code 0     done; a diverged run is a result, not an error
    exit code 1     could not be done: no such sweep, store in use, failed runs, an unforeseen error
    exit code 2     the request makes no sense: options, sweep file, corpus
    exit code 130   interrupted; the same command goes on

Errors are one sentence on standard error. Verbs import what they need when they are called, so
that `--help` is there at once.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from api import claims_cli, design_cli, fit_cli, gaps_cli, isoflop_cli, numerics_cli
from api.options import Home, Json, Sweep
from sweeps.errors import GridlawError, InputError

if TYPE_CHECKING:
    from orchestrator.settings import Settings

app = typer.Typer(
    name="gridlaw",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(numerics_cli.app, name="numerics")

SpecFile = Annotated[
    Path, typer.Argument(metavar="SPEC", help="Sweep file (YAML).", show_default=False)
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write to this file.", show_default=False),
]


@app.callback()
def gridlaw() -> None:
    """Scaling-law experiments for low-precision training: one sweep file in, gaps and curves out.

    Start with `gridlaw plan SPEC` to see what a sweep takes, then `gridlaw run SPEC` to carry it
    out on this machine. Everything is kept in one folder, the home; the same command again goes on
    where it stood. Settings are environment variables that start with GRIDLAW_.
    """


@app.command()
def run(spec: SpecFile, home: Home = None, as_json: Json = False) -> None:
    """Carry a sweep out on this machine and print its answer.

    Shows the plan and the progress on standard error, and the answer on standard output: each
    endpoint with its gap to BF16, the fits, and where report, runs and MLflow store are. Ctrl-C
    stops at a checkpoint; the same command goes on. A finished sweep is answered at once.
    """
    from api import run_verb

    run_verb.run(spec, _settings(home), as_json=as_json)


@app.command()
def plan(spec: SpecFile, home: Home = None, as_json: Json = False) -> None:
    """Say what a sweep would take; stores nothing.

    Cells, runs and how many of them are measured already, parameters and FLOPs of each model,
    tokens, and the time that it would take on this machine.
    """
    from api import reading_verbs

    reading_verbs.plan(spec, _settings(home), as_json=as_json)


@app.command()
def submit(spec: SpecFile, home: Home = None, as_json: Json = False) -> None:
    """Queue a sweep for `gridlaw serve`.

    The same sweep again queues only what is missing.
    """
    from api import acting_verbs

    acting_verbs.submit(spec, _settings(home), as_json=as_json)


@app.command()
def serve(
    home: Home = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8421,
) -> None:
    """Serve REST and reports, and carry sweeps out.

    The scheduler of this home works on what is submitted, by REST or `gridlaw submit`, until Ctrl-C
    or SIGTERM; what runs then is checkpointed.
    """
    from api import serve_verb

    serve_verb.serve(_settings(home), host=host, port=port)


@app.command(name="list")
def list_sweeps(home: Home = None, as_json: Json = False) -> None:
    """List all sweeps with their runs by state."""
    from api import reading_verbs

    reading_verbs.list_sweeps(_settings(home), as_json=as_json)


@app.command()
def show(sweep: Sweep, home: Home = None, as_json: Json = False) -> None:
    """Show how far a sweep is, and each of its runs."""
    from api import reading_verbs

    reading_verbs.show(sweep, _settings(home), as_json=as_json)


@app.command()
def cancel(sweep: Sweep, home: Home = None) -> None:
    """Ask a sweep to stop.

    What it queued is cancelled, what runs is stopped; runs that another sweep wants go on.
    """
    from api import acting_verbs

    acting_verbs.cancel(sweep, _settings(home))


@app.command()
def retry(sweep: Sweep, home: Home = None) -> None:
    """Queue again what failed or was cancelled."""
    from api import acting_verbs

    acting_verbs.retry(sweep, _settings(home))


app.command()(gaps_cli.gaps)
app.command()(claims_cli.claims)
app.command(name="next")(design_cli.next_runs)
app.command()(design_cli.power)


app.command()(fit_cli.fit)
app.command()(fit_cli.fits)
app.command()(fit_cli.export)
app.command()(isoflop_cli.isoflop)


@app.command()
def report(sweep: Sweep, home: Home = None, out: Out = None) -> None:
    """Write the HTML report and print where it is.

    One file that opens without a network.
    """
    from api import reading_verbs

    reading_verbs.report(sweep, _settings(home), out=out)


@app.command()
def preflight(as_json: Json = False) -> None:
    """Check that this device computes what the numerics say; exit code 1 if it does not.

    Subnormals, division, BF16 rounding, FP32 products, stochastic rounding and its streams, each
    RHT, every grid and scale. The same checks run before a run trains.
    """
    from api import preflight_verb

    preflight_verb.preflight(as_json=as_json)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one verb and end the process.

    Args:
        arguments: Of the command line, the process's own if None.
    """
    try:
        app(args=arguments, prog_name="gridlaw")
    except InputError as error:
        _fail(str(error), 2)
    except GridlawError as error:
        _fail(str(error), 1)
    except OSError as error:
        _fail(_refused(error), 1)
    except Exception as error:  # noqa: BLE001 - the last resort before a person
        _fail(_unforeseen(error), 1)
    sys.exit(0)


def _settings(home: Path | None) -> "Settings":
    from orchestrator.settings import load_settings

    return load_settings(home=home)


def _fail(sentence: str, code: int) -> NoReturn:
    with suppress(OSError):
        typer.echo(f"gridlaw: {sentence}", err=True)
    sys.exit(code)


def _refused(error: OSError) -> str:
    if error.filename is not None:
        return _unforeseen(error)
    with suppress(OSError):  # what is left of the answer must not fail once more at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"cannot write to standard output: {error.strerror or error}"


def _unforeseen(error: Exception) -> str:
    log = _keep(error)
    return f"an unforeseen {type(error).__name__} stopped this; the traceback is in {log}"


def _keep(error: BaseException) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="gridlaw-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(error, file=file)
    return file.name
