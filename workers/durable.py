"""Files that are whole or absent: write beside the target, flush to disk, rename over it.

A reader sees the old bytes or the new ones and nothing between, also after a power cut and when two
processes write the same name at once. A process that is killed leaves at most a hidden `.part`.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sweeps.errors import StorageError

PART_SUFFIX = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without an error.

    Raises:
        StorageError: If the disk is full or the folder cannot be written; nothing is left behind.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        _flush_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path`, whole or not at all.

    Raises:
        StorageError: As `replacing`.
    """
    with replacing(path) as file:
        file.write(content)


def sweep(folder: Path) -> None:
    """Remove what killed processes left half-written; no other may be writing there."""
    for part in folder.glob(f".*{PART_SUFFIX}"):
        part.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
