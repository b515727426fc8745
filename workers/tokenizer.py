"""Tokenizers: text bytes to token ids and back, losslessly, with one separator id for documents.

    byte   id = byte value (0 to 255), separator 256
    bpe    byte-level byte-pair encoding learnt from the training documents, separator = last id

The separator is never written as text, so no document can contain it. A BPE is a pure function of
the training documents and the vocabulary size and is cached under both.

Source: Gage (1994) by way of Sennrich et al. (arXiv 1508.07909); byte-level alphabet of GPT-2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from tokenizers import Tokenizer as Bpe, decoders, models, pre_tokenizers, trainers

from sweeps.corpus import Document
from sweeps.errors import InputError
from sweeps.sources import TokenizerKind, TokenizerRef
from workers import durable

BYTES = 256

Tokens = np.ndarray[tuple[int], np.dtype[np.uint32]]


class Tokenizer(Protocol):
    """What data needs of a tokenizer."""

    @property
    def separator(self) -> int:
        """The id that ends a document."""
        ...

    def encode(self, text: bytes) -> Tokens:
        """Ids of one document without its separator."""
        ...

    def decode(self, tokens: Sequence[int]) -> bytes:
        """The text of ids, separators left out."""
        ...

    def byte_lengths(self) -> Tokens:
        """Bytes of text that each id stands for, by id; 0 for the separator."""
        ...


@dataclass(frozen=True, slots=True)
class ByteTokenizer:
    """One id for each byte value."""

    separator: int = BYTES

    def encode(self, text: bytes) -> Tokens:
        """Ids of one document."""
        return np.frombuffer(text, np.uint8).astype(np.uint32)

    def decode(self, tokens: Sequence[int]) -> bytes:
        """The text of ids."""
        return bytes(token for token in tokens if token < BYTES)

    def byte_lengths(self) -> Tokens:
        """One for each byte value, none for the separator."""
        return np.array([1] * BYTES + [0], np.uint32)


@dataclass(frozen=True, slots=True)
class BpeTokenizer:
    """Byte-pair encoding; the library knows all ids but the last."""

    bpe: Bpe
    separator: int

    def encode(self, text: bytes) -> Tokens:
        """Ids of one document."""
        return np.array(self.bpe.encode(text.decode()).ids, np.uint32)

    def decode(self, tokens: Sequence[int]) -> bytes:
        """The text of ids."""
        text: str = self.bpe.decode([token for token in tokens if token != self.separator])
        return text.encode()

    def byte_lengths(self) -> Tokens:
        """In the byte-level alphabet each character of a token's name is one byte."""
        names = [self.bpe.id_to_token(token) for token in range(self.separator)]
        return np.array([*(len(name or "") for name in names), 0], np.uint32)


def open_tokenizer(
    ref: TokenizerRef, key: str, training: Callable[[], Sequence[Document]], cache: Path
) -> Tokenizer:
    """The tokenizer that a run asks for, trained and cached when it must be learnt.

    Args:
        ref: Kind and vocabulary size.
        key: Names the training documents by content.
        training: Reads them, called only when nothing is cached.
        cache: Folder for learnt tokenizers.

    Raises:
        InputError: If the vocabulary size is impossible for the kind or for the corpus.
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
            return BpeTokenizer(Bpe.from_str(path.read_text()), ref.vocab_size - 1)


def _learn(documents: Sequence[Document], vocab_size: int) -> Bpe:
    if vocab_size < BYTES + 2:
        raise InputError(
            f"tokenizer.vocab_size = {vocab_size}: a bpe needs at least {BYTES + 2}, "
            "every byte value, one merge and the separator"
        )
    bpe = Bpe(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((document.text.decode() for document in documents), trainer)
    if bpe.get_vocab_size() != vocab_size - 1:
        raise InputError(
            f"tokenizer.vocab_size = {vocab_size}: the corpus has only enough repetition for "
            f"{bpe.get_vocab_size() + 1}"
        )
    return bpe
