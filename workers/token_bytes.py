"""Bytes of text that a token stands for, read off a `tokenizer.json`, without decoding anything.

    byte-level       a token's letters are bytes in GPT-2's alphabet: as many bytes as letters
    metaspace        a token is text with U+2581 for a space: its UTF-8 bytes with a space there
    byte fallback    beside either, `<0xNN>` is one byte
    added tokens     their own text; special ones and the separator stand for none

Vocabularies that write text in another way (WordPiece, characters that were normalised away) do not
say what a token stood for. A tokenizer that normalises or adds a leading space is counted by what
its tokens stand for, not by what was written.

Source: GPT-2's encoder.py (byte alphabet); SentencePiece (arXiv 1808.06226); components as Hugging
Face `tokenizers` names them.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

Lengths = np.ndarray[tuple[int], np.dtype[np.uint32]]

SPACE = "\u2581"
FALLBACK = re.compile(r"<0x[0-9A-F]{2}>")


def bytes_by_id(tokenizer: str, vocab_size: int, separator: int) -> Lengths | None:
    """Bytes by id, 0 for the separator and for ids without a token; None if none is told.

    Args:
        tokenizer: Content of a `tokenizer.json`.
        vocab_size: Ids.
        separator: The id that ends a document.
    """
    given = json.loads(tokenizer)
    model = given["model"]
    kinds = set(_kinds([given.get(key) for key in ("normalizer", "pre_tokenizer", "decoder")]))
    falls_back = bool(model.get("byte_fallback"))
    if not ("ByteLevel" in kinds or "Metaspace" in kinds or SPACE in kinds or falls_back):
        return None
    lengths = np.zeros(vocab_size, np.uint32)
    for token, number in _vocabulary(model["vocab"]):
        if "ByteLevel" in kinds:
            lengths[number] = len(token)
        elif falls_back and FALLBACK.fullmatch(token):
            lengths[number] = 1
        else:
            lengths[number] = len(token.replace(SPACE, " ").encode())
    for token in given.get("added_tokens") or []:
        lengths[token["id"]] = 0 if token.get("special") else len(token["content"].encode())
    lengths[separator] = 0
    return lengths


def _vocabulary(vocab: Any) -> Iterator[tuple[str, int]]:
    if isinstance(vocab, list):
        return ((token, number) for number, (token, _) in enumerate(vocab))
    return iter(vocab.items())


def _kinds(part: Any) -> Iterator[str]:
    """Types of all components below one, and the letter for a space where one is replaced."""
    match part:
        case dict():
            if isinstance(part.get("type"), str):
                yield part["type"]
            if part.get("type") == "Replace" and SPACE in json.dumps(part, ensure_ascii=False):
                yield SPACE
            yield from _kinds(list(part.values()))
        case list():
            for item in part:
                yield from _kinds(item)
        case _:
            return
