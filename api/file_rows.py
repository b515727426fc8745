"""Rows of anyone's file as the options choose them, with what its columns mean."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pandas import DataFrame

from sweeps.errors import InputError
from sweeps.tables.run_columns import Columns
from sweeps.tables.run_file import is_run_file, read_frame
from sweeps.tables.where import select

COLUMN_OPTIONS = {
    "--n-col": "N",
    "--d-col": "D",
    "--loss-col": "loss",
    "--group-col": "group",
    "--seed-col": "seed",
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


def is_file(target: str) -> bool:
    """Whether a word of the command line is a file of runs rather than a sweep."""
    path = Path(target)
    # A bare word may be a sweep, which a file of the same name in this folder must not hide.
    named = path.suffix != "" or path.name != target
    return is_run_file(target) or (named and path.is_file())


def refuse_on_sweep(target: str, options: Iterable[str]) -> None:
    """Refuse options that only a file takes.

    Raises:
        InputError: With the first of them.
    """
    for option in options:
        raise InputError(f"{option} is for a file of runs, and {target} is taken for a sweep")


def chosen_rows(path: Path, of_file: Mapping[str, str]) -> tuple[DataFrame, Columns]:
    """The rows of a file that a condition chooses, and the meaning of its columns.

    Args:
        path: Of the file.
        of_file: By option, as given: those of columns, and `--where`.

    Raises:
        InputError: If the file cannot be read or the condition is none.
    """
    frame = read_frame(path)
    if (condition := of_file.get("--where")) is not None:
        frame = select(frame, condition)
    return frame, _columns(of_file, [str(name) for name in frame.columns])


def _columns(of_file: Mapping[str, str], names: Sequence[str]) -> Columns:
    watched = {WATCHED[name]: name for name in names if name in WATCHED}
    given = {COLUMN_OPTIONS[key]: value for key, value in of_file.items() if key in COLUMN_OPTIONS}
    # An empty name takes a column out of sight.
    return Columns(**{key: value for key, value in (watched | given).items() if value})
