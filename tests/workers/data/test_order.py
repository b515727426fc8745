"""The order of training: every token once an epoch, a pure function of (seed, step)."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from workers.data.dataset import Dataset
from workers.data.order import Documents, Windows


def dataset(
    lengths: Sequence[int], *, context: int, sequences: int, shuffled: bool = True
) -> Dataset:
    """Documents of these lengths over tokens that are their own places."""
    ends = np.cumsum(lengths)
    return Dataset(
        train=np.arange(ends[-1], dtype=np.uint32),
        validation=np.zeros((2, context + 1), np.int64),
        context=context,
        sequences=sequences,
        bytes_per_token=1.0,
        unigram_entropy=0.0,
        documents=Documents(ends) if shuffled else None,
    )


def epoch_windows(data: Dataset, seed: int, epoch: int) -> Windows:
    """All windows of an epoch, by steps that need not end with it."""
    windows = data.epoch_tokens // data.context
    first, last = epoch * windows, (epoch + 1) * windows
    steps = range(first // data.sequences, math.ceil(last / data.sequences))
    read = np.concatenate([data.batch(seed, step) for step in steps])
    start = first - steps[0] * data.sequences
    found: Windows = read[start : start + windows]
    return found


SHAPES = st.tuples(
    st.lists(st.integers(1, 40), min_size=2, max_size=40),
    st.integers(1, 16),
    st.integers(1, 7),
    st.integers(0, 2**31 - 1),
    st.integers(0, 3),
).filter(lambda shape: sum(shape[0]) > shape[1])


@settings(deadline=None)
@given(SHAPES, st.booleans())
def test_every_token_but_the_first_and_a_tail_is_a_target_exactly_once_an_epoch(shape, shuffled):
    lengths, context, sequences, seed, epoch = shape
    data = dataset(lengths, context=context, sequences=sequences, shuffled=shuffled)
    targets = epoch_windows(data, seed, epoch)[:, 1:].ravel().tolist()
    assert len(targets) == len(set(targets)) == data.epoch_tokens
    assert len(data.train) - 1 - data.epoch_tokens < context


@settings(deadline=None)
@given(SHAPES)
def test_an_epoch_is_whole_documents_packed_end_to_end_and_cut(shape):
    lengths, context, sequences, seed, epoch = shape
    data = dataset(lengths, context=context, sequences=sequences)
    windows = {window[0]: window for window in epoch_windows(data, seed, epoch).tolist()}
    after = {window[0]: window[-1] for window in windows.values()}
    (first,) = set(after) - set(after.values()) or {min(after)}
    stream = [first]
    while stream[-1] in windows and len(stream) <= data.epoch_tokens:
        stream += windows[stream[-1]][1:]
    starts = set((np.cumsum(lengths) - lengths).tolist())
    assert len(stream) == data.epoch_tokens + 1
    assert stream[0] in starts
    for token, following in pairwise(stream):
        assert (
            following == token + 1
            if following not in starts
            else token + 1 in starts or (token + 1 == len(data.train))
        )


def test_documents_and_windows_come_in_another_order_each_epoch():
    data = dataset([10] * 100, context=10, sequences=9)
    one, two = (epoch_windows(data, 5, epoch)[:, 0] for epoch in (0, 1))
    assert one.tolist() != two.tolist()
    assert set(one.tolist()) <= set(range(0, 1000, 10))
    assert one.tolist() != sorted(one.tolist())
    # Windows of ten documents of ten tokens follow the order of documents, which is another too.
    follow = [(w[0] // 10, w[-1] // 10) for e in (0, 1) for w in epoch_windows(data, 5, e).tolist()]
    assert len({pair for pair in follow if pair[1] == pair[0] + 1}) < 20


def test_a_batch_does_not_depend_on_what_was_read_before():
    lengths = np.random.default_rng(0).integers(1, 50, 60).tolist()
    in_order = [dataset(lengths, context=8, sequences=5).batch(3, step) for step in range(200)]
    for step in (199, 0, 63, 64, 7):  # a fresh process at each, as after a restart
        again = dataset(lengths, context=8, sequences=5).batch(3, step)
        assert np.array_equal(again, in_order[step])


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_part_of_a_batch_is_that_part_of_the_whole(shuffled):
    data = dataset([7, 3, 90, 41, 12], context=4, sequences=6, shuffled=shuffled)
    for step in range(30):
        whole = data.batch(1, step)
        assert whole.shape == (6, 5)
        parts = [data.batch(1, step, slice(first, first + 2)) for first in (0, 2, 4)]
        assert np.array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_seed_alone_moves_the_order(shuffled):
    data = dataset([20] * 30, context=8, sequences=5, shuffled=shuffled)
    assert np.array_equal(data.batch(1, 4), replace(data).batch(1, 4))
    assert not np.array_equal(data.batch(1, 4), data.batch(2, 4))


def test_the_order_of_stored_runs_is_for_ever_what_it_was():
    data = dataset([1000], context=10, sequences=33, shuffled=False)
    drawn = [
        np.random.Generator(np.random.Philox(key=[7, epoch])).permutation(99) for epoch in (0, 1)
    ]
    read = np.concatenate([data.batch(7, step) for step in range(6)])
    assert (read[:, 0] // 10).tolist() == np.concatenate(drawn).tolist()
    assert (np.diff(read, axis=1) == 1).all()
    assert (read[:12, 0] // 10).tolist() == [75, 74, 72, 55, 80, 66, 84, 85, 4, 10, 93, 46]


def test_the_order_of_documents_stays_what_it_is():
    data = dataset([5, 9, 2, 14, 7, 3], context=4, sequences=9)
    assert data.batch(7, 0).tolist() == [
        *([28, 29, 0, 1, 2], [16, 17, 18, 19, 20], [31, 32, 33, 34, 35]),
        *([9, 10, 11, 12, 13], [13, 37, 38, 39, 16], [2, 3, 4, 30, 31]),
        *([24, 25, 26, 27, 28], [5, 6, 7, 8, 9], [20, 21, 22, 23, 24]),
    ]
