"""Triton's kernels in numpy, on tensors in a CPU's memory, in a process that also compiles them.

Triton's own switch is an environment variable that turns every kernel of a process. Here each one
is copied instead, with all that it calls. What the interpreter does to BF16 is put right: its casts
are wrong for subnormal numbers, and those to BF16 truncate, so that they may not have to round.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import triton.language as tl
from numpy.typing import NDArray
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction, ReduceOps
from triton.runtime.jit import JITFunction

from kernels import gpu

KERNELS = ("quantize", "measure", "weigh")
WIDE = 1 << 14  # lanes of a tile: one program for most matrices, since each takes its time


@contextmanager
def interpreted_kernels() -> Iterator[dict[str, Any]]:
    """`kernels.gpu` with kernels that run on the CPU, which are given by name."""
    done: dict[int, Callable[..., Any]] = {}
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        kernels = {
            name: InterpretedFunction(_copy(getattr(gpu, name).fn, done)) for name in KERNELS
        }
        for name, kernel in kernels.items():
            patch.setattr(gpu, name, kernel)
        patch.setattr(gpu, "LANES", WIDE)
        patch.setattr(tl, "max", _largest)
        patch.setattr(tl, "xor_sum", _exclusive_or)
        patch.setattr(interpreter, "_convert_float", _converted)
        yield kernels


_usual = interpreter._convert_float


def _copy(function: FunctionType, done: dict[int, Callable[..., Any]]) -> FunctionType:
    """A function whose constants are plain numbers and that calls copies which numpy runs."""
    scope = dict(function.__globals__)
    copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
    copy.__annotations__ = function.__annotations__
    for name in function.__code__.co_names:
        value = scope.get(name)
        if isinstance(value, tl.constexpr):
            scope[name] = value.value
        elif isinstance(value, JITFunction):
            scope[name] = _device_function(value, done)
    return copy


def _device_function(
    function: JITFunction[Any], done: dict[int, Callable[..., Any]]
) -> Callable[..., Any]:
    if id(function) not in done:
        # One that calls itself finds this until its copy is there.
        done[id(function)] = lambda *arguments: done[id(function)](*arguments)
        done[id(function)] = InterpretedFunction(_copy(function.fn, done)).rewrite()
    return done[id(function)]


def _largest(x: tl.tensor, axis: int, keep_dims: bool = False) -> tl.tensor:
    return tl.reduce(x, axis, tl.standard._elementwise_max, keep_dims=keep_dims)


def _exclusive_or(x: tl.tensor, axis: int, keep_dims: bool = False) -> tl.tensor:
    data = np.bitwise_xor.reduce(x.handle.data, axis=axis)
    data = np.expand_dims(data, axis) if keep_dims else data
    return ReduceOps(axis, None, keep_dims).to_tensor(data, x.dtype)


def _converted(x: NDArray[Any], of: tl.dtype, to: tl.dtype, mode: Any) -> NDArray[Any]:
    """The bits of numbers of a type in another type."""
    if tl.bfloat16 not in (of, to):
        converted: NDArray[Any] = _usual(x, of, to, mode)
        return converted
    if of == tl.bfloat16:
        assert to == tl.float32
        return x.view(np.uint16).astype(np.uint32) << 16
    assert of == tl.float32
    bits = np.ascontiguousarray(x).view(np.uint32)
    numbers = bits.view(np.float32)
    assert not (bits & 0xFFFF)[numbers == numbers].any(), "a cast to BF16 would round"
    return (bits >> 16).astype(np.uint16)
