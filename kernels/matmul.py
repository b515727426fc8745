"""The matrix products of a run, by the units of the device that compute them as they are defined.

    c = sum over k of carrier(a) * carrier(b)          an unquantized GEMM
    c = sum over k of precision(a) * precision(b)      a quantized one, its operands rounded already

Sums are FP32. A CPU without 16-bit arithmetic runs a 16-bit GEMM some ten times slower than an FP32
GEMM of the same rounded operands, which computes the same thing by definition; a GPU has units for
it, and others for TF32, which would round FP32 operands if they were not rounded already.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

import torch
from torch import Tensor

from kernels.recipes import Precision

CARRIERS = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The types of `kernels.recipes.Carrier`."""


def carried_matmul(a: Tensor, b: Tensor, carrier: torch.dtype) -> Tensor:
    """Product of two matrices rounded to the carrier, summed in FP32.

    Args:
        a: [m, k], any floating type.
        b: [k, n], any floating type.
        carrier: BF16 or FP16.

    Returns:
        [m, n], FP32.
    """
    left, right = a.to(carrier), b.to(carrier)
    if a.device.type == "cpu":
        return torch.mm(left.to(torch.float32), right.to(torch.float32))
    # With a 16-bit result a GPU may add partial sums in 16 bits.
    return torch.mm(left, right, out_dtype=torch.float32)


def emulated_matmul(a: Tensor, b: Tensor, precision: Precision) -> Tensor:
    """Product of two fake-quantized matrices, summed in FP32.

    Args:
        a: [m, k], FP32, or BF16 where that is the precision; every value of the precision.
        b: [k, n], the same.
        precision: Of both.

    Returns:
        [m, n], FP32.
    """
    if a.device.type == "cpu":
        return torch.mm(a.to(torch.float32), b.to(torch.float32))
    match precision:
        case Precision.BF16:
            left, right = a.to(torch.bfloat16), b.to(torch.bfloat16)
            return torch.mm(left, right, out_dtype=torch.float32)
        case Precision.TF32:
            with _tf32():
                return torch.mm(a, b)
        case Precision.FP32:
            return torch.mm(a, b)
        case never:
            assert_never(never)


@contextmanager
def _tf32() -> Iterator[None]:
    """Lets CUDA multiply in TF32 for now; elsewhere in a run it must not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
