"""What can be taken elsewhere: the tables of a sweep or of one kept fit, by name.

`dictionary` says of every column of the others what it holds; in JSON and Parquet the columns carry
that themselves. Every table can be written alone, or all of them into one folder.
"""

from collections.abc import Sequence
from enum import StrEnum

from sweeps.answer import Answer
from sweeps.errors import InputError
from sweeps.fit_json import models_of
from sweeps.fits.result import Fit
from sweeps.recipe_fits import observations
from sweeps.tables.checklist import CHECKLIST_COLUMNS, checklist
from sweeps.tables.laws import (
    COVARIANCE_COLUMNS,
    CURVE_COLUMNS,
    PARAMETER_COLUMNS,
    covariance_table,
    curve_table,
    parameter_table,
)
from sweeps.tables.results import ENDPOINT_COLUMNS, POINT_COLUMNS, endpoint_table, point_table
from sweeps.tables.table import Column, Kind, Table, tabulate


class What(StrEnum):
    """Which table."""

    ENDPOINTS = "endpoints"
    POINTS = "points"
    CURVES = "curves"
    PARAMETERS = "parameters"
    COVARIANCE = "covariance"
    DICTIONARY = "dictionary"
    CHECKLIST = "checklist"


DICTIONARY_COLUMNS = (
    Column(name="table", kind=Kind.TEXT, meaning="Name of the table, and of its file."),
    Column(name="column", kind=Kind.TEXT, meaning="Name of the column."),
    Column(name="type", kind=Kind.TEXT, meaning="text, integer, number or boolean."),
    Column(name="unit", kind=Kind.TEXT, meaning="Of the numbers; empty for text and ratios."),
    Column(name="meaning", kind=Kind.TEXT, meaning="What the column holds."),
)

COLUMNS: dict[What, Sequence[Column]] = {
    What.ENDPOINTS: ENDPOINT_COLUMNS,
    What.POINTS: POINT_COLUMNS,
    What.CURVES: CURVE_COLUMNS,
    What.PARAMETERS: PARAMETER_COLUMNS,
    What.COVARIANCE: COVARIANCE_COLUMNS,
    What.DICTIONARY: DICTIONARY_COLUMNS,
    What.CHECKLIST: CHECKLIST_COLUMNS,
}

OF_A_FIT = (What.CURVES, What.PARAMETERS, What.COVARIANCE, What.DICTIONARY, What.CHECKLIST)
"""What a kept fit can give without the runs that it came from."""


def sweep_table(what: What, answer: Answer) -> Table:
    """One table of a sweep."""
    match what:
        case What.ENDPOINTS:
            return endpoint_table(answer.rows)
        case What.POINTS:
            return point_table(observations(answer.records))
        case What.CURVES:
            return curve_table(answer.fits, models_of(answer.records))
        case What.CHECKLIST:
            return checklist(answer.fits, answer.records)
        case What.PARAMETERS | What.COVARIANCE | What.DICTIONARY:
            return fit_table(what, answer.fits)


def fit_table(what: What, fits: Sequence[Fit]) -> Table:
    """One table of fits alone.

    Raises:
        InputError: If the table is one of measurements.
    """
    match what:
        case What.CURVES:
            return curve_table(fits)
        case What.PARAMETERS:
            return parameter_table(fits)
        case What.COVARIANCE:
            return covariance_table(fits)
        case What.DICTIONARY:
            return dictionary()
        case What.CHECKLIST:
            return checklist(fits)
        case What.ENDPOINTS | What.POINTS:
            raise InputError(f"what = {what}: a kept fit holds {', '.join(OF_A_FIT)}, not its runs")


def dictionary() -> Table:
    """Every column of every table."""
    return tabulate(
        "dictionary",
        "A row is one column of one table.",
        DICTIONARY_COLUMNS,
        (
            {
                "table": what.value,
                "column": column.name,
                "type": column.kind,
                "unit": column.unit,
                "meaning": column.meaning,
            }
            for what, columns in COLUMNS.items()
            for column in columns
        ),
    )
