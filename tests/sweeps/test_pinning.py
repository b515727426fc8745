"""A sweep against its corpus: ids inside the vocabulary, and no more epochs than are allowed."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeps.corpora.pin import Pinned
from sweeps.errors import InputError, SpecError
from sweeps.pinning import check_epochs, pin_corpus
from sweeps.plan import expand
from sweeps.spec import parse_spec
from tests.sweeps.specs import mapping, train

SMALL = {"eval": {"held_out": 0.3, "tokens": "64tok"}, "recipes": ["bf16"]}


@pytest.fixture
def texts(tmp_path):
    """Some 20 000 bytes in 100 documents."""
    for number in range(100):
        (tmp_path / f"{number:02}.txt").write_text(f"{number:03}" * 66)
    return tmp_path


def checked(**changes: Any) -> Pinned:
    spec = parse_spec(mapping(**(SMALL | changes)))
    pinned = pin_corpus(spec)
    check_epochs(expand(spec, pinned.ref), pinned)
    return pinned


def test_as_many_epochs_as_are_allowed_are_planned_and_one_step_more_is_not(texts):
    pinned = checked(corpus=str(texts), budgets=["20480tok"])
    epoch = (pinned.train.tokens - 1) // 32 * 32
    steps = 4 * epoch // 1024
    assert checked(corpus=str(texts), budgets=[f"{steps * 1024}tok"]) == pinned
    with pytest.raises(
        SpecError, match=r"train.max_epochs = 4: budget .* of model 2x64h2 is"
    ) as no:
        checked(corpus=str(texts), budgets=["20480tok", f"{(steps + 1) * 1024}tok"])
    assert f"{(steps + 1) * 1024 / epoch:.3g} epochs of a corpus with" in str(no.value)
    more = train(max_epochs=5)
    assert checked(corpus=str(texts), budgets=[f"{(steps + 1) * 1024}tok"], train=more) == pinned


def test_a_learnt_tokenizer_takes_at_least_so_many_epochs(texts):
    with pytest.raises(SpecError, match=r"epochs at least of a corpus with .* at most to train on"):
        checked(corpus=str(texts), tokenizer={"bpe": 300}, budgets=["1Mtok"])


def test_the_longest_run_of_the_largest_model_is_the_one_that_is_told(texts):
    models = [{"layers": 1, "width": 64, "heads": 2}, {"layers": 4, "width": 64, "heads": 2}]
    with pytest.raises(SpecError, match="budget 9tpp of model 4x64h2 is"):
        checked(corpus=str(texts), models=models, budgets=["5tpp", "9tpp"])


def shards(path: Path, documents: Sequence[Sequence[int]]) -> dict[str, object]:
    ids = [token for document in documents for token in (500, *document)]
    start = struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253)
    path.write_bytes(start + np.array(ids, np.uint16).tobytes())
    return {"shards": str(path), "separator": 500}


def test_token_shards_are_counted_in_tokens(tmp_path):
    entry = shards(tmp_path / "a.bin", [[number] * 99 for number in range(100)])
    pinned = checked(corpus=entry, tokenizer={"ids": 501}, budgets=["20480tok"])
    assert pinned.train.tokens + pinned.held_out.tokens == 10_000
    assert pinned.largest_id == 99
    with pytest.raises(SpecError, match=r"epochs of a corpus with [\d.]+ktok to train on"):
        checked(corpus=entry, tokenizer={"ids": 501}, budgets=["1Mtok"])


def test_an_id_outside_the_vocabulary_is_named(tmp_path):
    entry = shards(tmp_path / "a.bin", [[number, 777] * 50 for number in range(100)])
    with pytest.raises(SpecError, match=r"tokenizer.ids = 777: the corpus holds the id 777; ids"):
        checked(corpus=entry, tokenizer={"ids": 777})
    assert checked(corpus=entry, tokenizer={"ids": 778}, budgets=["20480tok"]).largest_id == 777


def test_a_tokenizer_that_will_not_do_is_found_before_the_corpus_is_read(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text('{"model": {"vocab": {"a": 0}}}')
    spec = parse_spec(mapping(corpus=str(tmp_path / "gone"), tokenizer={"file": str(file)}))
    file.unlink()
    with pytest.raises(SpecError, match=r"tokenizer\.file = .*cannot be read"):
        pin_corpus(spec)
    with pytest.raises(InputError, match="matches no file"):
        pin_corpus(parse_spec(mapping(corpus=str(tmp_path / "gone"))))
