"""Which files a path stands for: one file, a folder (all below it, hidden ones left out) or a glob.

Files come in the order of their paths relative to the folder, in POSIX spelling, so that a corpus
is read in one order wherever it lies.
"""

import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from sweeps.errors import InputError


def files_of(path: str) -> list[Path]:
    """The files of a path in order.

    Raises:
        InputError: If there is none, or a folder cannot be entered.
    """
    with _refused(path):
        root, files = _found(path)
        return in_order(root, files)


def files_below(root: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """All files below a folder in order.

    Args:
        root: The folder.
        wanted: Whether a file or folder of this name counts; others are not descended into.

    Raises:
        InputError: If a folder cannot be entered.
    """
    with _refused(str(root)):
        return in_order(root, list(_walk(root, wanted)))


def in_order(root: Path, files: list[Path]) -> list[Path]:
    """Files by their POSIX paths relative to a folder."""
    return sorted(files, key=lambda file: file.relative_to(root).as_posix())


@contextmanager
def _refused(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # a folder that may not be entered, a name that is too long
        raise InputError(
            f"corpus path {error.filename!r} cannot be read: {error.strerror}"
        ) from error
    except (RuntimeError, ValueError) as error:  # `~nobody`, a NUL byte
        raise InputError(f"corpus path {path!r} cannot be read: {error}") from error


def _found(path: str) -> tuple[Path, list[Path]]:
    """The folder that relative paths count from, and the files."""
    given = Path(path).expanduser().absolute()
    if given.is_file():
        return given.parent, [given]
    if given.is_dir():
        return given, list(_walk(given, lambda name: not name.startswith(".")))
    matches = [Path(match) for match in glob.glob(str(given), recursive=True)]  # noqa: PTH207
    files = [match for match in matches if match.is_file()]
    if not files:
        raise InputError(f"corpus path {path!r} matches no file")
    literal = takewhile(lambda part: not glob.has_magic(part), given.parts)
    return Path(*literal), files


def _walk(root: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    def refuse(error: OSError) -> None:  # a walk would pass over what it cannot enter
        raise error

    for folder, subfolders, names in os.walk(root, onerror=refuse):
        subfolders[:] = filter(wanted, subfolders)
        files = (Path(folder, name) for name in names if wanted(name))
        yield from (file for file in files if file.is_file())
