"""Cross entropy of a decoder's 16-bit logits, in FP32: -ln p(target), nats per token.

    loss     = ln sum e^logits - logit of the target
    dlogits  = (softmax(logits) - one at the target) dloss        rounded to the logits' type

Axes: B sequences, T positions, V words of the vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from workers.layers.native import EntropyJob, operation, parts, run, serve

_TOGETHER = 1 << 14
"""Elements of the rows that a thread takes together."""


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """The loss of each token.

    Args:
        logits: [B, T, V], of any floating type.
        targets: Ids [B, T] int64, each below V.

    Returns:
        FP32 [B, T]; FP64 for such logits.

    Raises:
        IndexError: On a CPU, if an id is not below V.
        ValueError: If the ids are not one int64 for each position of the logits.
    """
    if targets.dtype is not torch.int64 or logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits {list(logits.shape)} need one int64 id for each position, got "
            f"{targets.dtype} {list(targets.shape)}"
        )
    if serve(logits):
        losses: Tensor = _Losses.apply(logits, targets)  # type: ignore[no-untyped-call]
        return losses
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(wide.movedim(-1, 1), targets, reduction="none")


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all tokens, a scalar; arguments as in `token_losses`.

    First over a sequence, then over sequences: the order of the sum does not depend on threads.
    """
    return token_losses(logits, targets).mean(-1).mean()


class _Losses(torch.autograd.Function):
    """By the C kernel."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        losses, l = _forward(logits, targets)
        ctx.save_for_backward(logits, targets, l)
        return losses  # type: ignore[no-any-return]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dlosses: Tensor) -> tuple[Tensor, None]:
        return _backward(dlosses, *ctx.saved_tensors), None


def _done(function: str, **tensors: Tensor) -> None:
    vocabulary = tensors["logits"].shape[-1]
    rows = tensors["targets"].numel()
    together = max(1, _TOGETHER // vocabulary)
    job = EntropyJob(
        units=parts(rows, together),
        rows=rows,
        vocabulary=vocabulary,
        together=together,
        **{name: tensor.data_ptr() for name, tensor in tensors.items()},
    )
    run(function, job, job.units, *tensors.values())


def _forward_body(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logits, targets = logits.contiguous(), targets.contiguous()
    _check(targets, logits.shape[-1])
    losses = torch.empty(targets.shape, dtype=torch.float32)
    l = torch.empty_like(losses)
    _done("entropy_forward", logits=logits, targets=targets, losses=losses, l=l)
    return losses, l


def _check(targets: Tensor, vocabulary: int) -> None:
    """The kernels find a target's logit by its id, wherever that leads."""
    if not targets.numel():
        return
    for target in torch.stack(targets.aminmax()).tolist():
        if not 0 <= target < vocabulary:
            raise IndexError(f"target {target} is none of the {vocabulary} words of a vocabulary")


def _backward_body(dlosses: Tensor, logits: Tensor, targets: Tensor, l: Tensor) -> Tensor:
    dlosses, logits, targets = dlosses.contiguous(), logits.contiguous(), targets.contiguous()
    dlogits = torch.empty_like(logits)
    _done(
        "entropy_backward",
        dlosses=dlosses, logits=logits, targets=targets, l=l, dlogits=dlogits,
    )  # fmt: skip
    return dlogits


_forward = operation(
    "entropy_forward(Tensor logits, Tensor targets) -> (Tensor, Tensor)",
    _forward_body,
    lambda _, targets: (
        targets.new_empty(targets.shape, dtype=torch.float32),
        targets.new_empty(targets.shape, dtype=torch.float32),
    ),
)
_backward = operation(
    "entropy_backward(Tensor dlosses, Tensor logits, Tensor targets, Tensor l) -> Tensor",
    _backward_body,
    lambda _dlosses, logits, _targets, _l: torch.empty_like(
        logits, memory_format=torch.contiguous_format
    ),
)
