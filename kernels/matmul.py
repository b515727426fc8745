"""The matrix product of two 16-bit operands, which every unquantized GEMM of a run goes through.

    c = sum over k of carrier(a) * carrier(b)       products exact, sum in FP32

A CPU without 16-bit arithmetic runs such a GEMM some ten times slower than an FP32 GEMM of the same
rounded operands, which computes the same thing by definition; a GPU has units for it.
"""

import torch
from torch import Tensor

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
