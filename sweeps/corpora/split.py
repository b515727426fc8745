"""The held-out split, by document: a fraction of each document's own hash decides its side.

A document is held out when the first 8 bytes of its SHA-256, read as a fraction of 2^64, fall below
the share asked. Adding documents therefore never moves one from training to validation, and equal
documents are on one side.
"""

from sweeps.corpora.document import Document
from sweeps.errors import InputError


def is_held_out(document: Document, share: float) -> bool:
    """Whether a document is for validation, when this share of all is expected to be."""
    return int.from_bytes(document.sha256[:8], "big") < share * 2.0**64


def check_sides(train: int, held_out: int, share: float) -> None:
    """Both sides need a document.

    Args:
        train: Training documents.
        held_out: Validation documents.
        share: The share that was asked for.

    Raises:
        InputError: If one side has none.
    """
    if not (train and held_out):
        raise InputError(
            f"held_out = {share} leaves {train} training and {held_out} validation documents of "
            f"{train + held_out}; both need at least one"
        )
