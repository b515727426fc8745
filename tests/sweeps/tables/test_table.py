"""Tables in three forms: read by other libraries, the numbers come back bit for bit."""

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeps.tables.run_file import read_frame
from sweeps.tables.table import Column, Form, Kind, encode, tabulate

COLUMNS = (
    Column(name="name", kind=Kind.TEXT, meaning="A name."),
    Column(name="loss", kind=Kind.NUMBER, unit="nats per token", meaning="A loss."),
    Column(name="count", kind=Kind.INTEGER, meaning="A count."),
    Column(name="known", kind=Kind.BOOLEAN, meaning="A truth."),
)
LOSSES = (np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)).tolist()
ROWS: list[dict[str, Any]] = [
    {"name": 'a, "b"\nc', "loss": loss, "count": 2**60 + index, "known": index % 2 == 0}
    for index, loss in enumerate(LOSSES)
]
ROWS += [{"name": None, "loss": value, "count": None, "known": None} for value in (None, math.nan)]
TABLE = tabulate("made", "A row is a test.", COLUMNS, ROWS)


def test_csv_holds_every_number_exactly_and_nothing_for_what_is_missing():
    rows = list(csv.DictReader(io.StringIO(encode(TABLE, Form.CSV).decode())))
    assert [float(row["loss"]) for row in rows[:50]] == LOSSES
    assert [int(row["count"]) for row in rows[:50]] == [row["count"] for row in ROWS[:50]]
    assert [row["loss"] for row in rows[50:]] == ["", ""]
    assert rows[0]["name"] == 'a, "b"\nc'


def test_parquet_holds_types_units_and_meanings():
    table = parquet.read_table(pa.BufferReader(encode(TABLE, Form.PARQUET)))
    assert table.column("loss").to_pylist() == [*LOSSES, None, None]
    assert table.column("count").to_pylist()[:50] == [row["count"] for row in ROWS[:50]]
    assert table.schema.field("loss").metadata[b"unit"] == b"nats per token"
    assert table.schema.field("known").type == pa.bool_()
    assert table.schema.metadata[b"meaning"] == b"A row is a test."


def test_json_holds_the_columns_meanings_beside_the_rows_and_no_bare_nan():
    def refuse(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(encode(TABLE, Form.JSON), parse_constant=refuse)
    assert [row["loss"] for row in found["rows"]] == [*LOSSES, None, None]
    assert found["columns"][1] == {
        "name": "loss",
        "type": "number",
        "unit": "nats per token",
        "meaning": "A loss.",
    }


@pytest.mark.parametrize("form", Form)
def test_what_is_written_can_be_read_as_a_file_of_runs(tmp_path, form):
    path = tmp_path / f"made.{form}"
    path.write_bytes(encode(TABLE, form))
    assert read_frame(path)["loss"].tolist()[:50] == LOSSES


@pytest.mark.parametrize("form", Form)
def test_a_table_without_rows_still_says_what_its_columns_are(form):
    written = encode(tabulate("made", "None.", COLUMNS, []), form)
    assert all(column.name.encode() in written for column in COLUMNS)


def test_a_row_must_have_every_column_and_hold_only_cells():
    with pytest.raises(KeyError, match="known"):
        tabulate("made", "", COLUMNS, [{"name": "", "loss": 1.0, "count": 1}])
    with pytest.raises(TypeError, match="not list"):
        tabulate("made", "", COLUMNS[:1], [{"name": []}])
