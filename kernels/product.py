"""Products of BF16 matrices by a CPU's own BF16 instructions, summed in FP32: product.c.

They take half the time of FP32 products. An element of a product depends on its row of the one
matrix and its column of the other alone, so that neither sizes nor threads change a bit. The
instructions take subnormal numbers for zero.
"""

from ctypes import CDLL, Structure, c_int64, c_void_p
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from kernels.compiled import bf16_library
from kernels.threads import spread

_SOURCE = Path(__file__).with_name("product.c")
_PANEL = 16
_SHARE = 1 << 22  # products of two numbers for which a thread pays


class _Product(Structure):
    """The struct of this name in product.c."""

    kept: tuple[object, ...] = ()
    _fields_ = (
        ("next", c_int64),
        ("units", c_int64),
        *((name, c_void_p) for name in ("a", "b", "c")),
        *((name, c_int64) for name in ("rows", "columns", "depth", "together")),
        *((name, c_int64) for name in ("a_across", "b_across", "b_along", "narrow")),
    )


def serves(a: Tensor, b: Tensor) -> bool:
    """Whether `multiplied` can be had.

    Args:
        a: [m, k].
        b: [k, n].
    """
    is_bf16 = a.dtype is b.dtype is torch.bfloat16
    is_here = a.device.type == b.device.type == "cpu"
    return is_bf16 and is_here and a.numel() * b.numel() > 0 and _library() is not None


def multiplied(a: Tensor, b: Tensor, out: torch.dtype) -> Tensor:
    """The product a b, where `serves` says that it can be had.

    Args:
        a: [m, k], BF16.
        b: [k, n], BF16.
        out: FP32, or BF16, to which the FP32 sums are rounded once.

    Returns:
        [m, n], contiguous.

    Raises:
        RuntimeError: If the sizes do not fit each other.
    """
    (rows, depth), (inner, columns) = a.shape, b.shape
    if depth != inner:
        raise RuntimeError(f"a product of {rows} x {depth} and {inner} x {columns}")
    library = _library()
    assert library is not None
    down = not _has_words(a)
    b_along = not down and _has_words(b.t())
    if down and a.stride(0) != 1:
        a = a.t().contiguous().t()
    if not b_along and b.stride(1) != 1:
        b = b.contiguous()
    c = torch.empty((rows, columns), dtype=torch.float32 if down else out)
    threads = max(1, min(torch.get_num_threads(), rows * columns * depth // _SHARE))
    together = -(-rows // (threads * _PANEL)) * _PANEL
    job = _Product(
        units=-(-rows // together),
        a=a.data_ptr(),
        b=b.data_ptr(),
        c=c.data_ptr(),
        rows=rows,
        columns=columns,
        depth=depth,
        together=together,
        a_across=a.stride(1 if down else 0),
        b_across=b.stride(1 if b_along else 0),
        b_along=b_along,
        narrow=c.dtype is torch.bfloat16,
    )
    function = library.product_down if down else library.product_along
    if not spread(function, job, threads, (a, b, c)):
        raise MemoryError(f"no memory for a panel of {depth} rows")
    return c.to(out)


@cache
def _library() -> CDLL | None:
    return bf16_library(_SOURCE, {"product_along": _Product, "product_down": _Product})


def _has_words(x: Tensor) -> bool:
    """Whether the numbers of each row lie in memory as words of two."""
    (_, depth), (across, step) = x.shape, x.stride()
    return step == 1 and depth % 2 == 0 and across % 2 == 0 and x.data_ptr() % 4 == 0
