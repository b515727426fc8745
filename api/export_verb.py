"""The verb `export`: one table to a file or standard output, or all of them into a folder."""

from pathlib import Path

import typer

from api.files import write_whole
from api.fit_words import word
from api.opening import reading
from orchestrator.service import Service
from orchestrator.settings import load_settings
from sweeps.answer import Answer
from sweeps.errors import InputError, NotFoundError
from sweeps.fits.result import Fit
from sweeps.tables.exports import OF_A_FIT, What, fit_table, sweep_table
from sweeps.tables.table import Form, Table, encode


def export(
    source: str, home: Path | None, *, what: str | None, form: str, out: Path | None
) -> None:
    """Write tables of a sweep or of a kept fit.

    Args:
        source: A sweep or a kept fit.
        home: Of the store.
        what: Name of one table; None for the usual one, or for all where `out` is a folder.
        form: Of the files where no ending says it.
        out: A file, a folder, or None for standard output.

    Raises:
        InputError: If a word is none of its kind, or the file's ending says no form.
        NotFoundError: If there is no such sweep or fit.
    """
    asked = None if what is None else word(What, what, "what")
    usual = word(Form, form, "format")
    with reading(load_settings(home=home)) as service:
        known = _known(service, source)
    tables = (OF_A_FIT if isinstance(known, Fit) else tuple(What)) if asked is None else (asked,)
    if out is not None and _is_folder(out):
        for one in tables:
            path = out / f"{one}.{usual}"
            write_whole(path, encode(_table(known, one), usual), make_folder=True)
            typer.echo(f"Wrote {path}", err=True)
        return
    table = _table(known, asked or tables[0])
    if out is None:
        typer.echo(encode(table, usual), nl=False)
    else:
        write_whole(out, encode(table, _form(out)))
        typer.echo(f"Wrote {out}", err=True)


def _known(service: Service, source: str) -> Answer | Fit:
    try:
        return service.answer(service.show(source).sweep_id)
    except NotFoundError:
        try:
            return service.kept_fit(source)
        except NotFoundError as error:
            raise NotFoundError(f"there is no sweep and no kept fit {source!r}") from error


def _table(known: Answer | Fit, what: What) -> Table:
    return fit_table(what, [known]) if isinstance(known, Fit) else sweep_table(what, known)


def _is_folder(out: Path) -> bool:
    # A path keeps no slash at its end, so what has no ending and is no file is taken for a folder.
    return out.is_dir() or (not out.suffix and not out.exists())


def _form(out: Path) -> Form:
    if out.exists() and not out.is_file():
        return Form.CSV  # a device or a pipe
    ending = out.suffix[1:].lower()
    if ending not in set(Form):
        raise InputError(f"out = {out}: must end in {', '.join(f'.{form}' for form in Form)}")
    return Form(ending)
