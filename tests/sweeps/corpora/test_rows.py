"""JSON Lines, Parquet and data sets: the same rows are the same documents, faults have a place."""

import gzip
import json
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from sweeps.corpora.pin import read
from sweeps.errors import InputError
from sweeps.sources import CorpusKind
from tests.corpora import pinned

pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")

TEXTS = ["one", "zwei ✓ 日本", "", "  \n", "drei\nLines"]
KEPT = [text.encode() for text in TEXTS if text.strip()]


def write_jsonl(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def contents(kind: CorpusKind, path: Path, **fields: Any) -> list[bytes]:
    return [document.content for document in read(pinned(kind, path, **fields))]


def refused(kind: CorpusKind, path: Path | str, **fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        pinned(kind, path, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_line_is_a_document_and_blank_ones_are_none(tmp_path):
    file = write_jsonl(tmp_path / "a.jsonl", [{"id": 1, "text": text} for text in TEXTS])
    file.write_bytes(file.read_bytes() + b"\n  \n" + b'{"text": "no newline"}')
    assert contents(CorpusKind.JSONL, file) == [*KEPT, b"no newline"]


def test_escaped_text_is_what_it_stands_for(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "\\u65e5\\ud83d\\ude00\\n"}\n')
    assert contents(CorpusKind.JSONL, tmp_path / "a.jsonl") == ["日😀\n".encode()]


def test_files_are_read_in_order_and_gz_files_unpacked(tmp_path):
    write_jsonl(tmp_path / "b.jsonl", [{"body": "second"}])
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"body": "first"}\n'))
    found = contents(CorpusKind.JSONL, tmp_path / "*.jsonl*", column="body")
    assert found == [b"first", b"second"]


def test_rows_of_every_source_are_one_corpus(tmp_path):
    rows = [{"text": text} for text in TEXTS]
    write_jsonl(tmp_path / "a.jsonl", rows)
    parquet.write_table(pa.table({"text": TEXTS}), tmp_path / "a.parquet", row_group_size=2)
    lines = pinned(CorpusKind.JSONL, tmp_path / "a.jsonl")
    table = pinned(CorpusKind.PARQUET, tmp_path / "a.parquet")
    assert lines.fingerprint == table.fingerprint
    assert (table.num_documents, table.num_bytes) == (len(KEPT), sum(map(len, KEPT)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"text": "\xff"}', "line 2 is not UTF-8 text"),
        (b'{"text": "a"', "line 2 is not JSON"),
        (b"[" * 100_000, "line 2 is not JSON"),
        (b'"text"', "line 2 is of type str, not an object with 'text'"),
        (b'{"body": "a", "id": 3}', "line 2: there is no column 'text'; the columns are body, id"),
        (b"{}", "line 2: there is no column 'text'; the columns are none"),
        (b'{"text": null}', "line 2: column 'text' is null, not text"),
        (b'{"text": 3}', "line 2: column 'text' is of type int, not text"),
        (b'{"text": ["a"]}', "line 2: column 'text' is of type list, not text"),
        (b'{"text": "\\ud800"}', "line 2: column 'text' is not UTF-8 text"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(tmp_path, line, words):
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "fine"}\n' + line + b"\n")
    sentence = refused(CorpusKind.JSONL, tmp_path / "a.jsonl")
    assert sentence.startswith(f"corpus file {tmp_path / 'a.jsonl'}, {words}")


@pytest.mark.parametrize("cut", [5, -6])
def test_a_damaged_gz_file_is_named(tmp_path, cut):
    packed = gzip.compress(b'{"text": "one"}\n' * 50)
    (tmp_path / "a.jsonl.gz").write_bytes(packed[:cut])
    assert "a.jsonl.gz cannot be read" in refused(CorpusKind.JSONL, tmp_path / "a.jsonl.gz")
    (tmp_path / "a.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00" + packed[5:])
    assert "a.jsonl.gz cannot be read" in refused(CorpusKind.JSONL, tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXTS, pa.large_string()),
        pa.array([text.encode() for text in TEXTS], pa.binary()),
        pa.array(TEXTS).dictionary_encode(),
    ],
    ids=["large_string", "binary", "dictionary"],
)
def test_text_in_any_of_its_parquet_types_is_read(tmp_path, column):
    table = pa.table({"id": range(len(TEXTS)), "body": column})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert contents(CorpusKind.PARQUET, tmp_path / "a.parquet", column="body") == KEPT


def test_more_rows_than_are_held_at_once_are_read_in_order(tmp_path):
    texts = [f"row {number}" for number in range(2500)]
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=700)
    found = contents(CorpusKind.PARQUET, tmp_path / "a.parquet")
    assert found == [text.encode() for text in texts]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array(["fine", None]), "row 2: column 'text' is null, not text"),
        (pa.array([b"fine", b"\xff"], pa.binary()), "row 2: column 'text' is not UTF-8 text"),
        (pa.array([1, 2]), "column 'text' holds int64, not text"),
        (pa.array([["a"], ["b"]]), "column 'text' holds list<"),
    ],
    ids=["null", "not UTF-8", "numbers", "lists"],
)
def test_a_bad_parquet_column_is_named(tmp_path, column, words):
    parquet.write_table(pa.table({"text": column}), tmp_path / "a.parquet")
    sentence = refused(CorpusKind.PARQUET, tmp_path / "a.parquet")
    assert words in sentence
    assert sentence.startswith(f"corpus file {tmp_path / 'a.parquet'}")


def test_text_that_parquet_only_claims_to_hold_is_refused_by_its_row(tmp_path):
    claimed = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\4\0\0\0\6\0\0\0"), pa.py_buffer(b"fine\xff\xfe")
    )
    parquet.write_table(pa.table({"text": claimed}), tmp_path / "a.parquet")
    assert "row 2: column 'text' is not UTF-8" in refused(
        CorpusKind.PARQUET, tmp_path / "a.parquet"
    )


def test_a_missing_parquet_column_and_a_file_of_another_kind_are_named(tmp_path):
    parquet.write_table(pa.table({"body": ["a"], "id": [1]}), tmp_path / "a.parquet")
    assert "there is no column 'text'; the columns are body, id" in refused(
        CorpusKind.PARQUET, tmp_path / "a.parquet"
    )
    (tmp_path / "b.parquet").write_text("x" * 100)
    assert "b.parquet is not a Parquet file" in refused(CorpusKind.PARQUET, tmp_path / "b.parquet")


@pytest.mark.parametrize(
    ("kind", "absent", "words"),
    [
        (CorpusKind.PARQUET, "pyarrow", "kind parquet needs pyarrow.* pip install 'pyarrow'"),
        (CorpusKind.DATASET, "datasets", r"kind dataset needs datasets.*'gridlaw\[datasets\]'"),
    ],
)
def test_a_missing_library_is_one_sentence(monkeypatch, tmp_path, kind, absent, words):
    monkeypatch.setitem(sys.modules, absent, None)  # an import of it now fails
    with pytest.raises(InputError, match=words):
        pinned(kind, tmp_path)


class TestDataSets:
    """Against the real library, on a local folder, where it is installed."""

    @pytest.fixture(autouse=True)
    def _library(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
        datasets = pytest.importorskip("datasets")
        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
        datasets.disable_progress_bars()

    def folder(self, tmp_path: Path, rows: Iterable[object]) -> Path:
        (tmp_path / "set").mkdir()
        write_jsonl(tmp_path / "set" / "train.jsonl", rows)
        return tmp_path / "set"

    def test_rows_are_the_same_corpus_as_from_files(self, tmp_path):
        folder = self.folder(tmp_path, [{"text": text, "id": 1} for text in TEXTS])
        lines = pinned(CorpusKind.JSONL, folder / "train.jsonl")
        assert pinned(CorpusKind.DATASET, folder).fingerprint == lines.fingerprint

    def test_a_null_row_and_a_missing_column_are_named(self, tmp_path):
        folder = self.folder(tmp_path, [{"text": "fine"}, {"text": None}])
        assert "split 'train', row 2: column 'text' is null" in refused(CorpusKind.DATASET, folder)
        assert "there is no column 'body'; the columns are text" in refused(
            CorpusKind.DATASET, folder, column="body"
        )

    @pytest.mark.parametrize("wrong", [{"split": "nope"}, {"subset": "nope"}])
    def test_an_unknown_split_or_subset_is_one_sentence(self, tmp_path, wrong):
        folder = self.folder(tmp_path, [{"text": "fine"}])
        assert "cannot be loaded" in refused(CorpusKind.DATASET, folder, **wrong)

    def test_a_data_set_that_is_nowhere_is_one_sentence(self, tmp_path):
        assert "cannot be loaded" in refused(CorpusKind.DATASET, tmp_path / "gone")
        assert "'no/such-set' cannot be loaded" in refused(CorpusKind.DATASET, "no/such-set")
