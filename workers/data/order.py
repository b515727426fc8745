"""The order of training: which tokens stand in which window, as a pure function of (seed, place).

A window is context + 1 tokens from a multiple of the context, so that inputs and targets are its
first and last `context` tokens. An epoch of T tokens has W = floor((T - 1) / context) windows, of
which every token but the first is a target exactly once. Place p is in epoch p div W:

    window of place p  =  permutation of W drawn from Philox(seed, epoch), at p mod W

The tokens of an epoch are those of the corpus, or of its documents in an order of their own: a
permutation drawn from the upper half of the same Philox stream, packed end to end. It is kept as
two integers a document, and a window looks up those documents alone that it touches. Nothing
depends on what was read before, so that a resumed run needs no state.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Ids = np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]
Places = np.ndarray[tuple[int], np.dtype[np.int64]]
Windows = np.ndarray[tuple[int, int], np.dtype[np.int64]]

UPPER_HALF = (0, 0, 0, 1 << 63)
"""Counter of Philox from which documents are drawn; windows are drawn from 0 on."""


@dataclass(frozen=True, eq=False, slots=True)
class Documents:
    """Where the documents of a token array end; equal to itself alone, so that it can be a key.

    Attributes:
        ends: Index of the token after each document, ascending, int64.
    """

    ends: Places


@dataclass(frozen=True, slots=True)
class _Packing:
    """Documents in the order of an epoch.

    Attributes:
        ends: Where each ends in the epoch.
        shift: Index in the token array less the index in the epoch, of each.
    """

    ends: Places
    shift: Places


def read_windows(
    tokens: Ids, documents: Documents | None, places: Places, *, seed: int, context: int
) -> Windows:
    """Windows [places, context + 1].

    Args:
        tokens: The corpus.
        documents: Its documents, to be shuffled; None where the tokens keep their order.
        places: Which windows, counted from the start of training, ascending.
        seed: Of the data stream.
        context: Tokens in a sequence.
    """
    per_epoch = (len(tokens) - 1) // context
    epochs, within = np.divmod(places, per_epoch)
    found = []
    for epoch in np.unique(epochs).tolist():
        chosen = _permutation(seed, epoch, per_epoch)[within[epochs == epoch]]
        spots = chosen[:, None] * context + np.arange(context + 1)
        if documents is not None:
            spots += _shifts(_packing(documents, seed, epoch), chosen * context, context + 1)
        found.append(tokens[spots].astype(np.int64))
    windows: Windows = np.concatenate(found) if len(found) > 1 else found[0]
    return windows


@lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, num_windows: int) -> Places:
    key = np.array([seed, epoch], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(num_windows)


@lru_cache(maxsize=2)
def _packing(documents: Documents, seed: int, epoch: int) -> _Packing:
    key = np.array([seed, epoch], np.uint64)
    philox = np.random.Philox(key=key, counter=np.array(UPPER_HALF, np.uint64))
    order = np.random.Generator(philox).permutation(len(documents.ends))
    starts = np.concatenate(([0], documents.ends[:-1]))
    ends = np.cumsum((documents.ends - starts)[order])
    shift = starts[order]
    shift[1:] -= ends[:-1]
    return _Packing(ends, shift)


def _shifts(packing: _Packing, starts: Places, length: int) -> Windows:
    """What turns places of an epoch into places of the array, [windows, length].

    Each window is a few stretches, one for each document that it touches.
    """
    ends = starts + length
    first = np.searchsorted(packing.ends, starts, side="right")
    counts = np.searchsorted(packing.ends, ends, side="left") - first + 1
    before = np.cumsum(counts) - counts
    document = np.arange(counts.sum()) + np.repeat(first - before, counts)
    stretch_ends = np.minimum(packing.ends[document], np.repeat(ends, counts))
    stretch_starts = np.repeat(starts, counts)
    inner = np.ones(len(document), bool)
    inner[before] = False
    stretch_starts[inner] = packing.ends[document[inner] - 1]
    shifts = np.repeat(packing.shift[document], stretch_ends - stretch_starts)
    return shifts.reshape(len(starts), length)
