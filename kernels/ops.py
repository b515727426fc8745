"""The operations of a quantized layer, by the fastest implementation that is at hand.

    CPU, with a C compiler    quantize.c
    anything else             plain torch

All give the same bits, so the choice is made here, once, and nobody above knows of it.
"""

import torch
from torch import Tensor

from kernels import native, reference
from kernels.hadamard import Rotation
from kernels.operands import Operand
from kernels.reference import FakeQuantized


def fake_quantize(
    x: Tensor,
    operand: Operand,
    key: int,
    *,
    rotation: Rotation | None = None,
    axis: int = 1,
    carrier: torch.dtype = torch.bfloat16,
) -> FakeQuantized:
    """An operand as its GEMM sees it: `kernels.reference.fake_quantize`, and its bits."""
    kernel = native.kernel() if x.device.type == "cpu" else None
    quantize = reference.fake_quantize if kernel is None else kernel.fake_quantize
    return quantize(x, operand, key, rotation=rotation, axis=axis, carrier=carrier)
