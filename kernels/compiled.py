"""The C kernel as a library: compiled on first use, cached for the user, called by ctypes.

    $XDG_CACHE_HOME/gridlaw/quantize-HASH.so

    HASH    of the sources, the command, and the macros that the compiler predefines under it, which
            tell its version and the instructions of this processor

The compiler is $CC, or else the first of cc, gcc and clang on the path. Processes that compile at
once each rename a finished file into place, so it does not matter which of them is last.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from ctypes import CDLL, POINTER
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from kernels.job import Job

SOURCE = Path(__file__).with_name("quantize.c")
# Nothing here lets the compiler fuse, reorder or flush; no bit depends on the instruction set. The
# source is written in vectors, so that -O3 would add nothing but seconds.
FLAGS = (
    "-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-fPIC", "-shared",
)  # fmt: skip
NATIVE = "-march=native"

_COMPILERS = ("cc", "gcc", "clang")


def build(flags: Sequence[str] = (*FLAGS, NATIVE)) -> Path:
    """The library of these flags, from the cache or compiled into it.

    Raises:
        OSError: If there is no compiler, it fails, or the cache cannot be written.
        SubprocessError: If the compiler does not end.
    """
    command = (*_compiler(), *flags)
    macros = _compile((*command, "-dM", "-E", "-x", "c", os.devnull))
    sources = (path.read_bytes() for path in sorted((*SOURCE.parent.glob("*.h"), SOURCE)))
    parts = (*sources, os.fsencode(shlex.join(command)), macros)
    digest = sha256(b"\0".join(sha256(part).digest() for part in parts)).hexdigest()
    library = _cache_folder() / f"quantize-{digest[:32]}.so"
    if not library.exists():
        # Beside its final place, since a rename is atomic only within a file system.
        with TemporaryDirectory(dir=library.parent) as folder:
            finished = Path(folder, library.name)
            _compile((*command, "-o", str(finished), str(SOURCE)))
            # A rename may reach the disk before what is renamed.
            with finished.open("rb") as written:
                os.fsync(written.fileno())
            finished.replace(library)
    return library


def built_and_loaded(flags: Sequence[str] = (*FLAGS, NATIVE)) -> CDLL:
    """The library of these flags, compiled once more if what the cache has cannot be loaded.

    Raises:
        OSError: As `build` and `load`.
        SubprocessError: As `build`.
    """
    library = build(flags)
    try:
        return load(library)
    except OSError:
        library.unlink(missing_ok=True)
        return load(build(flags))


def load(library: Path) -> CDLL:
    """A compiled library with its two functions typed.

    Raises:
        OSError: If it is not one.
    """
    functions = CDLL(str(library))
    for function in (functions.measure, functions.quantize):
        function.argtypes = (POINTER(Job),)
    return functions


def _compiler() -> tuple[str, ...]:
    try:
        chosen = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise OSError(f"CC is not a command: {error}") from error
    if chosen:
        return tuple(chosen)
    for name in _COMPILERS:
        if path := shutil.which(name):
            return (path,)
    raise FileNotFoundError(f"none of {', '.join(_COMPILERS)} is on the path, and CC is not set")


def _compile(command: Sequence[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise OSError(f"{shlex.join(command)} failed: {reason[0]}")
    return done.stdout


def _cache_folder() -> Path:
    try:
        chosen = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise OSError(f"no folder for a cache: {error}") from error
    folder = chosen / "gridlaw"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
