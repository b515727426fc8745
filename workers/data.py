"""Data: a pinned corpus as token arrays, and batches as a pure function of (seed, step).

Documents are tokenised in order, each ended by the separator, and laid end to end. A window is
context + 1 tokens from a multiple of the context, so that inputs and targets are its first and last
`context` tokens and every token but the first is a target exactly once in an epoch. The windows of
epoch e come in the order of a permutation drawn from Philox(seed, e); step s of b sequences reads
the places s*b to s*b + b - 1 of the epochs laid end to end. Nothing here knows of recipes, and a
resumed run needs no state.

Validation reads a fixed set of windows, evenly spread over the held-out documents. The token arrays
are cached as .npy under a name made of all that decides them.
"""

import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweeps.corpus import Document, read, split
from sweeps.errors import InputError
from sweeps.runspec import Evaluation
from sweeps.sources import CorpusRef, TokenizerRef
from sweeps.training import Training
from workers import durable
from workers.tokenizer import Tokenizer, open_tokenizer

TOKENS_VERSION = 1
"""Rises when the same corpus would give other token arrays."""

Ids = np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]
Windows = np.ndarray[tuple[int, int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Training and validation tokens of one run.

    Attributes:
        train: Token ids of the training documents.
        validation: Windows [sequences, context + 1], the same at every evaluation.
        context: Tokens in a sequence.
        sequences: Sequences in a batch.
        bytes_per_token: Of the validation targets.
        unigram_entropy: Of the training tokens, nats per token.
    """

    train: Ids
    validation: Windows
    context: int
    sequences: int
    bytes_per_token: float
    unigram_entropy: float

    @property
    def num_windows(self) -> int:
        """Windows in one epoch."""
        return (len(self.train) - 1) // self.context

    def batch(self, seed: int, step: int) -> Windows:
        """Windows [sequences, context + 1] of one optimizer step, counted from 0."""
        places = np.arange(step * self.sequences, (step + 1) * self.sequences)
        epochs, places = np.divmod(places, self.num_windows)
        chosen = [
            _permutation(seed, int(epoch), self.num_windows)[place]
            for epoch, place in zip(epochs, places, strict=True)
        ]
        return _windows(self.train, np.array(chosen), self.context)


def open_dataset(
    corpus: CorpusRef,
    tokenizer: TokenizerRef,
    training: Training,
    evaluation: Evaluation,
    cache: Path,
) -> Dataset:
    """Read, split and tokenise a corpus, or find the result in the cache.

    Raises:
        InputError: If the corpus changed, or either side is too small for what is asked of it.
        StorageError: If the cache cannot be written.
    """
    tokens = _Tokens(corpus, tokenizer, evaluation.held_out, cache)
    train, held_out = tokens.load("train"), tokens.load("validation")
    if len(train) <= training.batch_tokens:
        raise InputError(
            f"training.batch_tokens = {training.batch_tokens}: corpus {corpus.name!r} has only "
            f"{len(train)} training tokens, fewer than one batch and its last target"
        )
    validation = _spread(held_out, evaluation, training.context)
    counts = np.bincount(train, minlength=tokenizer.vocab_size)
    shares = counts[counts > 0] / len(train)
    lengths = tokens.tokenizer.byte_lengths()
    return Dataset(
        train=train,
        validation=validation,
        context=training.context,
        sequences=training.batch_tokens // training.context,
        bytes_per_token=float(lengths[validation[:, 1:]].mean()),
        unigram_entropy=float(-(shares * np.log(shares)).sum()),
    )


class _Tokens:
    """The token arrays of both sides of a corpus, tokenised at most once."""

    def __init__(
        self, corpus: CorpusRef, tokenizer: TokenizerRef, held_out: float, cache: Path
    ) -> None:
        self._corpus = corpus
        self._held_out = held_out
        self._cache = cache
        self._separator_type = np.min_scalar_type(tokenizer.vocab_size)
        parts = f"{TOKENS_VERSION} {corpus.fingerprint} {held_out!r}"
        key = hashlib.sha256(parts.encode()).hexdigest()[:16]
        self._stem = f"{tokenizer.kind}-{tokenizer.vocab_size}-{key}"
        self.tokenizer: Tokenizer = open_tokenizer(
            tokenizer, key, lambda: self._documents("train"), cache
        )

    def load(self, side: str) -> Ids:
        path = self._cache / f"tokens-{self._stem}-{side}.npy"
        if not path.is_file():
            array = self._tokenise(self._documents(side))
            with durable.replacing(path) as file:
                np.save(file, array)
        tokens: Ids = np.load(path, mmap_mode="r")
        return tokens

    @functools.cached_property
    def _split(self) -> dict[str, list[Document]]:
        train, validation = split(read(self._corpus), self._held_out)
        return {"train": train, "validation": validation}

    def _documents(self, side: str) -> list[Document]:
        return self._split[side]

    def _tokenise(self, documents: Iterable[Document]) -> Ids:
        separator = np.array([self.tokenizer.separator])
        pieces = []
        for document in documents:
            pieces += [self.tokenizer.encode(document.text), separator]
        return np.concatenate(pieces).astype(self._separator_type)


@functools.lru_cache(maxsize=4)
def _permutation(
    seed: int, epoch: int, num_windows: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    key = np.array([seed, epoch], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(num_windows)


def _windows(
    tokens: Ids, chosen: np.ndarray[tuple[int], np.dtype[np.int64]], context: int
) -> Windows:
    places = chosen[:, None] * context + np.arange(context + 1)
    windows: Windows = tokens[places].astype(np.int64)
    return windows


def _spread(tokens: Ids, evaluation: Evaluation, context: int) -> Windows:
    asked = evaluation.tokens // context
    there = (len(tokens) - 1) // context
    if asked < 2:
        raise InputError(
            f"evaluation.tokens = {evaluation.tokens}: needs at least two sequences of "
            f"{context} tokens"
        )
    if asked > there:
        raise InputError(
            f"evaluation.tokens = {evaluation.tokens}: the held-out documents "
            f"(held_out = {evaluation.held_out}) have only {there * context} tokens in whole "
            "sequences"
        )
    return _windows(tokens, np.arange(asked) * there // asked, context)
