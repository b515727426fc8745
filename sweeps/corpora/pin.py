"""Pinning a corpus: a hash of all that was read, so that every worker trains on the same text.

    fingerprint = SHA-256 over the SHA-256 of each document, in the order of the corpus

It is the same wherever the corpus lies. One pass reads, hashes and measures both sides of the
held-out split; nothing is kept of it but these numbers.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sweeps.corpora.document import ID, Document
from sweeps.corpora.documents import documents
from sweeps.corpora.split import is_held_out
from sweeps.errors import InputError
from sweeps.sources import CorpusKind, CorpusRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of the held-out split.

    Attributes:
        documents: Documents.
        tokens: Tokens at most, a separator for each document included; exact for bytes and ids.
    """

    documents: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A corpus as it was read.

    Attributes:
        ref: The corpus with its fingerprint and size.
        train: Its training documents.
        held_out: Its validation documents.
        largest_id: Of token shards; None of text.
    """

    ref: CorpusRef
    train: Side
    held_out: Side
    largest_id: int | None


def pin(source: CorpusRef, held_out: float) -> Pinned:
    """Read a corpus once.

    Args:
        source: Where it lies; its fingerprint and size are filled in.
        held_out: Share of the documents for validation.

    Raises:
        InputError: If nothing is there, nothing has text, or something cannot be read.
    """
    digest, num_bytes = hashlib.sha256(), 0
    counts = {False: [0, 0], True: [0, 0]}
    largest_id = None
    for document in documents(source):
        digest.update(document.sha256)
        num_bytes += len(document.content)
        count = counts[is_held_out(document, held_out)]
        count[0] += 1
        count[1] += document.most_tokens(source.kind)
        if source.kind is CorpusKind.SHARDS:
            largest_id = max(largest_id or 0, int(np.frombuffer(document.content, ID).max()))
    train, held = (Side(documents=number, tokens=most) for number, most in counts.values())
    _check_any(source, train.documents + held.documents)
    ref = replace(
        source,
        fingerprint=digest.hexdigest(),
        num_bytes=num_bytes,
        num_documents=train.documents + held.documents,
    )
    return Pinned(ref=ref, train=train, held_out=held, largest_id=largest_id)


def read(ref: CorpusRef) -> Iterator[Document]:
    """The documents of a pinned corpus, in order.

    Raises:
        InputError: After the last document, if they are not what was pinned; use nothing before.
    """
    digest, count = hashlib.sha256(), 0
    for document in documents(ref):
        digest.update(document.sha256)
        count += 1
        yield document
    _check_any(ref, count)
    if digest.hexdigest() != ref.fingerprint:
        raise InputError(
            f"corpus {ref.name!r} has changed: the plan pinned {ref.fingerprint[:12]}, "
            f"this machine reads {digest.hexdigest()[:12]} ({count} documents)"
        )


def _check_any(ref: CorpusRef, count: int) -> None:
    if not count:
        raise InputError(f"corpus {ref.name!r} is empty: no document in it holds anything")
