"""The terminal: the two consoles, and how numbers are written on them.

Answers go to standard output and nothing else does; plans, progress and warnings go to standard
error. Colours follow the terminal and NO_COLOR. A pipe or file has no width, so nothing is folded
there, and everything is ASCII but the names that people chose.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

UNFOLDED = 10_000
"""Columns of a console that is no terminal: every line stays one line."""

MISSING = "-"
"""Stands for a number that is not there."""


def answer_console() -> Console:
    """Standard output."""
    width = None if sys.stdout.isatty() else UNFOLDED
    return Console(width=width, highlight=False, markup=False, emoji=False)


def side_console() -> Console:
    """Standard error."""
    width = None if sys.stderr.isatty() else UNFOLDED
    return Console(stderr=True, width=width, highlight=False, markup=False, emoji=False)


def plain_table(left: tuple[str, ...], right: tuple[str, ...] = ()) -> Table:
    """A table without lines: columns of text on the left, of numbers on the right."""
    table = Table(box=None, pad_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_json(value: Any) -> None:
    """JSON on standard output; what is not finite is null in it already."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def print_lines(console: Console, lines: Iterable[RenderableType]) -> None:
    """Print text folded to the console, and tables as narrow as their numbers allow.

    A table that does not fit goes beyond the edge, where the terminal folds it; nothing is cut.
    """
    for line in lines:
        match line:
            case Table():
                least = console.measure(line, options=console.options.update(width=UNFOLDED))
                folded = console.width
                console.width = max(folded, least.minimum)
                console.print(line)
                console.width = folded
            case _:
                console.print(line)


def heading(text: str) -> Text:
    """The line above a table."""
    return Text(text, style="bold")


def seconds(value: float | None) -> str:
    """`8 s`, `3 min 20 s`, `2 h 05 min`, `12 days`, or a dash."""
    if value is None:
        return MISSING
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 100 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{round(whole / 86400):,} days"


def percent(share: float) -> str:
    """`41 %` from 0.41."""
    return f"{100 * share:.0f} %"


def number(value: float | None, form: str) -> str:
    """A number in a format such as `.4f`, or a dash."""
    return MISSING if value is None else format(value, form)
