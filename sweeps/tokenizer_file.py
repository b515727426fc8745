"""A `tokenizer.json`: its ids, read without the library that encodes with it.

    vocabulary size = largest id of the model's vocabulary and of the added tokens + 1

A file is read once as long as it stays the same. The format is that of Hugging Face `tokenizers`:
`model.vocab` maps token to id, or of a Unigram lists [token, score] by id; `added_tokens` says the
ids of what stands beside.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sweeps.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFile:
    """What a `tokenizer.json` says of its ids.

    Attributes:
        path: Absolute.
        fingerprint: SHA-256 of the file.
        vocab: Ids of the model, by token.
        added: Ids of added tokens, by their text.
        special: Which of the added ones stand for no text.
    """

    path: str
    fingerprint: str
    vocab: Mapping[str, int]
    added: Mapping[str, int]
    special: frozenset[str]

    @property
    def vocab_size(self) -> int:
        """Ids, with what lies between them."""
        return 1 + max((*self.vocab.values(), *self.added.values()))


def read_tokenizer(path: str) -> TokenizerFile:
    """The ids of a `tokenizer.json`.

    Raises:
        InputError: If it cannot be read or is no such file.
    """
    try:
        place = Path(path).expanduser().absolute()
        about = place.stat()
        return _read(place, about.st_mtime_ns, about.st_size)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    except (RuntimeError, ValueError) as error:  # `~nobody`, a NUL byte
        raise InputError(f"cannot be read: {error}") from error


@lru_cache(maxsize=4)
def _read(place: Path, mtime_ns: int, size: int) -> TokenizerFile:  # noqa: ARG001, they name a state
    content = place.read_bytes()
    try:
        given = json.loads(content)
        model, added = given["model"], given.get("added_tokens") or []
        tokens = {token["content"]: _id(token["id"]) for token in added}
        return TokenizerFile(
            path=str(place),
            fingerprint=hashlib.sha256(content).hexdigest(),
            vocab=_vocabulary(model["vocab"]),
            added=tokens,
            special=frozenset(token["content"] for token in added if token.get("special")),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError("is no tokenizer.json: it has no vocabulary of ids by token") from error


def _vocabulary(vocab: Any) -> dict[str, int]:
    if not vocab:
        raise ValueError("empty")
    if isinstance(vocab, list):
        return {str(token): number for number, (token, _) in enumerate(vocab)}
    return {token: _id(number) for token, number in vocab.items()}


def _id(given: Any) -> int:
    if not isinstance(given, int) or given < 0:
        raise TypeError(given)
    return given
