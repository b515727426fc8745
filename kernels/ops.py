"""The operations of a quantized layer, by the fastest implementation that is at hand.

    CPU, with a C compiler    quantize.c
    anything else             plain torch

All give the same bits, so the choice is made here, once, and nobody above knows of it.
"""

from torch import Tensor

from kernels import native, reference
from kernels.recipes import Operand


def fake_quantize(
    x: Tensor,
    operand: Operand,
    key: int,
    *,
    signs: tuple[float, ...] | None = None,
    axis: int = 1,
) -> Tensor:
    """An operand as its GEMM sees it: `kernels.reference.fake_quantize`, and its bits."""
    kernel = native.kernel() if x.device.type == "cpu" else None
    if kernel is None:
        return reference.fake_quantize(x, operand, key, signs=signs, axis=axis)
    return kernel.fake_quantize(x, operand, key, signs=signs, axis=axis)
