"""Training on every source of documents: the same text gives the same losses wherever it lies."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from sweeps.errors import InputError
from sweeps.metrics import Endpoint
from sweeps.sources import CorpusKind, CorpusRef, TokenizerKind, TokenizerRef
from sweeps.training import Order
from tests.corpora import pinned
from tests.workers.tiny import endpoints, run, tiny_spec, write_corpus

SEPARATOR = 256


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("texts"))


def laid(texts: Path, folder: Path) -> dict[CorpusKind, CorpusRef]:
    """The files of a folder as one file of each other kind."""
    contents = [path.read_bytes() for path in sorted(texts.iterdir())]
    rows = [text.decode() for text in contents]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    parquet.write_table(arrow.table({"text": rows}), folder / "a.parquet")
    pieces = [np.append(np.frombuffer(text, np.uint8).astype(np.uint16), 256) for text in contents]
    (folder / "a.bin").write_bytes(np.concatenate(pieces).tobytes())
    shards = {"separator": SEPARATOR, "token_type": "uint16"}
    return {
        CorpusKind.TEXT: pinned(CorpusKind.TEXT, texts),
        CorpusKind.JSONL: pinned(CorpusKind.JSONL, folder / "a.jsonl"),
        CorpusKind.PARQUET: pinned(CorpusKind.PARQUET, folder / "a.parquet"),
        CorpusKind.SHARDS: pinned(CorpusKind.SHARDS, folder / "a.bin", **shards),
    }


def trained(texts: Path, corpus: CorpusRef, folder: Path, order: Order) -> Endpoint:
    spec = replace(tiny_spec(texts, order=order), corpus=corpus)
    if corpus.kind is CorpusKind.SHARDS:
        ids = TokenizerRef(kind=TokenizerKind.IDS, vocab_size=SEPARATOR + 1)
        spec = replace(spec, tokenizer=ids)
    (end,) = endpoints(run(spec, [8], folder))
    return end


def test_text_lines_and_rows_train_to_the_same_loss(texts, tmp_path):
    corpora = laid(texts, tmp_path)
    rows = (CorpusKind.TEXT, CorpusKind.JSONL, CorpusKind.PARQUET)
    assert len({corpora[kind].fingerprint for kind in rows}) == 1
    found = [
        trained(texts, corpora[kind], tmp_path / kind / "run", Order.DOCUMENTS) for kind in rows
    ]
    assert found[0] == found[1] == found[2]
    in_order = trained(texts, corpora[CorpusKind.TEXT], tmp_path / "w" / "run", Order.WINDOWS)
    assert in_order.train_loss != found[0].train_loss
    assert in_order.bytes_per_token == found[0].bytes_per_token


def test_ids_train_too_and_do_not_say_bits_per_byte(texts, tmp_path):
    corpus = laid(texts, tmp_path)[CorpusKind.SHARDS]
    end = trained(texts, corpus, tmp_path / "s" / "run", Order.DOCUMENTS)
    assert end.bytes_per_token is None
    assert 2 < end.loss < 6


def test_more_epochs_than_are_allowed_end_before_the_first_step(texts, tmp_path):
    spec = tiny_spec(texts, max_epochs=1)
    steps = spec.corpus.num_bytes // spec.training.batch_tokens * 2
    with pytest.raises(InputError, match=r"train.max_epochs = 1: .* epochs of corpus"):
        run(spec, [2, steps], tmp_path / "run")
