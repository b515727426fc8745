"""The dataset of a run: its tokens, its held-out windows, and what is refused before training."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sweeps.corpora.document import Document
from sweeps.corpora.pin import read
from sweeps.corpora.split import is_held_out
from sweeps.errors import InputError
from sweeps.runspec import Evaluation
from sweeps.sources import TokenizerKind, TokenizerRef
from sweeps.training import Order, Training
from tests.corpora import pinned_text
from tests.workers.tiny import write_corpus
from workers.data.dataset import open_dataset

CONTEXT, BATCH = 32, 256
TRAINING = Training(context=CONTEXT, batch_tokens=BATCH, learning_rate=1.0, warmup_tokens=0)
EVALUATION = Evaluation(held_out=0.2, tokens=1000)
BPE = TokenizerRef(kind=TokenizerKind.BPE, vocab_size=400)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return pinned_text(write_corpus(tmp_path_factory.mktemp("corpus")))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def dataset(corpus, cache):
    return open_dataset(corpus, TokenizerRef(), TRAINING, EVALUATION, cache)


def side(corpus, *, held_out: bool) -> list[Document]:
    return [one for one in read(corpus) if is_held_out(one, EVALUATION.held_out) is held_out]


def test_training_tokens_are_the_training_documents_each_ended_by_the_separator(dataset, corpus):
    documents = side(corpus, held_out=False)
    assert dataset.train.tolist() == [t for one in documents for t in (*one.content, 256)]


def test_validation_windows_hold_held_out_text_alone_in_order(dataset, corpus):
    text = b"\0".join(document.content for document in side(corpus, held_out=True))
    places = [
        text.find(bytes(token if token < 256 else 0 for token in window))
        for window in dataset.validation.tolist()
    ]
    assert len(places) == EVALUATION.tokens // CONTEXT
    assert min(places) >= 0
    assert places == sorted(set(places))
    assert places[-1] > 0.8 * len(text)  # spread over the whole split, not its beginning


def test_documents_are_shuffled_where_the_training_says_so(corpus, cache, dataset):
    shuffled = replace(TRAINING, order=Order.DOCUMENTS)
    again = open_dataset(corpus, TokenizerRef(), shuffled, EVALUATION, cache)
    assert np.array_equal(again.train, dataset.train)
    assert np.array_equal(again.validation, dataset.validation)
    documents = side(corpus, held_out=False)
    assert dataset.documents is None
    assert again.documents is not None
    assert np.diff(again.documents.ends).tolist() == [len(one.content) + 1 for one in documents[1:]]
    first, other = again.batch(3, 2), dataset.batch(3, 2)
    assert first.shape == other.shape == (BATCH // CONTEXT, CONTEXT + 1)
    assert not np.array_equal(first, other)


def test_unigram_entropy_is_that_of_the_training_tokens(dataset):
    tokens = dataset.train.tolist()
    shares = [tokens.count(token) / len(tokens) for token in set(tokens)]
    assert math.isclose(
        dataset.unigram_entropy, -sum(p * math.log(p) for p in shares), rel_tol=1e-12
    )


def test_bytes_per_token_counts_the_text_of_the_validation_targets(corpus, cache, dataset):
    targets = dataset.validation[:, 1:]
    assert dataset.bytes_per_token == (targets < 256).sum() / targets.size
    learnt = open_dataset(corpus, BPE, TRAINING, EVALUATION, cache)
    assert learnt.bytes_per_token is not None
    assert 1.3 < learnt.bytes_per_token < 4


def test_a_bpe_learns_from_training_documents_alone(corpus, cache):
    for held_out in (0.2, 0.3):
        open_dataset(corpus, BPE, TRAINING, replace(EVALUATION, held_out=held_out), cache)
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


def test_more_epochs_than_are_allowed_are_refused_with_their_number(corpus, cache, dataset):
    def opened(longest: int, max_epochs: int = 4) -> int:
        training = replace(TRAINING, max_epochs=max_epochs)
        found = open_dataset(corpus, TokenizerRef(), training, EVALUATION, cache, longest=longest)
        return found.epoch_tokens

    epoch = opened(0)
    assert epoch == (len(dataset.train) - 1) // CONTEXT * CONTEXT
    assert opened(4 * epoch) == epoch
    with pytest.raises(InputError, match=r"train.max_epochs = 4: \d+ training tokens are 4 epochs"):
        opened(4 * epoch + 1)
    assert opened(9 * epoch, max_epochs=9) == epoch
    with pytest.raises(InputError, match=rf"max_epochs = 1: .*are 2\.5 epochs .*has {epoch} to"):
        opened(epoch * 5 // 2, max_epochs=1)


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
