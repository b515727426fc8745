"""What is asked of a quantizer for one operand of one GEMM, but for the tensor."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.draws import key_of, rotation_of
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
        draws: Key and signs where a GPU finds them (`kernels.draws`), or None. Where they are
            given, `key` and the signs of `rotation` mean nothing.
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
        key, rotation = self.key, self.rotation
        if self.draws is not None:
            words = self.draws.tolist()
            key = key_of(words)
            if rotation is not None:
                size = len(rotation.signs)
                rotation = rotation_of(words, size, to_bf16=rotation.to_bf16)
        return quantize(
            x,
            self.operand,
            key,
            rotation=rotation,
            axis=self.axis,
            carrier=self.carrier,
            precision=self.precision,
        )
