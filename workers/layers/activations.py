"""The activations of feed-forward networks.

    swiglu         silu(gate) * up,  silu(z) = z / (1 + e^-z)
    squared relu   relu(up)^2

Sources: SwiGLU, arXiv 2002.05202; the square of relu, arXiv 2109.08668.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from workers.layers.native import GateJob, operation, parts, run, serve

_TOGETHER = 1 << 14
"""Elements that a thread takes together."""


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up; all of one shape and type."""
    if serve(gate):
        y: Tensor = _SwiGlu.apply(gate, up)  # type: ignore[no-untyped-call]
        return y
    return functional.silu(gate) * up


def squared_relu(up: Tensor) -> Tensor:
    """relu(up)^2, of the same shape and type."""
    if serve(up):
        y: Tensor = _SquaredRelu.apply(up)  # type: ignore[no-untyped-call]
        return y
    return up.relu().square()


class _SwiGlu(torch.autograd.Function):
    """By the C kernel."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return _swiglu(gate, up)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        return _swiglu_back(dy, *ctx.saved_tensors)  # type: ignore[no-any-return]


class _SquaredRelu(torch.autograd.Function):
    """By the C kernel."""

    @staticmethod
    def forward(ctx: Any, up: Tensor) -> Tensor:
        ctx.save_for_backward(up)
        return _squared(up)  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return _squared_back(dy, *ctx.saved_tensors)  # type: ignore[no-any-return]


def _done(function: str, elements: int, **tensors: Tensor) -> None:
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    units = parts(elements, _TOGETHER)
    job = GateJob(units=units, elements=elements, together=_TOGETHER, **addresses)
    run(function, job, units, *tensors.values())


def _swiglu_body(gate: Tensor, up: Tensor) -> Tensor:
    gate, up = gate.contiguous(), up.contiguous()
    y = torch.empty_like(up)
    _done("swiglu_forward", up.numel(), gate=gate, up=up, y=y)
    return y


def _swiglu_back_body(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    dy, gate, up = dy.contiguous(), gate.contiguous(), up.contiguous()
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    _done("swiglu_backward", up.numel(), dy=dy, gate=gate, up=up, dgate=dgate, dup=dup)
    return dgate, dup


def _squared_body(up: Tensor) -> Tensor:
    up = up.contiguous()
    y = torch.empty_like(up)
    _done("squared_relu_forward", up.numel(), up=up, y=y)
    return y


def _squared_back_body(dy: Tensor, up: Tensor) -> Tensor:
    dy, up = dy.contiguous(), up.contiguous()
    dup = torch.empty_like(up)
    _done("squared_relu_backward", up.numel(), dy=dy, up=up, dup=dup)
    return dup


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


_swiglu = operation(
    "swiglu_forward(Tensor gate, Tensor up) -> Tensor", _swiglu_body, lambda _, up: _like(up)
)
_swiglu_back = operation(
    "swiglu_backward(Tensor dy, Tensor gate, Tensor up) -> (Tensor, Tensor)",
    _swiglu_back_body,
    lambda _, gate, up: (_like(gate), _like(up)),
)
_squared = operation("squared_relu_forward(Tensor up) -> Tensor", _squared_body, _like)
_squared_back = operation(
    "squared_relu_backward(Tensor dy, Tensor up) -> Tensor",
    _squared_back_body,
    lambda _, up: _like(up),
)
