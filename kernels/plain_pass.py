"""A linear layer's pass without a grid: the products of `kernels.layer_ops`, without its seams.

    y = x w^T        dx = dy w        dw = dy^T x        of numbers that the carrier holds

A small layer multiplies in less time than a general pass takes to find out that there is nothing to
quantize. The numbers are the same, bit for bit.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernels.matmul import carried_matmul


class PlainPass(torch.autograd.Function):
    """y = x w^T, eagerly."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """One pass.

        Args:
            ctx: What backward finds again.
            x: [..., in], of the carrier.
            weight: [out, in], FP32.

        Returns:
            [..., out], of the carrier.
        """
        rows = x.reshape(-1, x.shape[-1])
        dx, dw = ctx.needs_input_grad
        ctx.save_for_backward(rows if dw else None, weight if dx else None)
        ctx.carrier = x.dtype
        y = carried_matmul(rows, weight.t(), x.dtype, x.dtype)
        return y.view(*x.shape[:-1], y.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of x, of the carrier, and of the weight, FP32, as they are needed."""
        x, weight = ctx.saved_tensors
        rows = dy.reshape(-1, dy.shape[-1])
        dx = dw = None
        if weight is not None:
            dx = carried_matmul(rows, weight, ctx.carrier, ctx.carrier)
            dx = dx.view(*dy.shape[:-1], weight.shape[1])
        if x is not None:
            dw = carried_matmul(rows.t(), x, ctx.carrier)
        return dx, dw
