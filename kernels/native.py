"""The C kernel of fake quantization: compiled on first use, cached for the user, called by ctypes.

    $XDG_CACHE_HOME/gridlaw/quantize-HASH.so

    HASH    of the source, the command, and the macros that the compiler predefines under it, which
            tell its version and the instructions of this processor

The compiler is $CC, or else the first of cc, gcc and clang on the path. Processes that compile at
once each rename a finished file into place, so it does not matter which of them is last. Where
there is no compiler, or it fails, one log line says so and the plain-torch reference serves.

quantize.c gives the bits of `kernels.reference` whatever the instruction set. It runs without the
GIL, in as many threads as torch has here.
"""

import logging
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import (
    CDLL,
    POINTER,
    Array,
    Structure,
    byref,
    c_float,
    c_int32,
    c_int64,
    c_uint64,
    c_void_p,
)  # fmt: skip
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from math import inf, log2, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import assert_never

import torch
from torch import Tensor

from kernels.formats import Grid
from kernels.philox import RUN
from kernels.recipes import Operand, Rounding
from kernels.rounding import Floating, Table, Uniform, rule_of, table_of

SOURCE = Path(__file__).with_name("quantize.c")
# Nothing here lets the compiler fuse, reorder or flush; no bit depends on the instruction set.
FLAGS = (
    "-std=gnu11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-fPIC", "-shared",
)  # fmt: skip
NATIVE = "-march=native"

_COMPILERS = ("cc", "gcc", "clang")
_LEAST_SHARE = 1 << 16  # elements for which another thread pays
_TO_BF16, _TO_INTEGERS, _TO_FLOATS, _TO_TABLE = range(4)
_FP32_BIAS = 127
_log = logging.getLogger(__name__)


class _Job(Structure):
    """The struct of this name in quantize.c."""

    _fields_ = (
        ("x", c_void_p),
        ("y", c_void_p),
        ("groups", c_int64),
        ("lanes", c_int64),
        ("group", c_int64),
        ("along", c_int64),
        ("across", c_int64),
        ("lane_runs", c_int64),
        ("key", c_uint64),
        ("signs", POINTER(c_float)),
        ("keys", POINTER(c_float)),
        ("values", POINTER(c_float)),
        ("bf16", c_int32),
        ("block", c_int32),
        ("rht", c_int32),
        ("rule", c_int32),
        ("stochastic", c_int32),
        ("least_exponent", c_int32),
        ("mantissa_bits", c_int32),
        ("half", c_int32),
        ("norm", c_float),
        ("maximum", c_float),
    )


@dataclass(frozen=True, slots=True)
class Kernel:
    """The compiled kernel."""

    library: CDLL

    def fake_quantize(
        self,
        x: Tensor,
        operand: Operand,
        key: int,
        *,
        signs: tuple[float, ...] | None = None,
        axis: int = 1,
    ) -> Tensor:
        """What `kernels.reference.fake_quantize` returns, for a matrix on the CPU.

        Raises:
            ValueError: If the axis is not a multiple of the block.
        """
        x = x.detach()
        if operand.grid is None and signs is None:
            return x.to(torch.bfloat16).to(torch.float32)
        block = max(RUN, len(signs or ())) if operand.grid is None else operand.block
        if x.shape[axis] % block:
            raise ValueError(f"axis {axis} has {x.shape[axis]} elements, not a multiple of {block}")
        x = (x if x.dtype is torch.bfloat16 else x.to(torch.float32)).contiguous()
        y = torch.empty(x.shape, dtype=torch.float32)
        job = _Job(x=x.data_ptr(), y=y.data_ptr(), key=key, block=block)
        job.bf16 = x.dtype is torch.bfloat16
        _lay_out(job, x.shape, axis)
        if signs is not None:
            job.rht, job.norm, job.signs = len(signs), 1 / sqrt(len(signs)), _array(signs)
        if operand.grid is not None:
            _follow(job, operand.grid, operand.rounding)
        self._run(job, x.numel())
        return y

    def _run(self, job: _Job, elements: int) -> None:
        threads = torch.get_num_threads()
        shares = min(threads, elements // _LEAST_SHARE)
        if shares <= 1:
            failures = self.library.quantize(byref(job), 0, 1)
        else:

            def quantize(share: int) -> int:
                return int(self.library.quantize(byref(job), share, shares))

            failures = sum(_pool(threads).map(quantize, range(shares)))
        if failures:
            raise MemoryError(f"a tile of blocks of {job.block} elements does not fit into memory")


@cache
def kernel() -> Kernel | None:
    """The kernel for this machine, or None where it cannot be compiled; says so in the log once."""
    try:
        return load(build())
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("no C kernel, quantizing in plain torch, several times slower: %s", error)
        return None


def build(flags: Sequence[str] = (*FLAGS, NATIVE)) -> Path:
    """The library of these flags, from the cache or compiled into it.

    Raises:
        OSError: If there is no compiler, it fails, or the cache cannot be written.
        SubprocessError: If the compiler does not end.
    """
    command = (*_compiler(), *flags)
    macros = _compile((*command, "-dM", "-E", "-x", "c", os.devnull))
    parts = (SOURCE.read_bytes(), shlex.join(command).encode(), macros)
    digest = sha256(b"\0".join(sha256(part).digest() for part in parts)).hexdigest()
    library = _cache_folder() / f"quantize-{digest[:32]}.so"
    if not library.exists():
        # Beside its final place, since a rename is atomic only within a file system.
        with TemporaryDirectory(dir=library.parent) as folder:
            finished = Path(folder, library.name)
            _compile((*command, "-o", str(finished), str(SOURCE)))
            finished.replace(library)
    return library


def load(library: Path) -> Kernel:
    """Opens a compiled library.

    Raises:
        OSError: If it is not one.
    """
    functions = CDLL(str(library))
    functions.quantize.argtypes = (POINTER(_Job), c_int64, c_int64)
    return Kernel(functions)


def _lay_out(job: _Job, shape: Sequence[int], axis: int) -> None:
    rows, columns = shape
    if axis == 1:
        # Blocks of all rows follow one another without a gap.
        job.groups, job.lanes, job.group = 1, rows * columns // job.block, 0
        job.along, job.across, job.lane_runs = 1, job.block, job.block // RUN
    else:
        job.groups, job.lanes, job.group = rows // job.block, columns, job.block * columns
        job.along, job.across, job.lane_runs = columns, 1, rows // RUN


def _follow(job: _Job, grid: Grid, rounding: Rounding) -> None:
    job.maximum, job.stochastic = grid.maximum, rounding is Rounding.SR
    match rule_of(grid):
        case Uniform(step=1.0):
            job.rule = _TO_INTEGERS
        case Uniform(step=step) if step < 2.0**100:
            # One step throughout is that of the subnormals, with all magnitudes among them.
            job.rule, job.mantissa_bits = _TO_FLOATS, len(grid.magnitudes).bit_length()
            job.least_exponent = int(log2(step)) + job.mantissa_bits + _FP32_BIAS
        case Floating() as rule:
            job.rule, job.mantissa_bits = _TO_FLOATS, rule.mantissa_bits
            job.least_exponent = rule.least_exponent + _FP32_BIAS
        case Uniform() | Table():
            job.rule, job.stochastic = _TO_TABLE, rounding is Rounding.SR
            keys, values = _search_table(grid, rounding)
            job.keys, job.values, job.half = keys, values, (len(keys) + 1) // 2
        case never:
            assert_never(never)


@lru_cache
def _search_table(grid: Grid, rounding: Rounding) -> tuple[Array[c_float], Array[c_float]]:
    """Keys in ascending order and the values that reaching them gives, padded for a bisection."""
    table = table_of(grid)
    keys = table.thresholds if rounding is Rounding.RTNE else table.magnitudes[1:]
    size = 1 << len(keys).bit_length()
    values = table.magnitudes + table.magnitudes[-1:] * (size + 1 - len(table.magnitudes))
    return _array(keys + (inf,) * (size - 1 - len(keys))), _array(values)


@lru_cache(maxsize=4096)
def _array(numbers: tuple[float, ...]) -> Array[c_float]:
    return (c_float * len(numbers))(*numbers)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="quantize")


def _compiler() -> tuple[str, ...]:
    if chosen := shlex.split(os.environ.get("CC", "")):
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
    chosen = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = chosen / "gridlaw"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
