"""Files of runs: every kind read exactly, every mistake one sentence that names it."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pandas import DataFrame
from pyarrow import parquet

from sweeps.errors import InputError
from sweeps.tables.run_file import column, is_run_file, numbers, read_frame, words

AWKWARD = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)


def written(folder: Path, ending: str, columns: dict[str, list[Any]]) -> Path:
    path = folder / f"runs{ending}"
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    match ending:
        case ".csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(columns))
                writer.writeheader()
                writer.writerows(rows)
        case ".parquet":
            parquet.write_table(pa.table(columns), path)
        case _:
            path.write_text(json.dumps({"rows": rows}))
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".json"])
def test_numbers_come_back_with_the_bits_that_were_written(tmp_path, ending):
    columns = {"loss": AWKWARD.tolist(), "name": [f"run {i}" for i in range(len(AWKWARD))]}
    frame = read_frame(written(tmp_path, ending, columns))
    assert frame["loss"].tolist() == AWKWARD.tolist()
    assert frame["name"].tolist() == columns["name"]
    assert frame.index.tolist() == list(range(1, len(AWKWARD) + 1))


def test_json_may_be_a_bare_list_and_rows_may_lack_what_others_have(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text('[{"N": 1.5}, {"N": 2.5, "note": "x"}]')
    frame = read_frame(path)
    assert frame["N"].tolist() == [1.5, 2.5]
    assert words(frame, "note", key="arm-col").tolist() == ["", "x"]


def test_a_column_of_text_is_text_however_late_its_first_word_comes(tmp_path):
    keys = [*range(200_000), "NOH"]
    frame = read_frame(written(tmp_path, ".csv", {"fit_key": keys}))
    assert frame["fit_key"].tolist() == [str(key) for key in keys]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.txt", "N\n1\n", "ends in .csv or .parquet or .json"),
        ("a.csv", "", "is not a CSV file of runs: Empty CSV file"),
        ("a.csv", "N,D\n", "has no row under its header"),
        ("a.csv", "N,N\n1,2\n", "more than one column is named N"),
        ("a.csv", "N,D\n1,2\n3\n", "is not a CSV file of runs"),
        ("a.parquet", "N,D\n1,2\n", "is not a PARQUET file of runs"),
        ("a.json", '{"rows": 3}', "must hold a list of objects"),
        ("a.json", "[1, 2]", "must hold a list of objects"),
        ("a.json", "{", "is not a JSON file of runs"),
        ("a.json", "[" * 100_000, "is not a JSON file of runs"),
        ("a.csv", "N;D\n1,5;2,5\n", "stand apart by semicolons; commas are read"),
        ("a.csv", "N\tD\n1\t2\n", "stand apart by tabs; commas are read"),
        ("a.csv", "N,D\n1\x1b[2J\n", r"got 1: 1\N{REPLACEMENT CHARACTER}\[2J"),
    ],
)
def test_what_is_no_file_of_runs_is_refused_in_one_sentence(tmp_path, name, text, sentence):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as raised:
        read_frame(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"runs\.csv cannot be read: .*No such file"):
        read_frame(tmp_path / "runs.csv")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("N,modèle\n1,a\n".encode("latin-1"), "is not a CSV file of runs: .*utf-8"),
        ("N,model\n1,é\n".encode("latin-1"), "column model is not text in UTF-8"),
        ("N,D\n1,2\n".encode("utf-16"), "is not a CSV file of runs"),
    ],
)
def test_text_that_is_not_utf_8_is_refused(tmp_path, content, sentence):
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_frame(path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".json"])
def test_a_folder_is_no_file_of_runs(tmp_path, ending):
    path = tmp_path / f"runs{ending}"
    path.mkdir()
    with pytest.raises(InputError, match="is a folder, not a file of runs"):
        read_frame(path)


def test_what_pandas_wrote_is_read_whatever_its_index_and_its_types_were(tmp_path):
    path = tmp_path / "runs.parquet"
    given = DataFrame({"N": [1.5, 2.5], "D": [3, 4], "name": ["a", "b"], "run": ["x", "y"]})
    for index in ("N", "run", ["N", "name"]):
        given.convert_dtypes().set_index(index).to_parquet(path)
        frame = read_frame(path)
        assert sorted(frame.columns) == sorted(given.columns)
        assert frame.index.tolist() == [1, 2]
        assert numbers(frame, "N", key="n-col").tolist() == [1.5, 2.5]
        assert words(frame, "name", key="arm-col").tolist() == ["a", "b"]


def test_a_missing_column_is_answered_with_the_one_that_was_meant(tmp_path):
    frame = read_frame(written(tmp_path, ".csv", {"Tokens": [1], "loss": [2]}))
    with pytest.raises(InputError, match=r"d-col = tokens: .*mean Tokens\? There is Tokens, loss"):
        column(frame, "tokens", key="d-col")
    with pytest.raises(InputError, match=r"d-col = zzz: the file has no such column; there is"):
        column(frame, "zzz", key="d-col")


@pytest.mark.parametrize(
    ("value", "said"), [(-1.0, "is -1.0"), (0.0, "is 0.0"), ("inf", "is inf"), ("", "is missing")]
)
def test_a_value_that_is_not_positive_and_finite_is_named_with_its_row(tmp_path, value, said):
    frame = read_frame(written(tmp_path, ".csv", {"L": [2.0, 3.0, value, 4.0], "x": [1] * 4}))
    with pytest.raises(InputError, match=rf"loss-col = L: the value in row 3 {said};"):
        numbers(frame, "L", key="loss-col")


def test_a_word_among_numbers_is_named_with_its_row(tmp_path):
    frame = read_frame(written(tmp_path, ".csv", {"L": [2.0, "3,1", 4.0]}))
    with pytest.raises(InputError, match=r"loss-col = L: row 2 holds '3,1', which is no number"):
        numbers(frame, "L", key="loss-col")


def test_a_sweep_and_a_file_are_told_apart_by_the_ending():
    assert is_run_file("runs.csv")
    assert is_run_file("a/b.PARQUET")
    assert not is_run_file("quickstart-1a2b3c")
    assert not is_run_file("v1.5")
