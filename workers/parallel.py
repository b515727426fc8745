"""Several ranks that train one model: fully sharded (FSDP2) or each with the whole of it.

    shard       each rank keeps 1 / R of every weight's rows, with gradient and moments; a block's
                weights are gathered for its passes and let go after them
    replicate   each rank keeps all of them

Gradients are summed over ranks, not averaged, in FP32, as the microbatches of a single process are:
sharded ones after each backward pass, so that no rank holds more than its rows of them, replicated
ones after a rank's last pass of a step. Weights are gathered in FP32, since the carrier's rounding
is the layer's own affair.

Replicated gradients are added by plain all-reduces over buckets of fixed layout: DDP lays its
buckets out anew after the first step, so that a resumed run of three ranks or more would add in
another order. Sources: FSDP2 (PyTorch `fully_shard`), ZeRO (arXiv 1910.02054).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from sweeps.runspec import Sharding
from workers.shards import is_sharded, whole

T = TypeVar("T")

BUCKET_BYTES = 25 * 2**20
"""Gradients that go in one all-reduce."""

CPU = torch.device("cpu")


class Peers:
    """The ranks of torch's default process group, seen from one of them.

    Args:
        sharding: What each of them holds.
    """

    def __init__(self, sharding: Sharding) -> None:
        self._sharding = sharding
        self.rank = distributed.get_rank()
        self.size = distributed.get_world_size()

    @property
    def is_lead(self) -> bool:
        """Whether this process is rank 0."""
        return self.rank == 0

    def place(self, model: nn.Module, device: torch.device) -> None:
        """Put a model on the device; with `shard`, this rank's rows of it alone."""
        if self._sharding is Sharding.SHARD:
            mesh = init_device_mesh(device.type, (self.size,))
            # Nothing writes into the logits, a view, of which FSDP2 warns at each pass.
            warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
            for part in (*_blocks(model), model):
                # By default the root stays whole after a forward pass, its parameters others than
                # those that the optimizer moves, until a backward pass that an evaluation lacks.
                fully_shard(part, mesh=mesh, reshard_after_forward=True)
            for module in _sharded_modules(model):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo has no other
        model.to(device)

    def mine(self, microbatches: int) -> range:
        """An unbroken stretch of them."""
        share, rest = divmod(microbatches, self.size)
        if rest:
            raise ValueError(f"{self.size} ranks cannot share {microbatches} microbatches equally")
        return range(self.rank * share, (self.rank + 1) * share)

    @contextmanager
    def backward(self, model: nn.Module, *, last: bool) -> Iterator[None]:
        """Around each backward pass; after the last one gradients are the sums over ranks."""
        yield
        if last and self._sharding is Sharding.REPLICATE:
            _add_gradients(model)

    @contextmanager
    def unsharded(self, model: nn.Module) -> Iterator[None]:
        """Holds the weights whole, also between passes."""
        modules = list(_sharded_modules(model))
        for module in modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.set_reshard_after_backward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            for module in modules:
                module.set_reshard_after_forward(True, recurse=False)
                module.set_reshard_after_backward(True, recurse=False)
                module.reshard()

    def summed(self, tensor: Tensor) -> Tensor:
        """Sum over ranks, in place."""
        distributed.all_reduce(tensor)
        return tensor

    def each(self, function: Callable[[T], Tensor], parts: Sequence[T]) -> list[Tensor]:
        """What a function makes of every part; a rank without one left repeats the last."""
        calls = -(-len(parts) // self.size)
        first, last = self.rank * calls, len(parts) - 1
        found = {}
        for index in range(first, first + calls):
            found[min(index, last)] = function(parts[min(index, last)]).cpu()
        everywhere: list[dict[int, Tensor]] = [{} for _ in range(self.size)]
        distributed.all_gather_object(everywhere, found)
        merged = {index: made for one in everywhere for index, made in one.items()}
        return [merged[index] for index in range(len(parts))]

    def agreed(self, flag: bool) -> bool:
        """The lead's flag."""
        word = torch.tensor(flag, dtype=torch.uint8)
        distributed.broadcast(word, src=0)
        return bool(word)

    def told(self, value: T) -> T:
        """The lead's value."""
        words = [value]
        distributed.broadcast_object_list(words, src=0, device=CPU)
        return words[0]

    def told_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The lead's tensors, each handed over as all ranks look it up."""
        return _Told(self, tensors)

    def gathered(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The same tensors, each whole, for the lead: sharded ones copied to the CPU."""
        found = {}
        for name, tensor in tensors.items():
            rows = whole(tensor)
            if self.is_lead:
                found[name] = rows.cpu() if is_sharded(tensor) else rows
        return found

    def first(self, word: str | None) -> str | None:
        """What the lowest rank says that has anything to say."""
        words: list[str | None] = [None] * self.size
        distributed.all_gather_object(words, word)
        return next((one for one in words if one is not None), None)


class _Told(Mapping[str, Tensor]):
    """Tensors on the lead's CPU; a look-up gives every rank a copy, and waits for all."""

    def __init__(self, peers: Peers, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._is_lead = peers.is_lead
        self._forms = peers.told({name: (t.shape, t.dtype) for name, t in tensors.items()})

    def __getitem__(self, name: str) -> Tensor:
        shape, dtype = self._forms[name]
        tensor = self._tensors[name] if self._is_lead else torch.empty(shape, dtype=dtype)
        distributed.broadcast(tensor.contiguous(), src=0)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._forms)

    def __len__(self) -> int:
        return len(self._forms)


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """What is gathered together: the members of a model's stacks."""
    for stack in model.children():
        if isinstance(stack, nn.ModuleList):
            yield from stack


def _sharded_modules(model: nn.Module) -> Iterator[FSDPModule]:
    return (module for module in model.modules() if isinstance(module, FSDPModule))


def _add_gradients(model: nn.Module) -> None:
    """Sum over ranks, bucket by bucket, in an order that the model alone decides."""
    sums = []
    for bucket in _buckets(list(model.parameters())):
        flat = torch.cat([gradient.flatten() for gradient in bucket])
        sums.append((bucket, flat, distributed.all_reduce(flat, async_op=True)))
    for bucket, flat, work in sums:
        work.wait()
        rows = torch.split(flat, [gradient.numel() for gradient in bucket])
        for gradient, summed in zip(bucket, rows, strict=True):
            gradient.copy_(summed.view_as(gradient))


def _buckets(weights: Sequence[nn.Parameter]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    size = 0
    for weight in weights:
        if weight.grad is None:  # this rank's microbatches did not touch it, others' may have
            weight.grad = torch.zeros_like(weight)
        bucket.append(weight.grad)
        size += weight.grad.nbytes
        if size >= BUCKET_BYTES:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket
