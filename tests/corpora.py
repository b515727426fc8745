"""Corpora for tests, pinned where they lie."""

from pathlib import Path
from typing import Any

from sweeps.corpora.pin import pin
from sweeps.sources import CorpusKind, CorpusRef


def source(kind: CorpusKind, path: Path | str = "", **fields: Any) -> CorpusRef:
    """A corpus before it is read."""
    return CorpusRef(
        name=str(path) or kind.value,
        kind=kind,
        path=str(path),
        fingerprint="",
        num_bytes=0,
        num_documents=0,
        **fields,
    )


def pinned(kind: CorpusKind, path: Path | str = "", **fields: Any) -> CorpusRef:
    """A corpus as it is now."""
    return pin(source(kind, path, **fields), held_out=0.5).ref


def pinned_text(path: Path | str) -> CorpusRef:
    """Text files as they are now."""
    return pinned(CorpusKind.TEXT, path)
