"""The C kernels of the layers: BF16 in memory, FP32 within, forward and backward (layers.c).

They serve BF16 tensors on a CPU with AVX512-BF16 instructions and a C compiler. Everywhere else the
same formulas are computed by torch, which rounds at other places between.

An operation is a function that torch.compile calls without a look into it; eager passes call it
directly, since torch's dispatcher would cost them more than a small kernel.
"""

from collections.abc import Callable
from ctypes import CDLL, Structure, c_float, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kernels.compiled import bf16_library
from kernels.opaque import opaque
from kernels.threads import spread

_SOURCE = Path(__file__).with_name("layers.c")


def _fields(addresses: str, sizes: str, numbers: str = "") -> tuple[tuple[str, type], ...]:
    return (
        ("next", c_int64),
        ("units", c_int64),
        *((name, c_void_p) for name in addresses.split()),
        *((name, c_int64) for name in sizes.split()),
        *((name, c_float) for name in numbers.split()),
    )


class NormJob(Structure):
    """`Norm` of norm.h."""

    kept: tuple[object, ...] = ()
    _fields_ = _fields(
        "x dy y dx gain dgain inverse turns", "rows width together heads positions", "epsilon"
    )


class GateJob(Structure):
    """`Gate` of gates.h."""

    kept: tuple[object, ...] = ()
    _fields_ = _fields("gate up dy y dgate dup", "elements together")


class EntropyJob(Structure):
    """`Entropy` of entropy.h."""

    kept: tuple[object, ...] = ()
    _fields_ = _fields("logits targets losses l dlosses dlogits", "rows vocabulary together")


class AttentionJob(Structure):
    """`Attention` of attention.h."""

    kept: tuple[object, ...] = ()
    _fields_ = _fields("q k v dy y dq dk dv l", "heads shared positions width", "scale")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def are_here() -> bool:
    """Whether the kernels can be had."""
    return _library() is not None


def serve(x: Tensor, *beside: Tensor | None) -> bool:
    """Whether the kernels take such a tensor, and FP32 ones beside it."""
    is_bf16 = x.dtype is torch.bfloat16 and x.device.type == "cpu"
    are_wide = all(one is None or one.dtype is torch.float32 for one in beside)
    return is_bf16 and are_wide and are_here()


def run(function: str, job: Structure, threads: int, *kept: Tensor | None) -> None:
    """Has a job done.

    Args:
        function: Name of the C function.
        job: Its structure.
        threads: That are worth it.
        kept: What the job's addresses lead to.

    Raises:
        MemoryError: If there is none for what a thread works with.
    """
    library = _library()
    assert library is not None
    if not spread(getattr(library, function), job, threads, kept):
        raise MemoryError(f"{function}: no memory for what a thread works with")


def operation(
    schema: str, body: Callable[..., Any], shapes: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of tensors, opaque to torch.compile; arguments as in `kernels.opaque.opaque`."""
    compiled = opaque(schema, body, shapes)

    def call(*arguments: Any) -> Any:
        return (compiled if torch.compiler.is_compiling() else body)(*arguments)

    return call


def parts(elements: int, together: int) -> int:
    """So many parts of `together` elements make up all."""
    return -(-elements // together)


@cache
def _library() -> CDLL | None:
    names = ("norm", "swiglu", "squared_relu", "entropy", "attention")
    jobs = (NormJob, GateJob, GateJob, EntropyJob, AttentionJob)
    return bf16_library(
        _SOURCE,
        {
            f"{name}_{way}": job
            for name, job in zip(names, jobs, strict=True)
            for way in ("forward", "backward")
        },
    )
