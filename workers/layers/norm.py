"""RMSNorm with a gain: y = x / sqrt(mean x^2 + 1e-6) * gain, over the last axis.

In FP32 within, whatever the type of x and y; FP64 stays FP64. Heads of queries and keys are turned
by their positions (`workers.layers.rotary`) before anything is rounded.

Source: Zhang and Sennrich (arXiv 1910.07467).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from workers.layers.native import NormJob, operation, parts, run, serve

EPSILON = 1e-6
_TOGETHER = 1 << 14
"""Elements of the rows that a thread takes together."""


class RMSNorm(nn.Module):
    """Begins with gains of 1."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] of any floating type to the same."""
        return rms_norm(x, self.weight)


def rms_norm(x: Tensor, gain: Tensor, turns: Tensor | None = None) -> Tensor:
    """Norm over the last axis, and turn.

    Args:
        x: [..., width]; with turns [B, T, H, D].
        gain: [width], FP32 or wider.
        turns: `rotations` of T positions, or None.

    Returns:
        The shape and type of x.
    """
    if serve(x, gain, turns):
        y: Tensor = _Norm.apply(x, gain, turns)  # type: ignore[no-untyped-call]
        return y
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    n = functional.rms_norm(wide, gain.shape, gain.to(wide.dtype), EPSILON)
    if turns is not None:
        cosines, sines = turns[:, None].to(n.dtype).unbind(-2)
        n = n * cosines + n.reshape(*n.shape[:-1], -1, 2).flip(-1).flatten(-2) * sines
    return n.to(x.dtype)


class _Norm(torch.autograd.Function):
    """By the C kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, turns: Tensor | None) -> Tensor:
        y, inverse = _forward(x, gain, turns)
        ctx.save_for_backward(x, gain, turns, inverse)
        return y  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None]:
        dx, dgain = _backward(dy, *ctx.saved_tensors)
        return dx, dgain, None


def _job(x: Tensor, gain: Tensor, turns: Tensor | None, inverse: Tensor) -> NormJob:
    width = x.shape[-1]
    rows = x.numel() // width
    together = max(1, _TOGETHER // width)
    return NormJob(
        units=parts(rows, together),
        x=x.data_ptr(),
        gain=gain.data_ptr(),
        inverse=inverse.data_ptr(),
        turns=None if turns is None else turns.data_ptr(),
        rows=rows,
        width=width,
        together=together,
        heads=1 if turns is None else x.shape[-2],
        positions=1 if turns is None else len(turns),
        epsilon=EPSILON,
    )


def _forward_body(x: Tensor, gain: Tensor, turns: Tensor | None) -> tuple[Tensor, Tensor]:
    x = x.contiguous()
    y, inverse = torch.empty_like(x), torch.empty(x.shape[:-1], dtype=torch.float32)
    job = _job(x, gain, turns, inverse)
    job.y = y.data_ptr()
    run("norm_forward", job, job.units, x, gain, turns, y, inverse)
    return y, inverse


def _backward_body(
    dy: Tensor, x: Tensor, gain: Tensor, turns: Tensor | None, inverse: Tensor
) -> tuple[Tensor, Tensor]:
    dy, x = dy.contiguous(), x.contiguous()
    dx = torch.empty_like(x)
    job = _job(x, gain, turns, inverse)
    sums = torch.empty((job.units, len(gain)), dtype=torch.float32)
    job.dy, job.dx, job.dgain = dy.data_ptr(), dx.data_ptr(), sums.data_ptr()
    run("norm_backward", job, job.units, dy, x, gain, turns, inverse, dx, sums)
    return dx, sums.sum(0)


_forward = operation(
    "norm_forward(Tensor x, Tensor gain, Tensor? turns) -> (Tensor, Tensor)",
    _forward_body,
    lambda x, _gain, _turns: (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        x.new_empty(x.shape[:-1], dtype=torch.float32),
    ),
)
_backward = operation(
    "norm_backward(Tensor dy, Tensor x, Tensor gain, Tensor? turns, Tensor inverse) "
    "-> (Tensor, Tensor)",
    _backward_body,
    lambda _dy, x, gain, _turns, _inverse: (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        torch.empty_like(gain),
    ),
)
