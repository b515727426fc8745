"""Plotted: the numbers behind one figure as a table, and that table as CSV text (RFC 4180).

Floats are written so that reading them back gives the same value; what has no value is an empty
field, so a NaN or an infinity never appears.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Plotted:
    """Column names with their units, and one row for each mark that is drawn."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Value]]

    def csv(self) -> str:
        """Header and rows."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(self.columns)
        writer.writerows([_field(value) for value in row] for row in self.rows)
        return text.getvalue()


def _field(value: Value) -> str:
    match value:
        case None:
            return ""
        case float() if not isfinite(value):
            return ""
        case float():
            return repr(value)
        case int():
            return str(value)
        case str():
            return _inert(value)


def _inert(text: str) -> str:
    # Spreadsheets run a field that starts like a formula; names come from users.
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
