"""A pinned corpus as token files: both sides of the split, written once and memory-mapped.

    tokens-…-train.ids, -validation.ids    ids of all documents end to end, separators included
    tokens-…-train.ends                    index of the token after each training document, int64
    tokens-….json                          what these hold; written last, so that it says they do

The name is made of all that decides the content. Documents are read, encoded and appended a few at
a time, and a run reads the pages that it trains on. One process writes while others wait; where a
disk has no locks they write the same bytes, each beside the name and renamed over it.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sweeps.corpora.document import Document
from sweeps.corpora.pin import read
from sweeps.corpora.split import check_sides, is_held_out
from sweeps.errors import InputError, StorageError
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from workers import durable
from workers.data.order import Documents, Ids
from workers.tokenizer import Tokenizer, open_tokenizer

TOKENS_VERSION = 1
"""Rises when the same corpus would give other tokens."""

BATCH_DOCUMENTS, BATCH_BYTES = 1024, 1 << 24
"""Documents are encoded together up to this number and up to this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the files hold.

    Attributes:
        train_tokens: Ids of the training documents, separators included.
        train_documents: Training documents.
        validation_tokens: Ids of the held-out documents.
        validation_bytes: Text of the held-out documents; of token shards 0.
        unigram_entropy: Of the training tokens, nats per token.
    """

    train_tokens: int
    train_documents: int
    validation_tokens: int
    validation_bytes: int
    unigram_entropy: float


class TokenFiles:
    """The tokens of a corpus under a tokenizer and a split, made when they are not there."""

    def __init__(
        self, corpus: CorpusRef, tokenizer: TokenizerRef, held_out: float, cache: Path
    ) -> None:
        """Find or write the files.

        Raises:
            InputError: If the corpus changed or a document or id will not do.
            StorageError: If the cache cannot be written.
        """
        self._corpus = corpus
        self._ref = tokenizer
        self._held_out = held_out
        self._cache = cache
        self._type = np.min_scalar_type(tokenizer.vocab_size).newbyteorder("<")
        parts = f"{TOKENS_VERSION} {corpus.fingerprint} {held_out!r}"
        self._key = hashlib.sha256(parts.encode()).hexdigest()[:16]
        words = (
            tokenizer.kind,
            tokenizer.vocab_size,
            tokenizer.fingerprint[:16],
            corpus.separator if tokenizer.separator is None else tokenizer.separator,
        )
        said = "-".join(str(word) for word in words if word not in ("", None))
        self._stem = f"tokens-{said}-{self._key}"
        self.about = self._whole() or self._written()

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, learnt from the training documents if it must be."""
        return open_tokenizer(
            self._ref,
            self._key,
            self._training_documents,
            self._cache,
            separator=self._corpus.separator,
        )

    def train(self) -> Ids:
        """Ids of the training documents."""
        ids: Ids = self._mapped("train.ids", self._type)
        return ids

    def validation(self) -> Ids:
        """Ids of the held-out documents."""
        ids: Ids = self._mapped("validation.ids", self._type)
        return ids

    def documents(self) -> Documents:
        """Where the training documents end."""
        return Documents(self._mapped("train.ends", np.dtype("<i8")))

    def _path(self, name: str) -> Path:
        return self._cache / f"{self._stem}-{name}"

    def _mapped(self, name: str, kind: np.dtype[Any]) -> Any:
        return np.memmap(self._path(name), kind, mode="r")

    def _whole(self) -> About | None:
        """What is there, if all of it is."""
        try:
            about = About(**json.loads((self._cache / f"{self._stem}.json").read_bytes()))
            sizes = {
                "train.ids": about.train_tokens * self._type.itemsize,
                "validation.ids": about.validation_tokens * self._type.itemsize,
                "train.ends": about.train_documents * 8,
            }
            whole = all(self._path(name).stat().st_size == size for name, size in sizes.items())
        except (OSError, ValueError, TypeError):
            return None
        return about if whole else None

    def _written(self) -> About:
        with _alone(self._cache / f".{self._stem}.lock") as is_alone:
            if (about := self._whole()) is not None:  # another process was first
                return about
            if is_alone:  # what is half-written is of a process that was killed
                for part in self._cache.glob(f".{self._stem}*{durable.PART_SUFFIX}"):
                    part.unlink(missing_ok=True)
            about = self._write(self.tokenizer())
            text = json.dumps(asdict(about), indent=1)
            durable.write(self._cache / f"{self._stem}.json", text.encode())
            return about

    def _write(self, tokenizer: Tokenizer) -> About:
        vocab_size = self._ref.vocab_size
        with ExitStack() as stack:

            def opened(name: str) -> BinaryIO:
                return stack.enter_context(durable.replacing(self._path(name)))

            ends = opened("train.ends")
            train = _Side(opened("train.ids"), self._type, vocab_size, tokenizer.separator)
            held = _Side(opened("validation.ids"), self._type, vocab_size, tokenizer.separator)
            for batch in _batches(read(self._corpus)):
                pieces = tokenizer.encode([document.content for document in batch])
                for document, ids in zip(batch, pieces, strict=True):
                    side = held if is_held_out(document, self._held_out) else train
                    side.append(ids, len(document.content))
                for side in (train, held):
                    side.flush(self._corpus)
                ends.write(train.taken_ends())
            check_sides(train.documents, held.documents, self._held_out)
        shares = train.counts[train.counts > 0] / train.tokens
        return About(
            train_tokens=train.tokens,
            train_documents=train.documents,
            validation_tokens=held.tokens,
            validation_bytes=0 if self._corpus.kind is CorpusKind.SHARDS else held.bytes,
            unigram_entropy=float(-(shares * np.log(shares)).sum()),
        )

    def _training_documents(self) -> Iterator[Document]:
        for document in read(self._corpus):
            if not is_held_out(document, self._held_out):
                yield document


class _Side:
    """One side while it is written."""

    def __init__(
        self, file: BinaryIO, kind: np.dtype[Any], vocab_size: int, separator: int
    ) -> None:
        self.tokens = self.documents = self.bytes = 0
        self.counts = np.zeros(vocab_size, np.int64)
        self._file = file
        self._type = kind
        self._separator = np.array([separator], np.uint32)
        self._pieces: list[np.ndarray[Any, Any]] = []
        self._ends: list[int] = []

    def append(self, ids: np.ndarray[Any, Any], num_bytes: int) -> None:
        self._pieces += [ids, self._separator]
        self.tokens += len(ids) + 1
        self.documents += 1
        self.bytes += num_bytes
        self._ends.append(self.tokens)

    def flush(self, corpus: CorpusRef) -> None:
        """Write what was appended.

        Raises:
            InputError: If an id is outside the vocabulary.
        """
        if not self._pieces:
            return
        ids = np.concatenate(self._pieces)
        vocab_size = len(self.counts)
        if (largest := int(ids.max())) >= vocab_size:
            raise InputError(
                f"tokenizer.vocab_size = {vocab_size}: corpus {corpus.name!r} holds the id "
                f"{largest}"
            )
        self.counts += np.bincount(ids, minlength=vocab_size)
        self._file.write(ids.astype(self._type).tobytes())
        self._pieces.clear()

    def taken_ends(self) -> bytes:
        """Where the documents end that were appended since this was last asked."""
        ends = np.array(self._ends, "<i8").tobytes()
        self._ends.clear()
        return ends


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.content)
        if len(batch) == BATCH_DOCUMENTS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Hold a lock that ends with the process; tells whether the disk has locks."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    with file:
        is_locked = False
        with suppress(OSError):  # a network disk without locks
            fcntl.flock(file, fcntl.LOCK_EX)
            is_locked = True
        yield is_locked
