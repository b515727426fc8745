"""The model: a decoder whose linear layers follow a recipe.

    h = embedding[token]
    h = h + output(attention(query(norm h), key(norm h), value(norm h)))       in each block
    h = h + feed_forward(norm h)                                               as its family says
    logits = head(norm h)

Pre-norm RMSNorm with a gain; no biases; head and embedding untied. Linear layers in the blocks, of
experts too, follow the recipe, but for those that it exempts and the head, which stay in its
carrier, BF16 or FP16; embedding, norms, routers and attention are never quantized. Activations
between layers are of the carrier, and logits too, since they are rounded like every product;
weights are FP32.

Init, width-aware, from one generator: N(0, 1 / fan_in) for linear layers, those that write into the
residual stream divided by sqrt(2 * layers), the head N(0, 1 / width^2) so that the first loss is
ln(vocabulary), the embedding N(0, 1).

Axes: B sequences, T positions, C width.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from kernels.checkpointing import checkpointed
from kernels.linear import QuantLinear
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.shapes import ModelShape
from workers.layers.norm import RMSNorm
from workers.models.attention import Attention
from workers.models.linears import Linears
from workers.models.router import Router
from workers.shards import fill

FeedForward = Callable[[Linears, int], nn.Module]
"""A family: what follows attention in a block, counted from 0; [B, T, C] to [B, T, C]."""


class Block(nn.Module):
    """Attention and the family's network, each after a norm and added to the residual stream."""

    def __init__(
        self, linears: Linears, feed_forward: FeedForward, *, context: int, block: int
    ) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(linears.shape.width)
        self.attention = Attention(linears, context, f"blocks.{block}.attention")
        self.mlp_norm = RMSNorm(linears.shape.width)
        self.mlp = feed_forward(linears, block)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        x = x + self.attention(self.attention_norm(x))
        y: Tensor = x + self.mlp(self.mlp_norm(x))
        return y


class Decoder(nn.Module):
    """The whole model: token ids to logits."""

    def __init__(
        self,
        shape: ModelShape,
        feed_forward: FeedForward,
        *,
        vocab_size: int,
        context: int,
        recipe: Recipe,
        streams: Streams,
        checkpoints: bool = False,
    ) -> None:
        """Makes the model; with `checkpoints` a block keeps its input alone and runs twice."""
        super().__init__()
        self._streams, self._checkpoints = streams, checkpoints
        linears = Linears(shape=shape, recipe=recipe, streams=streams)
        self.embedding = nn.Embedding(vocab_size, shape.width)
        self.blocks = nn.ModuleList(
            Block(linears, feed_forward, context=context, block=block)
            for block in range(shape.num_layers)
        )
        self.norm = RMSNorm(shape.width)
        self.head = QuantLinear(
            shape.width, vocab_size, recipe=recipe.unquantized(), name="head", streams=streams
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Ids [B, T] to logits [B, T, vocabulary], of the carrier."""
        x = self.embedding(tokens).to(self.head.carrier)
        for block in self.blocks:
            x = checkpointed(block, self._streams, x) if self._checkpoints else block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw all weights afresh from a generator of their own."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.ndim == 1:
                weight.fill_(1.0)
            else:
                drawn = torch.randn(weight.shape, generator=generator)
                fill(weight, drawn * self._deviation(name, weight))
        for router in self._routers().values():
            router.restart()

    def balance(self, summed: Callable[[Tensor], Tensor] = lambda load: load) -> Tensor | None:
        """Move the bias of every router by its load since this was called last.

        Args:
            summed: Adds a tensor up over the ranks that share a step's microbatches.

        Returns:
            Largest load of an expert / mean load, in the block where that is worst: FP32 without
            axes; None for a model without routers.
        """
        routers = self._routers()
        if not routers:
            return None
        loads = summed(torch.stack([router.load for router in routers.values()]))
        for router, load in zip(routers.values(), loads, strict=True):
            router.balance(load)
        # A mean of zero is that of a step without tokens, as before the first.
        worst = loads.amax(1) / loads.float().mean(1).clamp_min(torch.finfo(torch.float32).tiny)
        return worst.amax()

    def kept(self) -> dict[str, Tensor]:
        """What a run goes on from beside its parameters, by name; empty without routers."""
        return {f"{name}.bias": router.bias for name, router in self._routers().items()}

    def _routers(self) -> dict[str, Router]:
        return {name: each for name, each in self.named_modules() if isinstance(each, Router)}

    def _deviation(self, name: str, weight: Tensor) -> float:
        fan_in = weight.shape[-1]
        match name.split(".")[-2]:
            case "embedding":
                return 1.0
            case "head":
                return 1 / fan_in
            case "output" | "down":
                return 1 / math.sqrt(fan_in * 2 * len(self.blocks))
            case _:
                return 1 / math.sqrt(fan_in)
