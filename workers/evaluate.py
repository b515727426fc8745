"""The held-out loss: exact over a fixed set of windows, with its standard error.

    loss = mean over sequences of the mean over positions of -ln p(target)        nats per token
    se   = standard deviation over sequences / sqrt(sequences)

Sequences have one length, so the mean over sequences is the mean over tokens; tokens of one
sequence are correlated, so the sequence is the unit of the standard error.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from workers.layers.loss import token_losses
from workers.world import ALONE, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Mean loss in nats per token and its standard error."""

    loss: float
    loss_se: float


@torch.no_grad()
def sequence_losses(model: nn.Module, windows: Tensor, batch: int, world: World = ALONE) -> Tensor:
    """Mean loss of each sequence, nats per token, FP64 [sequences].

    Args:
        model: Ids [B, T] to logits [B, T, vocabulary].
        windows: Ids [sequences, context + 1] on the model's device.
        batch: Sequences in a forward pass.
        world: The ranks that share the passes.
    """

    def read(chunk: Tensor) -> Tensor:
        inputs, targets = chunk[:, :-1], chunk[:, 1:]
        losses = token_losses(model(inputs), targets)
        return losses.double().mean(dim=1)

    return torch.cat(world.each(read, torch.split(windows, batch)))


def measure(model: nn.Module, windows: Tensor, batch: int, world: World = ALONE) -> Measurement:
    """Read every window once; arguments as in `sequence_losses`, at least two sequences."""
    return mean_of(sequence_losses(model, windows, batch, world))


def mean_of(losses: Tensor) -> Measurement:
    """The mean over sequences, of losses or of differences of losses, with its standard error."""
    return Measurement(
        loss=losses.mean().item(), loss_se=(losses.std() / len(losses) ** 0.5).item()
    )
