"""The verbs `fit` and `fits`: reading what is asked, fitting, keeping, printing.

A fit of a sweep is kept in its home. A fit of a file is kept if the home has a store; none is made
for it. A store that cannot be written to costs nothing but the keeping.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from api.files import write_whole
from api.fit_tables import fit_lines, list_lines
from api.fit_views import FitsView, KeptFitsView, KeptFitView
from api.opening import has_store, reading
from api.terminal import answer_console, print_json, print_lines
from orchestrator.service import Service
from orchestrator.settings import load_settings
from sweeps.errors import InputError, StorageError
from sweeps.fit_json import models_of
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.samples import Sample, fit_samples
from sweeps.tables.kept_fit import kept_json
from sweeps.tables.run_columns import Columns, joint_sample, samples
from sweeps.tables.run_file import is_run_file, read_frame
from sweeps.tables.where import select

COLUMN_OPTIONS = {
    "--n-col": "N",
    "--d-col": "D",
    "--loss-col": "loss",
    "--group-col": "group",
    "--arm-col": "arm",
    "--excluded-col": "excluded",
    "--label-col": "label",
    "--hash-col": "hash",
    "--tokenizer-col": "tokenizer",
    "--eval-col": "evaluation",
    "--phase-col": "phase",
}
"""By option: the attribute of `Columns` that it sets."""

WATCHED = {"tokenizer": "tokenizer", "eval_set": "evaluation", "phase": "phase"}
"""By column: the attribute of `Columns` that it is where a file has it and no option says."""


def fit(
    target: str,
    home: Path | None,
    of_file: Mapping[str, str],
    asked: Settings,
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Fit a sweep or a file of runs, keep the fits and print them.

    Args:
        target: A sweep, or a path that ends as files of runs do.
        home: Of the store.
        of_file: Options that only a file takes, as given.
        asked: How to fit.
        as_json: Whether JSON is printed.
        out: File for the fits whole.
    """
    view = _fit_file if is_run_file(target) or Path(target).is_file() else _fit_sweep
    found, shown = view(target, home, of_file, asked)
    if out is not None:
        whole = {"fits": [kept_json(item) for item in found]}
        write_whole(out, json.dumps(whole, allow_nan=False) + "\n")
        typer.echo(f"Wrote {out}", err=True)
    if as_json:
        print_json(shown.model_dump(mode="json"))
    else:
        print_lines(answer_console(), fit_lines(found))


def fits(fit: str | None, home: Path | None, *, as_json: bool) -> None:
    """Print the list of kept fits, or one of them whole."""
    with reading(load_settings(home=home)) as service:
        if fit is not None:
            kept = service.kept_fit(fit)
            if as_json:
                print_json(kept_json(kept))
            else:
                print_lines(answer_console(), fit_lines([kept]))
            return
        summaries = service.kept_fits()
    if as_json:
        view = KeptFitsView(fits=[KeptFitView.of(summary) for summary in summaries])
        print_json(view.model_dump(mode="json"))
    else:
        print_lines(answer_console(), list_lines(summaries))


def _fit_sweep(
    target: str, home: Path | None, of_file: Mapping[str, str], asked: Settings
) -> tuple[tuple[Fit, ...], FitsView]:
    for option in of_file:
        raise InputError(f"{option} is for a file of runs, and {target} is taken for a sweep")
    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(target).sweep_id
        found = service.fits_of(sweep_id, asked)
        _keep(service, found, sweep_id)
        models = models_of(service.records(sweep_id))
    return found, FitsView.of_sweep(sweep_id, found, models)


def _fit_file(
    target: str, home: Path | None, of_file: Mapping[str, str], asked: Settings
) -> tuple[tuple[Fit, ...], FitsView]:
    path = Path(target)
    frame = read_frame(path)
    if (condition := of_file.get("--where")) is not None:
        frame = select(frame, condition)
    columns = _columns(of_file, [str(name) for name in frame.columns])
    for option in ("--joint", "--baseline"):
        if option in of_file and columns.arm is None:
            raise InputError(f"{option} is about arms; --arm-col says what they are")
    first = of_file.get("--baseline")
    if "--joint" in of_file:
        given: tuple[Sample, ...] = (joint_sample(frame, columns, label=path.stem, baseline=first),)
    else:
        given = samples(frame, columns, label=path.stem, baseline=first)
    found = fit_samples(given, asked)
    place = load_settings(home=home)
    if has_store(place):
        with reading(place) as service:
            _keep(service, found, target)
    elif home is not None:
        typer.echo(f"Not kept: there is no store in {place.home}", err=True)
    return found, FitsView.of_file(target, found)


def _columns(of_file: Mapping[str, str], names: Sequence[str]) -> Columns:
    watched = {WATCHED[name]: name for name in names if name in WATCHED}
    given = {COLUMN_OPTIONS[key]: value for key, value in of_file.items() if key in COLUMN_OPTIONS}
    # An empty name takes a column out of sight.
    return Columns(**{key: value for key, value in (watched | given).items() if value})


def _keep(service: Service, found: Sequence[Fit], source: str) -> None:
    try:
        service.keep_fits(found, source)
    except StorageError as error:
        typer.echo(f"Not kept: {error}", err=True)
