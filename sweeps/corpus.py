"""The corpus: which documents a run trains on, pinned by a hash of what was read.

A document is one UTF-8 file. `stdlib` is the Python sources of the interpreter's own standard
library; its tests, third-party packages and what was generated for this one machine are left out.
`text` is a file, a folder (every file below it, hidden ones left out) or a glob. Files are taken in
the order of their relative POSIX path, so that the fingerprint

    SHA-256 over the SHA-256 of each document, in that order

is the same wherever the corpus lies. The held-out set is chosen by document: a document is held
out when the first 8 bytes of its own hash, read as a fraction of 2^64, fall below the share asked.
Adding documents therefore never moves one from training to validation.
"""

import glob
import hashlib
import os
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path

from sweeps.errors import InputError
from sweeps.sources import CorpusKind, CorpusRef

STDLIB_LEFT_OUT = (
    *("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"),
    *("config-*", "_sysconfigdata*"),  # how this interpreter was built: other on every machine
)
"""Globs on the names of folders and files."""


@dataclass(frozen=True, slots=True)
class Document:
    """One file's text and the hash that names it."""

    text: bytes
    sha256: bytes


Check = Callable[[Sequence[Document]], None]
"""Raises an InputError about documents that will not do."""


def describe(kind: CorpusKind, path: str = "", check: Check | None = None) -> CorpusRef:
    """Read a corpus once and pin it.

    Args:
        kind: How the files are found.
        path: File, folder or glob, for `text`.
        check: Looks at the documents while they are in memory.

    Raises:
        InputError: If nothing is there, nothing has text, or a file is unreadable or not UTF-8.
    """
    documents = _load(kind, path)
    if check is not None:
        check(documents)
    resolved = str(Path(path).expanduser().absolute()) if kind is CorpusKind.TEXT else ""
    return CorpusRef(
        name=path or kind.value,
        kind=kind,
        path=resolved,
        fingerprint=_fingerprint(documents),
        num_bytes=sum(len(document.text) for document in documents),
        num_documents=len(documents),
    )


def read(ref: CorpusRef) -> list[Document]:
    """The documents of a pinned corpus, in order.

    Raises:
        InputError: If what is there now is not what was pinned.
    """
    documents = _load(ref.kind, ref.path)
    found = _fingerprint(documents)
    if found != ref.fingerprint:
        raise InputError(
            f"corpus {ref.name!r} has changed: the plan pinned {ref.fingerprint[:12]}, "
            f"this machine reads {found[:12]} ({len(documents)} documents)"
        )
    return documents


def split(documents: Sequence[Document], held_out: float) -> tuple[list[Document], list[Document]]:
    """Training and validation documents; `held_out` is the expected share of the latter.

    Raises:
        InputError: If either side is empty.
    """
    threshold = held_out * 2.0**64
    sides: tuple[list[Document], list[Document]] = ([], [])
    for document in documents:
        sides[int.from_bytes(document.sha256[:8], "big") < threshold].append(document)
    if not all(sides):
        raise InputError(
            f"held_out = {held_out} leaves {len(sides[0])} training and {len(sides[1])} validation "
            f"documents of {len(documents)}; both need at least one"
        )
    return sides


def _load(kind: CorpusKind, path: str) -> list[Document]:
    root, files = _found(kind, path)
    documents = []
    for file in sorted(files, key=lambda file: file.relative_to(root).as_posix()):
        try:
            text = file.read_bytes()
        except OSError as error:
            raise InputError(f"corpus file {file} cannot be read: {error.strerror}") from error
        try:
            text.decode()
        except UnicodeDecodeError as error:
            if kind is CorpusKind.STDLIB:  # a few sources declare another encoding on purpose
                continue
            raise InputError(f"corpus file {file} is not UTF-8 text: {error}") from error
        if text.strip():
            documents.append(Document(text, hashlib.sha256(text).digest()))
    if not documents:
        raise InputError(f"corpus {path or kind.value!r} is empty: {len(files)} files, no text")
    return documents


def _found(kind: CorpusKind, path: str) -> tuple[Path, list[Path]]:
    """The folder that relative paths count from, and the files."""
    try:
        return _stdlib_files() if kind is CorpusKind.STDLIB else _text_files(path)
    except OSError as error:  # a folder that may not be entered, a name that is too long
        raise InputError(
            f"corpus path {error.filename!r} cannot be read: {error.strerror}"
        ) from error
    except (RuntimeError, ValueError) as error:  # `~nobody`, a NUL byte
        raise InputError(f"corpus path {path!r} cannot be read: {error}") from error


def _stdlib_files() -> tuple[Path, list[Path]]:
    root = Path(sysconfig.get_paths()["stdlib"])

    def wanted(name: str) -> bool:
        return not any(fnmatchcase(name, pattern) for pattern in STDLIB_LEFT_OUT)

    return root, [file for file in _files_below(root, wanted) if file.suffix == ".py"]


def _text_files(path: str) -> tuple[Path, list[Path]]:
    given = Path(path).expanduser().absolute()
    if given.is_file():
        return given.parent, [given]
    if given.is_dir():
        return given, list(_files_below(given, lambda name: not name.startswith(".")))
    matches = [Path(match) for match in glob.glob(str(given), recursive=True)]  # noqa: PTH207
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InputError(f"corpus path {path!r} matches no file")
    literal = takewhile(lambda part: not glob.has_magic(part), given.parts)
    return Path(*literal), files


def _files_below(root: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Files under a folder, without descending into folders that are not wanted."""

    def refuse(error: OSError) -> None:  # a walk would pass over what it cannot enter
        raise error

    for folder, subfolders, names in os.walk(root, onerror=refuse):
        subfolders[:] = filter(wanted, subfolders)
        files = (Path(folder, name) for name in names if wanted(name))
        yield from (file for file in files if file.is_file())


def _fingerprint(documents: Sequence[Document]) -> str:
    digest = hashlib.sha256()
    for document in documents:
        digest.update(document.sha256)
    return digest.hexdigest()
