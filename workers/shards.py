"""Tensors of which each rank holds some of the rows: its part, the whole, and sums over parts.

    local(t)           the rows that this rank holds, sharing memory       torch.chunk along axis 0
    whole(t)           all rows, on every rank
    fill(t, whole)     each rank keeps its rows of what all of them have
    total(parts, t)    sum over ranks of what each took of its own rows of t

Such a tensor is a `DTensor`, as FSDP2 makes of a model's weights. A plain tensor is its own part
and its own whole, so that code written with these serves one process and several alike. `whole`
and `total` of a sharded tensor wait for every rank.
"""

import sys
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether this rank holds only a part of it."""
    # Nothing is sharded where the class was never loaded, which alone takes a second.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


@torch.no_grad()
def local(tensor: Tensor) -> Tensor:
    """The rows that this rank holds, perhaps none; shares memory, and no gradient goes through."""
    if is_sharded(tensor):
        rows: Tensor = tensor.to_local()
        return rows
    return tensor.detach()


@torch.no_grad()
def whole(tensor: Tensor) -> Tensor:
    """All rows; a plain tensor is returned as it is, sharing memory."""
    if is_sharded(tensor):
        rows: Tensor = tensor.full_tensor()
        return rows
    return tensor.detach()


@torch.no_grad()
def fill(tensor: Tensor, rows: Tensor) -> None:
    """Copy all rows into a tensor, or into what this rank holds of it.

    Args:
        tensor: Plain or sharded.
        rows: Of its whole shape, the same on every rank, on any device.
    """
    if not is_sharded(tensor):
        tensor.copy_(rows)
        return
    from torch.distributed.tensor import distribute_tensor

    # No rank sends: each cuts its own rows.
    mesh, placements = tensor.device_mesh, tensor.placements
    cut = distribute_tensor(rows.to(tensor.device), mesh, placements, src_data_rank=None)
    tensor.to_local().copy_(cut.to_local())


@torch.no_grad()
def total(parts: Tensor, of: Tensor) -> Tensor:
    """Sum over ranks of what each took of its own rows.

    Args:
        parts: Scalars or any other shape, the same on every rank; overwritten.
        of: The tensor whose rows they were taken of; where it is plain they are the sum already.
    """
    if is_sharded(of):
        torch.distributed.all_reduce(parts, group=of.device_mesh.get_group())
    return parts
