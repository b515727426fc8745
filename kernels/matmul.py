"""The BF16 matrix product, which every unquantized GEMM of a run goes through.

    c = round(sum over k of bf16(a) * bf16(b))      products exact, sum in FP32

A CPU without native BF16 arithmetic runs a BF16 GEMM some ten times slower than an FP32 GEMM of the
same rounded operands, which computes the same thing by definition; a GPU has units for it.
"""

import torch
from torch import Tensor


def bf16_matmul(a: Tensor, b: Tensor, *, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Product of two matrices rounded to BF16, summed in FP32 and returned in `dtype`.

    Differentiable by the ordinary rules of its parts, under which gradients pass through BF16.

    Args:
        a: [m, k], any floating type.
        b: [k, n], any floating type.
        dtype: Type of the result, BF16 or FP32.

    Returns:
        [m, n].
    """
    left, right = a.to(torch.bfloat16), b.to(torch.bfloat16)
    if a.device.type != "cpu":
        # The BF16 form has a gradient, the form with another result type has none.
        if dtype is torch.bfloat16:
            return torch.mm(left, right)
        return torch.mm(left, right, out_dtype=dtype)
    return torch.mm(left.to(torch.float32), right.to(torch.float32)).to(dtype)
