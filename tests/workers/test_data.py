import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from sweeps.corpus import describe, read, split
from sweeps.errors import InputError
from sweeps.runspec import Evaluation
from sweeps.sources import CorpusKind, TokenizerKind, TokenizerRef
from sweeps.training import Training
from tests.workers.tiny import write_corpus
from workers.data import open_dataset

CONTEXT, BATCH = 32, 256
TRAINING = Training(context=CONTEXT, batch_tokens=BATCH, learning_rate=1.0, warmup_tokens=0)
EVALUATION = Evaluation(held_out=0.2, tokens=1000)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return describe(CorpusKind.TEXT, str(write_corpus(tmp_path_factory.mktemp("corpus"))))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def dataset(corpus, cache):
    return open_dataset(corpus, TokenizerRef(), TRAINING, EVALUATION, cache)


def test_training_tokens_are_the_training_documents_each_ended_by_the_separator(dataset, corpus):
    train, _ = split(read(corpus), EVALUATION.held_out)
    expected = [token for document in train for token in (*document.text, 256)]
    assert dataset.train.tolist() == expected


def test_validation_windows_hold_held_out_text_alone_in_order(dataset, corpus):
    _, held_out = split(read(corpus), EVALUATION.held_out)
    text = b"\0".join(document.text for document in held_out)
    places = [
        text.find(bytes(token if token < 256 else 0 for token in window))
        for window in dataset.validation.tolist()
    ]
    assert len(places) == EVALUATION.tokens // CONTEXT
    assert min(places) >= 0
    assert places == sorted(set(places))
    assert places[-1] > 0.8 * len(text)  # spread over the whole split, not its beginning


def test_a_batch_is_a_function_of_seed_and_step_alone(dataset, corpus, cache):
    again = open_dataset(corpus, TokenizerRef(), TRAINING, EVALUATION, cache)
    later = again.batch(3, 7)
    assert np.array_equal(again.batch(3, 2), dataset.batch(3, 2))
    assert np.array_equal(dataset.batch(3, 7), later)
    assert not np.array_equal(dataset.batch(4, 7), later)
    assert later.shape == (BATCH // CONTEXT, CONTEXT + 1)


def test_every_window_comes_once_in_each_epoch_in_another_order(dataset):
    counted = replace(dataset, train=np.arange(CONTEXT * 101 + 7))
    steps = math.ceil(2 * 101 / counted.sequences)
    read_ = np.concatenate([counted.batch(5, step) for step in range(steps)])
    assert (np.diff(read_, axis=1) == 1).all()
    order = (read_[:, 0] // CONTEXT).tolist()
    first, second = order[:101], order[101:202]
    assert sorted(first) == sorted(second) == list(range(101))
    assert first != second
    assert first != sorted(first)
    assert (read_[:, 0] % CONTEXT == 0).all()  # so targets of neighbouring windows are adjacent


def test_unigram_entropy_is_that_of_the_training_tokens(dataset):
    tokens = dataset.train.tolist()
    shares = [tokens.count(token) / len(tokens) for token in set(tokens)]
    assert math.isclose(
        dataset.unigram_entropy, -sum(p * math.log(p) for p in shares), rel_tol=1e-12
    )


def test_bytes_per_token_counts_the_text_of_the_validation_targets(corpus, cache):
    for tokenizer in (TokenizerRef(), TokenizerRef(kind=TokenizerKind.BPE, vocab_size=400)):
        dataset = open_dataset(corpus, tokenizer, TRAINING, EVALUATION, cache)
        targets = dataset.validation[:, 1:]
        if tokenizer.kind is TokenizerKind.BYTE:
            assert dataset.bytes_per_token == (targets < 256).sum() / targets.size
        else:
            assert 1.3 < dataset.bytes_per_token < 4


def test_a_bpe_learns_from_training_documents_alone(corpus, cache):
    bpe = TokenizerRef(kind=TokenizerKind.BPE, vocab_size=400)
    for held_out in (0.2, 0.3):
        open_dataset(corpus, bpe, TRAINING, replace(EVALUATION, held_out=held_out), cache)
    learnt = {path.read_text() for path in cache.glob("bpe-400-*.json")}
    assert len(learnt) == 2


def test_a_cached_corpus_is_opened_without_its_files(corpus, cache, dataset):
    gone = replace(corpus, path="/nowhere")
    again = open_dataset(gone, TokenizerRef(), TRAINING, EVALUATION, cache)
    assert np.array_equal(again.train, dataset.train)


def test_a_corpus_below_one_batch_is_refused(corpus, cache):
    training = replace(TRAINING, batch_tokens=CONTEXT * 100_000)
    with pytest.raises(
        InputError, match=r"batch_tokens = 3200000: .* has only \d+ training tokens"
    ):
        open_dataset(corpus, TokenizerRef(), training, EVALUATION, cache)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (10**7, r"evaluation.tokens = 10000000: .*held_out = 0.2.* have only \d+ tokens"),
        (CONTEXT, r"evaluation.tokens = 32: needs at least two sequences of 32 tokens"),
    ],
)
def test_a_validation_split_that_cannot_serve_is_refused(corpus, cache, tokens, message):
    with pytest.raises(InputError, match=message):
        open_dataset(corpus, TokenizerRef(), TRAINING, replace(EVALUATION, tokens=tokens), cache)


def test_two_processes_may_race_for_the_cache(corpus, tmp_path):
    script = f"""
from pathlib import Path
from sweeps.corpus import describe
from sweeps.runspec import Evaluation
from sweeps.sources import CorpusKind, TokenizerRef
from sweeps.training import Training
from workers.data import open_dataset
dataset = open_dataset(
    describe(CorpusKind.TEXT, {corpus.path!r}), TokenizerRef(),
    Training(context=32, batch_tokens=256, learning_rate=1.0, warmup_tokens=0),
    Evaluation(held_out=0.2, tokens=1000), Path({str(tmp_path)!r}),
)
print(dataset.batch(0, 0).tolist(), dataset.unigram_entropy)
"""
    racers = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) for _ in range(2)
    ]
    outputs = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    assert outputs[0] == outputs[1]
    assert len(list(tmp_path.iterdir())) == 2
