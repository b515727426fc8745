"""Blocks of 1e9 parameters in training under torch.compile: what a recipe costs a large model.

    x [B, T, C] -> blocks -> mean of squares -> backward -> clip, AdamW

Neither embedding nor head: everything but norms, attention and the optimizer is quantized. Weights,
gradients and moments are FP32, 16 bytes for each parameter of each recipe.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.counts import non_embedding_parameters
from sweeps.shapes import ModelShape
from sweeps.training import Training
from workers.models.decoder import Block
from workers.models.dense import feed_forward
from workers.models.linears import Linears
from workers.optim import Optimizer

SHAPE = ModelShape(name="20x2048h16", num_layers=20, width=2048, num_heads=16, mlp_width=5472)
TRAINING = Training(context=2048, batch_tokens=8192, learning_rate=1e-4, warmup_tokens=8192)
BYTES_PER_PARAMETER = 16
ACTIVATIONS = 40e9
"""Bytes that a step takes beside weights, gradients and moments, generously."""


class Stack(nn.Module):
    """Blocks one after the other."""

    def __init__(
        self, shape: ModelShape, training: Training, recipe: Recipe, streams: Streams
    ) -> None:
        super().__init__()
        linears = Linears(shape=shape, recipe=recipe, streams=streams)
        self.blocks = nn.ModuleList(
            Block(linears, feed_forward, context=training.context, block=block)
            for block in range(shape.num_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], BF16."""
        for block in self.blocks:
            x = block(x)
        return x


@dataclass(slots=True, kw_only=True)
class StackTrainee:
    """A stack in training; `step` is what is timed.

    Attributes:
        streams: Those of its layers.
        optimizer: Of its weights.
        forward: The stack, compiled or not.
        x: The batch, [B, T, C] BF16.
        steps: Taken so far.
    """

    streams: Streams
    optimizer: Optimizer
    forward: Callable[[Tensor], Tensor]
    x: Tensor
    steps: int = 0

    def step(self) -> None:
        """One optimizer step."""
        self.streams.move(step=self.steps)
        loss = self.forward(self.x).float().square().mean()
        torch.autograd.backward(loss)
        self.optimizer.clip()
        self.optimizer.update(TRAINING.learning_rate, skip=torch.zeros_like(loss))
        self.steps += 1


def stack_trainee(
    shape: ModelShape,
    training: Training,
    recipe: Recipe,
    device: torch.device,
    *,
    compiled: bool,
) -> StackTrainee:
    """A stack with drawn weights on a device, and its batch."""
    streams = Streams(sr=0, rht=0)
    generator = torch.Generator(device).manual_seed(0)
    with device:
        stack = Stack(shape, training, recipe, streams)
    with torch.no_grad():
        for weight in stack.parameters():
            if weight.ndim == 2:
                weight.normal_(std=weight.shape[1] ** -0.5, generator=generator)
    sequences = training.batch_tokens // training.context
    x = torch.randn(
        (sequences, training.context, shape.width),
        generator=generator,
        device=device,
        dtype=torch.bfloat16,
    )
    return StackTrainee(
        streams=streams,
        optimizer=Optimizer(stack, training),
        forward=torch.compile(stack) if compiled else stack,
        x=x,
    )


def bytes_needed(recipes: int) -> float:
    """Memory for the stacks of so many recipes, of which one at a time takes a step."""
    return recipes * BYTES_PER_PARAMETER * non_embedding_parameters(SHAPE) + ACTIVATIONS
