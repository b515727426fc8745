"""Token files: written once, whole or absent, mapped and not read."""

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeps.corpora.pin import read
from sweeps.errors import InputError, StorageError
from sweeps.sources import CorpusKind, CorpusRef, TokenizerKind, TokenizerRef
from tests.corpora import pinned, pinned_text
from workers.data import tokenized
from workers.data.tokenized import TokenFiles
from workers.tokenizer import open_tokenizer

IDS = TokenizerRef(kind=TokenizerKind.IDS, vocab_size=1000)


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number:02}.txt").write_text(f"{number} " * (number + 1))
    return folder


def shard(path: Path, documents: list[list[int]], *, before: bool) -> Path:
    """A raw shard with the separator 999 before each document, as llm.c, or behind."""
    for_each = [[999, *ids] if before else [*ids, 999] for ids in documents]
    path.write_bytes(b"".join(np.array(ids, np.uint16).tobytes() for ids in for_each))
    return path


def shard_ref(path: Path) -> CorpusRef:
    return pinned(CorpusKind.SHARDS, path, separator=999, token_type="uint16")


def test_shards_are_split_by_document_and_each_one_ends_with_the_separator(tmp_path):
    documents = [[number, number + 1, 7] for number in range(60)]
    refs = [
        shard_ref(shard(tmp_path / f"{before}.bin", documents, before=before))
        for before in (True, False)
    ]
    assert refs[0].fingerprint == refs[1].fingerprint
    files = TokenFiles(refs[0], IDS, 0.3, tmp_path / "cache")
    found = [
        bytes(array.astype("<u2")).split(b"\xe7\x03")
        for array in (files.train(), files.validation())
    ]
    assert all(pieces.pop() == b"" for pieces in found)
    read = [[list(np.frombuffer(piece, "<u2")) for piece in pieces] for pieces in found]
    assert sorted(read[0] + read[1]) == documents
    assert read[0] == [ids for ids in documents if ids in read[0]]
    assert 5 < len(read[1]) < 35
    assert files.documents().ends.tolist() == [4 * (n + 1) for n in range(len(read[0]))]
    assert files.about.validation_bytes == 0


def test_an_id_outside_the_vocabulary_is_refused_and_nothing_is_left(tmp_path):
    ref = shard_ref(shard(tmp_path / "a.bin", [[1], [2, 500], [3]], before=False))
    with pytest.raises(InputError, match=r"vocab_size = 1000: .* holds the id 1000"):
        TokenFiles(
            shard_ref(shard(tmp_path / "b.bin", [[n, 1000] for n in range(9)], before=True)),
            *(IDS, 0.5, tmp_path / "cache"),
        )
    with pytest.raises(InputError, match=r"corpus.separator = 999: must be below .* 999 ids"):
        TokenFiles(ref, replace(IDS, vocab_size=999), 0.5, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


def test_a_corpus_that_changed_leaves_nothing_in_the_cache(texts, tmp_path):
    ref = pinned_text(texts)
    (texts / "00.txt").write_text("other")
    for tokenizer in (TokenizerRef(), TokenizerRef(kind=TokenizerKind.BPE, vocab_size=262)):
        with pytest.raises(InputError, match="has changed: the plan pinned"):
            TokenFiles(ref, tokenizer, 0.3, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize("harm", ["lose", "truncate", "empty about"])
def test_files_that_are_not_whole_are_written_again(texts, tmp_path, harm):
    first = TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "cache")
    expected = {p.name: p.read_bytes() for p in (tmp_path / "cache").glob("tokens-*")}
    assert len(expected) == 4
    about, *_ = (tmp_path / "cache").glob("*.json")
    ids, *_ = (tmp_path / "cache").glob("*train.ids")
    match harm:
        case "lose":
            ids.unlink()
        case "truncate":
            os.truncate(ids, 10)
        case _:
            about.write_bytes(b"")
    again = TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "cache")
    assert again.about == first.about
    assert {p.name: p.read_bytes() for p in (tmp_path / "cache").glob("tokens-*")} == expected


def test_how_documents_are_batched_changes_nothing(texts, tmp_path, monkeypatch):
    whole = TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "whole")
    monkeypatch.setattr(tokenized, "BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(tokenized, "BATCH_BYTES", 100)
    parts = TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "parts")
    assert parts.about == whole.about
    for one, other in zip(
        sorted((tmp_path / "whole").glob("tokens*")),
        sorted((tmp_path / "parts").glob("tokens*")),
        strict=True,
    ):
        assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_no_more_than_a_batch_of_documents_is_held(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(tokenized, "BATCH_DOCUMENTS", 4)
    held: list[int] = []

    def watched(*args, **kwargs):
        tokenizer = open_tokenizer(*args, **kwargs)

        class Watched:
            separator = tokenizer.separator

            def encode(self, contents):
                held.append(len(contents))
                return tokenizer.encode(contents)

        return Watched()

    monkeypatch.setattr("workers.data.tokenized.open_tokenizer", watched)
    TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "cache")
    assert held == [4] * 10


def test_one_side_without_documents_is_refused(tmp_path):
    (tmp_path / "one.txt").write_text("only one")
    with pytest.raises(InputError, match="both need at least one"):
        TokenFiles(pinned_text(tmp_path / "one.txt"), TokenizerRef(), 0.3, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_a_storage_error(texts, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "file")


def test_others_wait_while_one_writes(texts, tmp_path, monkeypatch):
    ref = pinned_text(texts)
    passes: list[int] = []
    inside, go_on = threading.Event(), threading.Event()

    def slow(ref):
        passes.append(1)
        inside.set()
        assert go_on.wait(20)
        return read(ref)

    monkeypatch.setattr("workers.data.tokenized.read", slow)
    found: list[TokenFiles] = []

    def work():
        found.append(TokenFiles(ref, TokenizerRef(), 0.3, tmp_path / "cache"))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert inside.wait(20)
    threads[0].join(0.05)
    assert not found  # nobody saw half of it
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert len(found) == 3
    assert passes == [1]


def test_the_same_documents_under_another_separator_are_other_tokens(tmp_path):
    documents = [[number, number + 1] for number in range(100)]
    path = shard(tmp_path / "a.bin", documents, before=False)
    other = tmp_path / "b.bin"
    ids = np.fromfile(path, np.uint16)
    other.write_bytes(np.where(ids == 999, np.uint16(998), ids).tobytes())
    refs = [shard_ref(path), pinned(CorpusKind.SHARDS, other, separator=998, token_type="uint16")]
    assert refs[0].fingerprint == refs[1].fingerprint
    for ref in refs:
        tokens = TokenFiles(ref, IDS, 0.3, tmp_path / "cache").train()
        assert set(tokens[2::3].tolist()) == {ref.separator}


@pytest.mark.parametrize(
    ("call", "times", "parts", "whole"),
    [
        ("tokenized.is_held_out", 20, 3, 0),  # in the middle of the corpus
        ("os.fsync", 3, 2, 1),  # one file in place, two not: each is flushed, then its folder
        ("os.fsync", 7, 1, 3),  # only what says that all are there is not
    ],
)
def test_a_killed_writer_blocks_nobody_and_leaves_nothing(
    texts, tmp_path, call, times, parts, whole
):
    script = f"""
import os, signal
from pathlib import Path
from sweeps.sources import TokenizerRef
from tests.corpora import pinned_text
from workers.data import tokenized
tokenized.BATCH_DOCUMENTS = 7
called = {call}
left = [{times}]
def killing(*given):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return called(*given)
{call} = killing
cache = Path({str(tmp_path / "cache")!r})
tokenized.TokenFiles(pinned_text({str(texts)!r}), TokenizerRef(), 0.3, cache)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "cache").glob(".*.part"))) == parts
    assert len(list((tmp_path / "cache").glob("tokens-*"))) == whole
    files = TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "cache")
    assert list((tmp_path / "cache").glob(".*.part")) == []
    fresh = TokenFiles(pinned_text(texts), TokenizerRef(), 0.3, tmp_path / "fresh")
    assert np.array_equal(files.train(), fresh.train())


def test_two_processes_may_race_for_the_cache(texts, tmp_path):
    script = f"""
from pathlib import Path
from sweeps.runspec import Evaluation
from sweeps.sources import TokenizerKind, TokenizerRef
from sweeps.training import Training
from tests.corpora import pinned_text
from workers.data.dataset import open_dataset
dataset = open_dataset(
    pinned_text({str(texts)!r}), TokenizerRef(kind=TokenizerKind.BPE, vocab_size=262),
    Training(context=8, batch_tokens=64, learning_rate=1.0, warmup_tokens=0),
    Evaluation(held_out=0.3, tokens=64), Path({str(tmp_path / "cache")!r}),
)
print(dataset.batch(0, 0).tolist(), dataset.unigram_entropy)
"""
    racers = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(2)
    ]
    outputs = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert outputs[0] == outputs[1]
    files = [path for path in (tmp_path / "cache").iterdir() if not path.name.startswith(".")]
    assert len(files) == 4 + 1  # the tokens and the learnt tokenizer
