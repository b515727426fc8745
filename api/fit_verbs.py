"""The verbs `fit` and `fits`: reading what is asked, fitting, keeping, printing.

A fit of a sweep is kept in its home. A fit of a file is kept if the home has a store; none is made
for it. A store that cannot be opened or written to costs a fit of a file nothing but the keeping.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from api.file_rows import chosen_rows, is_file, refuse_on_sweep
from api.files import write_whole
from api.fit_tables import fit_lines, list_lines
from api.fit_views import FitsView, KeptFitsView, KeptFitView
from api.opening import has_store, reading
from api.terminal import answer_console, print_json, print_lines
from orchestrator.settings import load_settings
from sweeps.errors import InputError, StorageError
from sweeps.fit_json import models_of
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.samples import Sample, fit_samples
from sweeps.tables.kept_fit import kept_json
from sweeps.tables.run_columns import joint_sample, samples


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
    view = _fit_file if is_file(target) else _fit_sweep
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
    refuse_on_sweep(target, of_file)
    with reading(load_settings(home=home)) as service:
        sweep_id = service.show(target).sweep_id
        found = service.fits_of(sweep_id, asked)
        with _keeping():
            service.keep_fits(found, sweep_id)
        models = models_of(service.records(sweep_id))
    return found, FitsView.of_sweep(sweep_id, found, models)


def _fit_file(
    target: str, home: Path | None, of_file: Mapping[str, str], asked: Settings
) -> tuple[tuple[Fit, ...], FitsView]:
    path = Path(target)
    frame, columns = chosen_rows(path, of_file)
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
        with _keeping(), reading(place) as service:
            service.keep_fits(found, target)
    elif home is not None:
        typer.echo(f"Not kept: there is no store in {place.home}", err=True)
    return found, FitsView.of_file(target, found)


@contextmanager
def _keeping() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        typer.echo(f"Not kept: {error}", err=True)
