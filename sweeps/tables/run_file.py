"""A file of runs, whoever wrote it, as a frame: CSV, Parquet or JSON by its ending, one row a run.

JSON is what an export writes: an object with `rows`, a list of objects, or such a list alone. An
empty cell is a missing value. Numbers are read exactly as they were written. The index of the frame
counts the rows of the file from 1, and keeps them through a selection.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow
from pandas import DataFrame, Series, to_numeric
from pyarrow import csv, parquet

from sweeps.errors import InputError
from sweeps.wording import listed, plural

LEAST_BLOCK = 1 << 20
HEADER = 1 << 16
OTHER_MARKS = {b";": "semicolons", b"\t": "tabs"}
SHOWN = 40
"""Columns named in a message, at most."""


def is_run_file(name: str) -> bool:
    """Whether a word names a file of runs rather than a sweep: by its ending."""
    return Path(name).suffix.lower() in READERS


def read_frame(path: Path) -> DataFrame:
    """All rows and columns of a file.

    Raises:
        InputError: If it cannot be read, is none of the kinds, or holds no row.
    """
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise InputError(f"{path}: a file of runs ends in {' or '.join(READERS)}")
    if path.is_dir():
        raise InputError(f"{path} is a folder, not a file of runs")
    try:
        table = read(path)
        names = table.column_names
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (pyarrow.ArrowException, ValueError, RecursionError) as error:
        kind = path.suffix[1:].upper()
        raise InputError(f"{path} is not a {kind} file of runs: {_first_line(error)}") from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: more than one column is named {listed(twice)}")
    if not table.num_rows:
        raise InputError(f"{path} has no row under its header")
    # What another program kept as the index of its rows is a column like any other.
    frame: DataFrame = table.to_pandas(ignore_metadata=True)
    frame.index = frame.index + 1
    return frame


def column(frame: DataFrame, name: str, *, key: str) -> Series:
    """One column.

    Args:
        frame: Of the file.
        name: Of the column.
        key: What asked for it, for the message.

    Raises:
        InputError: If there is none of this name, with the one that may be meant.
    """
    if name in frame.columns:
        return frame[name]
    names = [str(known) for known in frame.columns]
    raise InputError(f"{key} = {name}: the file has no such column{nearest(name, names)}")


def nearest(name: str, known: Sequence[str]) -> str:
    """`, did you mean X? There is A, B`: the end of a sentence about a name that is none."""
    by_lower = {word.lower(): word for word in known}
    close = get_close_matches(name.lower(), by_lower, n=1)
    meant = f", did you mean {by_lower[close[0]]}? There is " if close else "; there is "
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"{meant}{', '.join(known[:SHOWN])}{more}"


def numbers(frame: DataFrame, name: str, *, key: str) -> Series:
    """One column of positive finite numbers, as float64.

    Raises:
        InputError: With the first row that holds anything else.
    """
    values = column(frame, name, key=key)
    exact = to_numeric(values, errors="coerce").astype("float64")
    text = exact.isna() & values.notna()
    if values.dtype.kind == "b" or text.any():
        row = values.index[0] if values.dtype.kind == "b" else text.index[text][0]
        held = str(values[row])
        raise InputError(f"{key} = {name}: row {row} holds {held!r}, which is no number")
    good = (exact > 0) & (exact < float("inf"))
    if not good.all():
        row = good.index[~good][0]
        missing = exact[row] != exact[row]
        said = "is missing" if missing else f"is {exact[row]}"
        others = plural(int((~good).sum()) - 1, "more row")
        more = f" ({others} like it)" if (~good).sum() > 1 else ""
        raise InputError(
            f"{key} = {name}: the value in row {row} {said}{more}; every value must be positive "
            "and finite"
        )
    return exact


def words(frame: DataFrame, name: str, *, key: str) -> Series:
    """One column as text; a missing value is the empty text, a whole number has no point."""
    return column(frame, name, key=key).map(_word)


def _word(value: Any) -> str:
    if value is None or value != value:
        return ""
    # Whole numbers beside a missing one come as floats.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _csv(path: Path) -> pyarrow.Table:
    _refuse_other_marks(path)
    # One block, so that a column has one type however late its first text comes.
    block = max(LEAST_BLOCK, path.stat().st_size + 1)
    table = csv.read_csv(path, read_options=csv.ReadOptions(block_size=block))
    for field in table.schema:
        if pyarrow.types.is_binary(field.type):
            raise ValueError(f"column {field.name} is not text in UTF-8")
    return table


def _refuse_other_marks(path: Path) -> None:
    """A header without commas but with another mark: its commas may be decimal."""
    with path.open("rb") as file:
        header = file.readline(HEADER)
    for mark, name in OTHER_MARKS.items():
        if mark in header and b"," not in header:
            raise ValueError(
                f"its columns stand apart by {name}; commas are read, with decimal points"
            )


def _parquet(path: Path) -> pyarrow.Table:
    return parquet.read_table(path)


def _json(path: Path) -> pyarrow.Table:
    given: Any = json.loads(path.read_text(encoding="utf-8"))
    rows = given.get("rows") if isinstance(given, dict) else given
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it must hold a list of objects, or an object with such a list as rows")
    names = dict.fromkeys(name for row in rows for name in row)
    return pyarrow.table({name: [row.get(name) for row in rows] for name in names})


def _first_line(error: Exception) -> str:
    said = next(iter(str(error).splitlines()), type(error).__name__)
    # A message may quote bytes of the file, and a terminal must not act on them.
    return "".join(mark if mark.isprintable() else "\N{REPLACEMENT CHARACTER}" for mark in said)


READERS: Mapping[str, Callable[[Path], pyarrow.Table]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
}
