"""Table: rows under columns that say what they are, as CSV, Parquet or JSON.

    CSV        a header and a line for each row; an empty field where there is no number or text
    Parquet    the same columns with their types; meanings and units in the fields' metadata
    JSON       {"table", "meaning", "columns": [{name, type, unit, meaning}], "rows": [{...}]}

Numbers are written so that reading them back gives the same bits. What is not finite is missing.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any

import pyarrow
from pyarrow import parquet

Cell = str | int | float | bool | None


class Kind(StrEnum):
    """Type of the values of a column."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


ARROW = {
    Kind.TEXT: pyarrow.string(),
    Kind.INTEGER: pyarrow.int64(),
    Kind.NUMBER: pyarrow.float64(),
    Kind.BOOLEAN: pyarrow.bool_(),
}


class Form(StrEnum):
    """How a table is written; the ending of its file."""

    CSV = "csv"
    PARQUET = "parquet"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What one column holds.

    Attributes:
        name: In the header.
        kind: Type of its values.
        unit: Of its numbers; empty for text, counts and ratios.
        meaning: One sentence.
    """

    name: str
    kind: Kind
    unit: str = ""
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns.

    Attributes:
        name: Of the table, and of its file in a folder.
        meaning: What a row is.
        columns: In order.
        rows: Each as long as the columns.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def tabulate(
    name: str, meaning: str, columns: Sequence[Column], rows: Iterable[dict[str, Any]]
) -> Table:
    """A table from rows by column name.

    Raises:
        KeyError: If a row lacks a column.
    """
    return Table(
        name=name,
        meaning=meaning,
        columns=tuple(columns),
        rows=tuple(tuple(_cell(row[column.name]) for column in columns) for row in rows),
    )


def encode(table: Table, form: Form) -> bytes:
    """The table as the bytes of a file."""
    match form:
        case Form.CSV:
            return _csv(table).encode()
        case Form.PARQUET:
            return _parquet(table)
        case Form.JSON:
            return (json.dumps(_object(table), indent=1, allow_nan=False) + "\n").encode()


def _cell(value: Any) -> Cell:
    match value:
        case float():
            return value if isfinite(value) else None
        case StrEnum():
            return value.value
        case str() | int() | None:
            return value
        case _:
            raise TypeError(f"a cell holds text, a number or nothing, not {type(value).__name__}")


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in table.columns)
    for row in table.rows:
        writer.writerow("" if cell is None else cell for cell in row)
    return text.getvalue()


def _parquet(table: Table) -> bytes:
    schema = pyarrow.schema(
        [
            pyarrow.field(
                column.name,
                ARROW[column.kind],
                metadata={"unit": column.unit, "meaning": column.meaning},
            )
            for column in table.columns
        ],
        metadata={"table": table.name, "meaning": table.meaning},
    )
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _object(table: Table) -> dict[str, Any]:
    names = [column.name for column in table.columns]
    return {
        "table": table.name,
        "meaning": table.meaning,
        "columns": [
            {
                "name": column.name,
                "type": column.kind.value,
                "unit": column.unit,
                "meaning": column.meaning,
            }
            for column in table.columns
        ],
        "rows": [dict(zip(names, row, strict=True)) for row in table.rows],
    }
