"""C kernels as libraries: compiled on first use, cached for the user, called by ctypes.

    $XDG_CACHE_HOME/gridlaw/NAME-HASH.so        `quantize`, `product`, `layers`

    HASH    of the sources, the flags, and the macros that the compiler predefines under them, which
            tell its version and the instructions of this processor

The compiler is $CC, or else the first of cc, gcc and clang on the path. Processes that compile at
once each rename a finished file into place, so it does not matter which of them is last.
"""

import logging
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from ctypes import CDLL, POINTER, Structure
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

Functions = Mapping[str, type[Structure]]
"""What a library has: the structure of its one argument by the name of each function."""
QUANTIZER: Functions = {"measure": Job, "quantize": Job}

_COMPILERS = ("cc", "gcc", "clang")
_log = logging.getLogger(__name__)


def build(flags: Sequence[str] = (*FLAGS, NATIVE), source: Path | None = None) -> Path:
    """The library of these flags, from the cache or compiled into it.

    Args:
        flags: Of the compiler.
        source: What is compiled, beside its own headers and those of this folder; None for the
            quantizer.

    Raises:
        OSError: If there is no compiler, it fails, or the cache cannot be written.
        SubprocessError: If the compiler does not end.
    """
    source = source or SOURCE
    command = (*_compiler(), *flags)
    macros = _macros(command)
    headers = {path for folder in (SOURCE, source) for path in folder.parent.glob("*.h")}
    sources = (path.read_bytes() for path in sorted((*headers, source)))
    parts = (*sources, os.fsencode(shlex.join(command)), macros)
    digest = sha256(b"\0".join(sha256(part).digest() for part in parts)).hexdigest()
    library = _cache_folder() / f"{source.stem}-{digest[:32]}.so"
    if not library.exists():
        # Beside its final place, since a rename is atomic only within a file system.
        with TemporaryDirectory(dir=library.parent) as folder:
            finished = Path(folder, library.name)
            files = ("-o", str(finished), "-I", str(SOURCE.parent), str(source), "-lm")
            _compile((*command, *files))
            # A rename may reach the disk before what is renamed.
            with finished.open("rb") as written:
                os.fsync(written.fileno())
            finished.replace(library)
    return library


def built_and_loaded(
    flags: Sequence[str] = (*FLAGS, NATIVE),
    source: Path | None = None,
    functions: Functions = QUANTIZER,
) -> CDLL:
    """The library of these flags, compiled once more if what the cache has cannot be loaded.

    Args:
        flags: As in `build`.
        source: As in `build`.
        functions: As in `load`.

    Raises:
        OSError: As `build` and `load`.
        SubprocessError: As `build`.
    """
    library = build(flags, source)
    try:
        return load(library, functions)
    except OSError:
        library.unlink(missing_ok=True)
        return load(build(flags, source), functions)


def load(library: Path, functions: Functions = QUANTIZER) -> CDLL:
    """A compiled library with its functions typed.

    Args:
        library: The file.
        functions: The job that each function takes the address of, by name.

    Raises:
        OSError: If it is not one.
    """
    loaded = CDLL(str(library))
    for name, job in functions.items():
        getattr(loaded, name).argtypes = (POINTER(job),)
    return loaded


def bf16_library(source: Path, functions: Functions) -> CDLL | None:
    """A library whose source needs AVX512-BF16; None where the processor has no such instructions.

    It is None too, and the log says why, where it cannot be compiled.

    Args:
        source: As in `build`.
        functions: As in `load`.
    """
    try:
        if b"__AVX512BF16__" not in _macros((*_compiler(), *FLAGS, NATIVE)):
            return None
        return built_and_loaded(source=source, functions=functions)
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("no %s, training in plain torch, several times slower: %s", source.name, error)
        return None


def _macros(command: Sequence[str]) -> bytes:
    return _compile((*command, "-dM", "-E", "-x", "c", os.devnull))


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
