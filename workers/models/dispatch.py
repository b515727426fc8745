"""Tokens to their experts and back: rows sorted by expert, then the gated sum for each token.

    sent[rows[t, i]] = x[t]                     to expert i of the k that token t has chosen
    y[t] = sum over i of gates[t, i] * done[rows[t, i]]

An expert's tokens keep their order and are filled up with rows of zeros to whole blocks of wgrad.
The number of rows is the largest that any choice needs, so that it depends on sizes alone: one
compiled graph serves all choices. Forward and backward read rows and never add into them, so that
sums have one order, on a GPU too; they are FP32.

Axes: t tokens, k experts of a token, E experts, C width.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Places(NamedTuple):
    """Where tokens go.

    Attributes:
        rows: int64 [t, k], all different.
        tokens: int64 [total], which token each row is of, t for a row of none.
        ends: int64 [E] on the host, where the rows of each expert end.
    """

    rows: Tensor
    tokens: Tensor
    ends: Tensor


@torch.no_grad()
def places(chosen: Tensor, experts: int, block: int) -> Places:
    """Sort tokens by expert.

    Args:
        chosen: int64 [t, k].
        experts: E.
        block: Rows of each expert are filled up to a multiple of it.
    """
    flat = chosen.flatten()
    count, active = chosen.shape
    load = flat.new_zeros(experts).scatter_add(0, flat, torch.ones_like(flat))
    filled = (load + (block - 1)) // block * block
    ends = filled.cumsum(0)
    order = flat.argsort(stable=True)
    shift = (ends - filled) - (load.cumsum(0) - load)
    sorted_rows = torch.arange(len(flat), device=flat.device) + shift[flat[order]]
    rows = torch.empty_like(flat).scatter(0, order, sorted_rows)
    total = (len(flat) + experts * (block - 1)) // block * block
    tokens = flat.new_full((total,), count).scatter(0, sorted_rows, order // active)
    return Places(rows.view(chosen.shape), tokens, ends.cpu())


def send(x: Tensor, where: Places) -> Tensor:
    """Each token's row, once for each of its experts: [t, C] to [total, C], else zero."""
    sent: Tensor = _Send.apply(x, where.rows, where.tokens)  # type: ignore[no-untyped-call]
    return sent


def gather(done: Tensor, gates: Tensor, where: Places) -> Tensor:
    """The gated sum of each token's rows.

    Args:
        done: [total, C].
        gates: FP32 [t, k].
        where: The rows of each token.

    Returns:
        [t, C], of the type of `done`.
    """
    parts = done, gates, where.rows, where.tokens
    y: Tensor = _Gather.apply(*parts)  # type: ignore[no-untyped-call]
    return y


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return _with_none(x).index_select(0, tokens)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (rows,) = ctx.saved_tensors
        total = gradient.new_zeros(rows.shape[0], gradient.shape[1], dtype=_sums(gradient))
        for column in rows.unbind(1):
            total += gradient.index_select(0, column)
        return total.to(gradient.dtype), None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, done: Tensor, gates: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(done, gates, rows, tokens)
        y = done.new_zeros(rows.shape[0], done.shape[1], dtype=_sums(done))
        for column, gate in zip(rows.unbind(1), gates.unbind(1), strict=True):
            y.addcmul_(gate[:, None], done.index_select(0, column).to(y.dtype))
        return y.to(done.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None, None]:
        done, gates, rows, tokens = ctx.saved_tensors
        gate = gates.new_zeros(len(tokens)).scatter(0, rows.flatten(), gates.flatten())
        given = (gate[:, None] * _with_none(dy).index_select(0, tokens)).to(done.dtype)
        wide = dy.to(_sums(dy))
        shares = [(wide * done.index_select(0, column)).sum(1) for column in rows.unbind(1)]
        return given, torch.stack(shares, 1), None, None


def _with_none(x: Tensor) -> Tensor:
    """The rows of the tokens, and one of zeros for the rows of none."""
    return torch.cat((x, x.new_zeros(1, x.shape[1])))


def _sums(of: Tensor) -> torch.dtype:
    """The type that sums are in."""
    return torch.promote_types(of.dtype, torch.float32)
