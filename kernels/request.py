"""What is asked of a quantizer for one operand of one GEMM, but for the tensor."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.hadamard import Rotation
from kernels.operands import Operand
from kernels.recipes import Precision
from kernels.reference import FakeQuantized


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of `kernels.reference.fake_quantize` after the tensor.

    Attributes:
        operand: Grid, block, scale and rounding.
        key: 64 bits that select the draws.
        rotation: The RHT along the axis, or None.
        axis: Which one the GEMM contracts.
        carrier: The 16-bit type of what has no grid.
        precision: What the values are rounded to in the end.
        draws: Key and signs where a GPU finds them (`kernels.draws`), or None: then they are taken
            from `key` and `rotation`.
    """

    operand: Operand
    key: int
    rotation: Rotation | None = None
    axis: int = 1
    carrier: torch.dtype = torch.bfloat16
    precision: Precision = Precision.FP32
    draws: Tensor | None = None

    def of(self, x: Tensor, quantize: Callable[..., FakeQuantized]) -> FakeQuantized:
        """What an implementation that takes key and rotation makes of a tensor."""
        return quantize(
            x,
            self.operand,
            self.key,
            rotation=self.rotation,
            axis=self.axis,
            carrier=self.carrier,
            precision=self.precision,
        )
