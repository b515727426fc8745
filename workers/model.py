"""The model: a dense decoder whose linear layers follow a recipe.

    h = embedding[token]
    h = h + output(attention(query(norm h), key(norm h), value(norm h)))       in each block
    h = h + mlp(norm h)         swiglu: down(silu(gate x) * up x)       relu2: down(relu(up x)^2)
    logits = head(norm h)

Pre-norm RMSNorm with a gain; queries and keys are RMS-normed over each head and then rotated
(RoPE, pair (2i, 2i + 1) turned by position * 10000^(-2i / D)); causal softmax attention; no
biases; head and embedding untied. Linear layers in the blocks are `QuantLinear` under the recipe,
but for those that it exempts and the head, which stay in its carrier, BF16 or FP16; embedding,
norms and attention are never quantized. Activations between layers are of the carrier; logits are
rounded to it like every product and leave as FP32; weights are FP32.

Init, width-aware, from one generator: N(0, 1 / fan_in) for linear layers, those that write into the
residual stream divided by sqrt(2 * layers), the head N(0, 1 / width^2) so that the first loss is
ln(vocabulary), the embedding N(0, 1).

Axes: B sequences, T positions, C width, H heads, D features of a head.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from kernels.checkpointing import checkpointed
from kernels.linear import QuantLinear
from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.shapes import Mlp, ModelShape

ROPE_BASE = 10_000.0
EPSILON = 1e-6


class RMSNorm(nn.Module):
    """x / rms(x) * gain over the last axis, in FP32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] of any floating type to FP32 [..., width]."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight, EPSILON)


def rotations(context: int, width: int) -> Tensor:
    """The unit complex numbers [context, 1, width / 2] by which pairs are multiplied."""
    half = width // 2
    frequency = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(context, dtype=torch.float64), frequency)
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64)[:, None]


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Turn the pairs of FP32 [B, T, H, D] by [T, 1, D / 2], one complex product for each pair."""
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal softmax attention over 16-bit [B, H, T, D].

    A CPU without 16-bit units is several times faster on the same values held in FP32.
    """
    if q.is_cuda:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    return y.to(q.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linears:
    """Makes the linear layers of the blocks, each under what the recipe says of it.

    Attributes:
        shape: Of the model.
        recipe: Of the model.
        streams: Shared by all layers.
    """

    shape: ModelShape
    recipe: Recipe
    streams: Streams

    def __call__(self, name: str, in_features: int, out_features: int) -> QuantLinear:
        """The layer of a name such as `blocks.0.mlp.down`."""
        quantized = self.recipe.quantizes(name, self.shape.num_layers)
        recipe = self.recipe if quantized else self.recipe.unquantized()
        return QuantLinear(
            in_features, out_features, recipe=recipe, name=name, streams=self.streams
        )


class Attention(nn.Module):
    """Multi-head causal attention with QK-norm and RoPE."""

    turns: Tensor

    def __init__(self, linear: Linears, context: int, name: str) -> None:
        super().__init__()
        width, self._heads = linear.shape.width, linear.shape.num_heads
        head_width = linear.shape.head_width
        self.query = linear(f"{name}.query", width, width)
        self.key = linear(f"{name}.key", width, width)
        self.value = linear(f"{name}.value", width, width)
        self.output = linear(f"{name}.output", width, width)
        self.query_norm = RMSNorm(head_width)
        self.key_norm = RMSNorm(head_width)
        self.register_buffer("turns", rotations(context, head_width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        B, T, C = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(B, T, self._heads, -1)

        q = rotate(self.query_norm(heads(self.query(x))), self.turns[:T]).to(x.dtype)
        k = rotate(self.key_norm(heads(self.key(x))), self.turns[:T]).to(x.dtype)
        v = heads(self.value(x))
        y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        mixed: Tensor = self.output(y.transpose(1, 2).reshape(B, T, C))
        return mixed


class SwiGlu(nn.Module):
    """down(silu(gate x) * up x)."""

    def __init__(self, linear: Linears, name: str) -> None:
        super().__init__()
        width, inner = linear.shape.width, linear.shape.mlp_width
        self.gate = linear(f"{name}.gate", width, inner)
        self.up = linear(f"{name}.up", width, inner)
        self.down = linear(f"{name}.down", inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        y: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return y


class SquaredRelu(nn.Module):
    """down(relu(up x)^2)."""

    def __init__(self, linear: Linears, name: str) -> None:
        super().__init__()
        width, inner = linear.shape.width, linear.shape.mlp_width
        self.up = linear(f"{name}.up", width, inner)
        self.down = linear(f"{name}.down", inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        y: Tensor = self.down(self.up(x).relu().square())
        return y


class Block(nn.Module):
    """Attention and MLP, each after a norm and added to the residual stream."""

    def __init__(self, linear: Linears, context: int, name: str) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(linear.shape.width)
        self.attention = Attention(linear, context, f"{name}.attention")
        self.mlp_norm = RMSNorm(linear.shape.width)
        mlp = {Mlp.SWIGLU: SwiGlu, Mlp.RELU2: SquaredRelu}[linear.shape.mlp]
        self.mlp = mlp(linear, f"{name}.mlp")

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        x = x + self.attention(self.attention_norm(x).to(x.dtype))
        y: Tensor = x + self.mlp(self.mlp_norm(x).to(x.dtype))
        return y


class Decoder(nn.Module):
    """The whole model: token ids to logits."""

    def __init__(
        self,
        shape: ModelShape,
        vocab_size: int,
        context: int,
        recipe: Recipe,
        streams: Streams,
        *,
        checkpoints: bool = False,
    ) -> None:
        """Makes the model; with `checkpoints` a block keeps its input alone and runs twice."""
        super().__init__()
        self._streams, self._checkpoints = streams, checkpoints
        linear = Linears(shape=shape, recipe=recipe, streams=streams)
        self.embedding = nn.Embedding(vocab_size, shape.width)
        self.blocks = nn.ModuleList(
            Block(linear, context, f"blocks.{index}") for index in range(shape.num_layers)
        )
        self.norm = RMSNorm(shape.width)
        self.head = QuantLinear(
            shape.width, vocab_size, recipe=recipe.unquantized(), name="head", streams=streams
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Ids [B, T] to FP32 logits [B, T, vocabulary]."""
        x = self.embedding(tokens).to(self.head.carrier)
        for block in self.blocks:
            x = checkpointed(block, self._streams, x) if self._checkpoints else block(x)
        logits: Tensor = self.head(self.norm(x).to(x.dtype))
        return logits.float()

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw all weights afresh from a generator of their own."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.ndim == 1:
                weight.fill_(1.0)
            else:
                drawn = torch.randn(weight.shape, generator=generator)
                weight.copy_(drawn * self._deviation(name, weight))

    def _deviation(self, name: str, weight: Tensor) -> float:
        match name.split(".")[-2]:
            case "embedding":
                return 1.0
            case "head":
                return 1 / weight.shape[1]
            case "output" | "down":
                return 1 / math.sqrt(weight.shape[1] * 2 * len(self.blocks))
            case _:
                return 1 / math.sqrt(weight.shape[1])
