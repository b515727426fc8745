"""Causal softmax attention, softmax(q k^T / sqrt(D) + mask) v, with shared key and value heads.

Of 16-bit q, k and v: products of 16-bit numbers, summed in FP32, and probabilities rounded to 16
bits before they multiply v, forward and backward, as in flash attention (arXiv 2205.14135).

Axes: B sequences, T positions, H heads, G key and value heads, D features of a head.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from workers.layers.native import AttentionJob, operation, run, serve


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Query head h looks at key and value head h // (H / G).

    A CPU without instructions for 16 bits is several times faster on the same values in FP32, where
    probabilities then stay.

    Args:
        q: [B, T, H, D], of the carrier; D is even.
        k: [B, T, G, D], of the carrier; G divides H.
        v: The same.

    Returns:
        [B, T, H, D], of the carrier.
    """
    if serve(q):
        y: Tensor = _Attention.apply(q, k, v)  # type: ignore[no-untyped-call]
        return y
    wide = q.dtype if q.is_cuda else torch.promote_types(q.dtype, torch.float32)
    query, key, value = (x.to(wide).transpose(1, 2) for x in (q, k, v))
    grouped = q.shape[2] != k.shape[2]
    y = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=grouped
    )
    return y.transpose(1, 2).to(q.dtype)


class _Attention(torch.autograd.Function):
    """By the C kernel."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        y, l = _forward(q, k, v)
        ctx.save_for_backward(q, k, v, y, l)
        return y  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _backward(dy, *ctx.saved_tensors)  # type: ignore[no-any-return]


def _done(function: str, **tensors: Tensor) -> None:
    q, shared = tensors["q"], tensors["k"].shape[2]
    batch, positions, heads, width = q.shape
    job = AttentionJob(
        units=batch * shared,
        heads=heads,
        shared=shared,
        positions=positions,
        width=width,
        scale=width**-0.5,
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
    )
    run(function, job, job.units, *tensors.values())


def _forward_body(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    batch, positions, heads, _ = q.shape
    y = torch.empty_like(q)
    l = torch.empty((batch, heads, positions), dtype=torch.float32)
    _done("attention_forward", q=q, k=k, v=v, y=y, l=l)
    return y, l


def _backward_body(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, l: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v, dy = q.contiguous(), k.contiguous(), v.contiguous(), dy.contiguous()
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    _done("attention_backward", q=q, k=k, v=v, y=y, l=l, dy=dy, dq=dq, dk=dk, dv=dv)
    return dq, dk, dv


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


_forward = operation(
    "attention_forward(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)",
    _forward_body,
    lambda q, _k, _v: (
        _like(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32),
    ),
)  # fmt: skip
_backward = operation(
    "attention_backward(Tensor dy, Tensor q, Tensor k, Tensor v, Tensor y, Tensor l) "
    "-> (Tensor, Tensor, Tensor)",
    _backward_body,
    lambda _dy, q, k, v, _y, _l: (_like(q), _like(k), _like(v)),
)
