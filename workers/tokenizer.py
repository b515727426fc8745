"""Tokenizers: documents to token ids, with one separator id between them.

    byte   id = byte value (0 to 255), separator 256
    bpe    byte-level byte-pair encoding learnt from the training documents, separator = last id
    file   what a `tokenizer.json` says, without the tokens that it would add to a text on its own
    ids    the documents are ids already

The separator is never written as text, so no document can contain it. A BPE is a pure function of
the training documents and the vocabulary size and is cached under both.

Source: Gage (1994) by way of Sennrich et al. (arXiv 1508.07909); byte-level alphabet of GPT-2.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from tokenizers import Tokenizer as Library, decoders, models, pre_tokenizers, trainers

from sweeps.corpora.document import ID, Document
from sweeps.errors import InputError
from sweeps.sources import TokenizerKind, TokenizerRef
from workers import durable
from workers.token_bytes import bytes_by_id

BYTES = 256

Tokens = np.ndarray[tuple[int], np.dtype[np.uint32]]


class Tokenizer(Protocol):
    """What data needs of a tokenizer."""

    @property
    def separator(self) -> int:
        """The id that ends a document."""
        ...

    def encode(self, contents: Sequence[bytes]) -> list[Tokens]:
        """Ids of documents without their separators."""
        ...

    def byte_lengths(self) -> Tokens | None:
        """Bytes of text that each id stands for, 0 for the separator; None if ids do not say it."""
        ...


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """One id for each byte value."""

    separator: int = BYTES

    def encode(self, contents: Sequence[bytes]) -> list[Tokens]:
        """Ids of documents."""
        return [np.frombuffer(text, np.uint8).astype(np.uint32) for text in contents]

    def byte_lengths(self) -> Tokens:
        """One for each byte value, none for the separator."""
        return np.array([1] * BYTES + [0], np.uint32)


@dataclass(frozen=True, slots=True)
class LibraryTokenizer:
    """What the library encodes with, learnt or read from a file."""

    library: Library
    vocab_size: int
    separator: int

    def encode(self, contents: Sequence[bytes]) -> list[Tokens]:
        """Ids of documents, several at a time on all cores."""
        texts = [text.decode() for text in contents]
        encoded = self.library.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(one.ids, np.uint32) for one in encoded]

    def byte_lengths(self) -> Tokens | None:
        """By the vocabulary's own way to write bytes, where it has one."""
        return bytes_by_id(self.library.to_str(), self.vocab_size, self.separator)


@dataclass(frozen=True, slots=True)
class IdsTokenizer:
    """Documents of token shards; a `tokenizer.json` may tell what their ids stand for."""

    vocab_size: int
    separator: int
    file: str

    def encode(self, contents: Sequence[bytes]) -> list[Tokens]:
        """The ids that the documents hold."""
        return [np.frombuffer(ids, ID).astype(np.uint32) for ids in contents]

    def byte_lengths(self) -> Tokens | None:
        """By the file, if there is one."""
        if not self.file:
            return None
        try:
            return bytes_by_id(_read(self.file), self.vocab_size, self.separator)
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise InputError(
                f"tokenizer file {self.file} does not tell what the {self.vocab_size} ids of the "
                "corpus stand for, as it did when the run was planned"
            ) from error


def open_tokenizer(
    ref: TokenizerRef,
    key: str,
    training: Callable[[], Iterable[Document]],
    cache: Path,
    *,
    separator: int | None = None,
) -> Tokenizer:
    """The tokenizer that a run asks for, trained and cached when it must be learnt.

    Args:
        ref: Kind and vocabulary size.
        key: Names the training documents by content.
        training: Reads them, called only when nothing is cached.
        cache: Folder for learnt tokenizers.
        separator: Of `ids`: the id that stands between documents.

    Raises:
        InputError: If the vocabulary size is impossible for the kind or for the corpus, or a file
            is not the one that was planned with.
        StorageError: If the cache cannot be written.
    """
    match ref.kind:
        case TokenizerKind.BYTE:
            if ref.vocab_size != BYTES + 1:
                raise InputError(
                    f"tokenizer.vocab_size = {ref.vocab_size}: the byte tokenizer has {BYTES + 1}"
                )
            return ByteTokenizer()
        case TokenizerKind.BPE:
            path = cache / f"bpe-{ref.vocab_size}-{key}.json"
            if not path.is_file():
                bpe = _learn(training(), ref.vocab_size)
                durable.write(path, bpe.to_str().encode())
            text = _read(str(path))
            return _library(text, ref.vocab_size, ref.vocab_size - 1, f"learnt tokenizer {path}")
        case TokenizerKind.FILE:
            end = ref.vocab_size - 1 if ref.separator is None else ref.separator
            return _library(_unchanged(ref), ref.vocab_size, end, f"tokenizer file {ref.path}")
        case TokenizerKind.IDS:
            if separator is None or separator >= ref.vocab_size:
                raise InputError(
                    f"corpus.separator = {separator}: must be below the tokenizer's "
                    f"{ref.vocab_size} ids"
                )
            return IdsTokenizer(ref.vocab_size, separator, ref.path)


def _library(text: str, vocab_size: int, separator: int, place: str) -> LibraryTokenizer:
    try:
        library = Library.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{place} is no tokenizer that can be used: {error}") from error
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True  # a document that writes one out means its letters
    return LibraryTokenizer(library, vocab_size, separator)


def _unchanged(ref: TokenizerRef) -> str:
    content = _read(ref.path)
    found = hashlib.sha256(content.encode()).hexdigest()
    if found != ref.fingerprint:
        raise InputError(
            f"tokenizer file {ref.path} has changed: the plan pinned {ref.fingerprint[:12]}, this "
            f"machine reads {found[:12]}"
        )
    return content


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode()
    except OSError as error:
        raise InputError(f"tokenizer file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"tokenizer file {path} is not UTF-8 text") from error


def _learn(documents: Iterable[Document], vocab_size: int) -> Library:
    if vocab_size < BYTES + 2:
        raise InputError(
            f"tokenizer.vocab_size = {vocab_size}: a bpe needs at least {BYTES + 2}, "
            "every byte value, one merge and the separator"
        )
    bpe = Library(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((document.content.decode() for document in documents), trainer)
    if bpe.get_vocab_size() != vocab_size - 1:
        raise InputError(
            f"tokenizer.vocab_size = {vocab_size}: the corpus has only enough repetition for "
            f"{bpe.get_vocab_size() + 1}"
        )
    return bpe
