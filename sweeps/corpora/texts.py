"""Text files: each is one document.

`stdlib` is the Python sources of the interpreter's own standard library; its tests, third-party
packages and what was generated for this one machine are left out.
"""

import sysconfig
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from sweeps.corpora.document import Document, is_blank
from sweeps.corpora.places import files_below, files_of
from sweeps.errors import InputError

STDLIB_LEFT_OUT = (
    *("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"),
    *("config-*", "_sysconfigdata*"),  # how this interpreter was built: other on every machine
)
"""Globs on the names of folders and files."""


def text_documents(path: str) -> Iterator[Document]:
    """The files of a path, blank ones left out.

    Raises:
        InputError: If a file cannot be read or is not UTF-8.
    """
    for file in files_of(path):
        text = _read(file)
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"corpus file {file} is not UTF-8 text: {error}") from error
        if not is_blank(text):
            yield Document.of(text)


def stdlib_documents() -> Iterator[Document]:
    """The standard library's sources."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for file in files_below(root, _is_library):
        text = _read(file) if file.suffix == ".py" else b""
        if not is_blank(text) and _is_utf8(text):
            yield Document.of(text)


def _is_library(name: str) -> bool:
    return not any(fnmatchcase(name, pattern) for pattern in STDLIB_LEFT_OUT)


def _is_utf8(text: bytes) -> bool:
    """A few sources declare another encoding on purpose."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"corpus file {file} cannot be read: {error.strerror}") from error
