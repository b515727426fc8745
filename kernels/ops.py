"""The operations of a quantized layer, by the fastest implementation that is at hand.

    GPU                       Triton, which is imported when the first tensor on one comes
    CPU, with a C compiler    quantize.c
    anything else             plain torch

All give the same bits, so the choice is made here, once, and nobody above knows of it.
"""

import torch
from torch import Tensor

from kernels import native, reference
from kernels.hadamard import Rotation
from kernels.operands import Operand
from kernels.recipes import Precision
from kernels.reference import FakeQuantized
from kernels.request import Request


def fake_quantize(
    x: Tensor,
    operand: Operand,
    key: int,
    *,
    rotation: Rotation | None = None,
    axis: int = 1,
    carrier: torch.dtype = torch.bfloat16,
    precision: Precision = Precision.FP32,
) -> FakeQuantized:
    """An operand as its GEMM sees it: `kernels.reference.fake_quantize`, and its values."""
    request = Request(
        operand=operand, key=key, rotation=rotation, axis=axis, carrier=carrier, precision=precision
    )
    return fulfil(x, request)


def fulfil(x: Tensor, request: Request) -> FakeQuantized:
    """The same for a request."""
    if x.device.type == "cuda":
        from kernels import gpu

        return gpu.fulfil(x, request)
    kernel = native.kernel() if x.device.type == "cpu" else None
    return request.of(x, reference.fake_quantize if kernel is None else kernel.fake_quantize)


def fulfil_both(
    x: Tensor, along_rows: Request, along_columns: Request
) -> tuple[FakeQuantized, FakeQuantized]:
    """One tensor for a GEMM that contracts axis 1 and for one that contracts axis 0."""
    if x.device.type == "cuda":
        from kernels import gpu

        return gpu.fulfil_both(x, along_rows, along_columns)
    return fulfil(x, along_rows), fulfil(x, along_columns)
