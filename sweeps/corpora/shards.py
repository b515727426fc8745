"""Token shards: files of ids as llm.c and nanoGPT write them, cut into documents at the separator.

    llm.c     256 little-endian int32, then the ids:  [magic, version, count, 0, ...]
              magic 20240520, version 1: uint16;  magic 20240801, version 7: uint32
    nanoGPT   ids alone, uint16 or uint32: only the user can say which

The files are one stream in the order of their paths, since a document may go on in the next file.
A separator may stand behind each document (nanoGPT) or before it (llm.c): it is what lies between.

Source: llm.c dev/data/data_common.py and llmc/dataloader.h; nanoGPT data/openwebtext/prepare.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.corpora.document import ID, Document
from sweeps.corpora.places import files_of
from sweeps.errors import InputError

HEADERS = {20240520: (1, "uint16"), 20240801: (7, "uint32")}
"""Version and token type by the magic number."""

HEADER = np.dtype("<i4")
HEADER_BYTES = 256 * HEADER.itemsize
TOKEN_TYPES: dict[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": ID}

CHUNK = 1 << 22
"""Tokens read at once."""

LONGEST = 1 << 26
"""Tokens of a document above which the separator must be wrong."""


def shard_documents(path: str, separator: int, token_type: str | None) -> Iterator[Document]:
    """The documents of all shards of a path, without their separators; empty ones are left out.

    Args:
        path: File, folder or glob.
        separator: The id between documents.
        token_type: `uint16` or `uint32` for files without a header; None where a header says it.

    Raises:
        InputError: If a file is not what its header or its size says, or holds no separator.
    """
    pending = b""
    for file in files_of(path):
        is_cut = False
        for ids in _chunks(file, token_type):
            content = ids.astype(ID).tobytes()
            begin = 0
            for cut in np.flatnonzero(ids == separator).tolist():
                document = pending + content[begin * ID.itemsize : cut * ID.itemsize]
                if document:
                    yield Document.of(document)
                pending, begin, is_cut = b"", cut + 1, True
            pending += content[begin * ID.itemsize :]
            if len(pending) > LONGEST * ID.itemsize:
                break
        if not is_cut or len(pending) > LONGEST * ID.itemsize:
            raise InputError(
                f"corpus.separator = {separator}: shard {file} holds no such token "
                f"{'' if not is_cut else f'in {LONGEST} others '}to end a document"
            )
    if pending:
        yield Document.of(pending)


def _chunks(file: Path, token_type: str | None) -> Iterator[np.ndarray[Any, Any]]:
    try:
        with file.open("rb") as opened:
            size = file.stat().st_size
            kind, first = _layout(file, opened.read(HEADER_BYTES), size, token_type)
            opened.seek(first)
            left = (size - first) // kind.itemsize
            while left:
                ids = np.fromfile(opened, kind, min(left, CHUNK))
                if not ids.size:
                    raise InputError(f"shard {file} became shorter while it was read")
                left -= ids.size
                yield ids
    except OSError as error:
        raise InputError(f"shard {file} cannot be read: {error.strerror}") from error


def _layout(
    file: Path, head: bytes, size: int, token_type: str | None
) -> tuple[np.dtype[Any], int]:
    """Type of the ids, and the byte at which they begin."""
    magic = int.from_bytes(head[:4], "little") if len(head) == HEADER_BYTES else None
    known = HEADERS.get(magic) if magic is not None else None
    if known is not None:
        return _announced(file, head, size, token_type, known)
    if token_type is None:
        magics = " or ".join(map(str, HEADERS))
        raise InputError(
            f"shard {file} has no header: it begins with {int.from_bytes(head[:4], 'little')}, not "
            f"{magics}; of a file without one, say corpus.type: {' or '.join(TOKEN_TYPES)}"
        )
    kind = TOKEN_TYPES[token_type]
    if size % kind.itemsize:
        raise InputError(f"shard {file} has {size} bytes, no whole number of {token_type} tokens")
    return kind, 0


def _announced(
    file: Path, head: bytes, size: int, token_type: str | None, known: tuple[int, str]
) -> tuple[np.dtype[Any], int]:
    """The same of a file that has a header, if what it says holds."""
    magic, version, count = (int(number) for number in np.frombuffer(head, HEADER)[:3])
    if version != known[0]:
        raise InputError(
            f"shard {file} has version {version} under magic {magic}; {known[0]} is what is read"
        )
    if token_type not in (None, known[1]):
        raise InputError(
            f"corpus.type = {token_type}: shard {file} says in its header that it is {known[1]}"
        )
    kind = TOKEN_TYPES[known[1]]
    tokens, rest = divmod(size - HEADER_BYTES, kind.itemsize)
    if rest or tokens != count:
        raise InputError(
            f"shard {file} says in its header that it has {count} tokens, but its {size} bytes "
            f"have room for {tokens}"
        )
    return kind, HEADER_BYTES
