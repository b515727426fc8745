"""A document: what is hashed, split and tokenised as one, whatever it was read from.

    content   UTF-8 text, or of token shards its ids as little-endian 32-bit integers
    sha256    SHA-256 of the content

Ids are widened to 32 bits, so that the same tokens are the same document in files of 16 and 32.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from sweeps.sources import CorpusKind

ID = np.dtype("<u4")
"""How a document of token shards holds its ids."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document's content and the hash that names it."""

    content: bytes
    sha256: bytes

    @classmethod
    def of(cls, content: bytes) -> "Document":
        """The document of this content."""
        return cls(content, hashlib.sha256(content).digest())

    def most_tokens(self, kind: CorpusKind) -> int:
        """Tokens that it becomes at most, its separator included; exact for bytes and for ids."""
        size = ID.itemsize if kind is CorpusKind.SHARDS else 1
        return len(self.content) // size + 1


def is_blank(text: bytes) -> bool:
    """Whether a text has nothing to learn from; such a one is no document."""
    return not text.strip()
