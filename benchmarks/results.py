"""What a benchmark found: tables for people, and the same rows with everything in them as JSON.

    DIR/BENCHMARK-DEVICE.json      `kernels-cpu.json`, one for each benchmark and kind of device

A row is a mapping. A table prints some of its keys; the file holds them all, and the legend says
what each is and in which unit.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import RenderableType

from api.terminal import MISSING, heading, plain_table
from benchmarks.machine import Machine
from benchmarks.timing import Spread

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a benchmark is asked to run.

    Attributes:
        device: Where.
        threads: Numbers of CPU threads, each of which is measured.
        quick: Whether seconds have to do, and figures are rough.
        grids: Names of those to measure, in order; a selection for the device if there is none.
    """

    device: torch.device
    threads: tuple[int, ...]
    quick: bool
    grids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a printed table.

    Attributes:
        key: Of the rows; a dot goes into a mapping or a list, as in `ratio.interval.0`.
        head: What stands above it; lines are separated by a newline.
        form: Format of a number, such as `.2f`; text without one, which stands on the left.
    """

    key: str
    head: str
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under one heading.

    Attributes:
        title: What was measured on what, with its unit.
        columns: What is printed, text first.
        rows: Everything that is known of each.
        note: Sentences below it.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one benchmark found on one device.

    Attributes:
        benchmark: `kernels`, `step` or `peers`.
        machine: Where.
        quick: Whether its figures are rough.
        tables: In order.
        reading: What the printed columns are.
        legend: Meaning and unit of each key of the rows.
    """

    benchmark: str
    machine: Machine
    quick: bool
    tables: tuple[Table, ...]
    reading: str
    legend: Mapping[str, str]

    @property
    def file_name(self) -> str:
        """The same for every machine that has such a device."""
        return f"{self.benchmark}-{self.machine.device}.json"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "benchmark": self.benchmark,
            "quick": self.quick,
            "machine": asdict(self.machine),
            "reading": self.reading,
            "legend": dict(self.legend),
            "tables": [
                {
                    "title": table.title,
                    "note": table.note,
                    "rows": [dict(row) for row in table.rows],
                }
                for table in self.tables
            ],
        }

    def lines(self) -> Iterator[RenderableType]:
        """For a console."""
        yield f"{self.machine.name}; torch {self.machine.torch}, {self.machine.kernels}"
        if self.machine.load is not None:
            yield self.machine.load
        if self.quick:
            yield "A quick run: it shows that everything works; its figures are rough."
        yield self.reading
        for table in self.tables:
            yield ""
            yield heading(table.title)
            yield _printed(table)
            if table.note:
                yield table.note


def write(result: Result, folder: Path) -> Path:
    """Write a result as JSON, a line for each row.

    Returns:
        The file.

    Raises:
        OSError: If it cannot be written.
    """
    path = folder / result.file_name
    path.write_text("".join(_json_lines(result.as_json())))
    return path


def spread_fields(spread: Spread) -> dict[str, Any]:
    """A spread as a row holds it, to four significant digits."""
    low, high = spread.low, spread.high
    return {
        "median": _short(spread.median),
        "quartiles": [_short(spread.lower_quartile), _short(spread.upper_quartile)],
        "interval": None if low is None or high is None else [_short(low), _short(high)],
        "rounds": spread.rounds,
    }


SPREAD_LEGEND = {
    "median": "over the rounds",
    "quartiles": "over the rounds",
    "interval": "95 % interval of the median, null below 6 rounds",
    "rounds": "how many",
}
"""The part of a legend that every result with spreads has."""


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _json_lines(value: Mapping[str, Any]) -> Iterator[str]:
    """What `json.dumps` would indent, but for rows, each of which stays on its line."""
    head = {key: part for key, part in value.items() if key != "tables"}
    yield json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}")
    yield ',\n "tables": ['
    for index, table in enumerate(value["tables"]):
        title, note = (json.dumps(table[key]) for key in ("title", "note"))
        rows = ",\n   ".join(json.dumps(row, allow_nan=False) for row in table["rows"])
        comma = "," if index else ""
        yield f'{comma}\n  {{"title": {title}, "note": {note}, "rows": [\n   {rows}\n  ]}}'
    yield "\n ]\n}\n"


def _printed(table: Table) -> RenderableType:
    printed = plain_table(
        left=tuple(column.head for column in table.columns if not column.form),
        right=tuple(column.head for column in table.columns if column.form),
    )
    for row in table.rows:
        printed.add_row(*(_cell(row, column) for column in table.columns))
    return printed


def _cell(row: Row, column: Column) -> str:
    value: Any = row
    for key in column.key.split("."):
        value = value[int(key) if isinstance(value, list) else key] if value is not None else None
    if value is None:
        return MISSING
    return format(value, column.form)
