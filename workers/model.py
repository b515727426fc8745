"""The model: a dense decoder whose linear layers follow a recipe.

    h = embedding[token]
    h = h + output(attention(query(norm h), key(norm h), value(norm h)))       in each block
    h = h + mlp(norm h)         swiglu: down(silu(gate x) * up x)       relu2: down(relu(up x)^2)
    logits = head(norm h)

Pre-norm RMSNorm with a gain; queries and keys are RMS-normed over each head and then rotated
(RoPE, pair (2i, 2i + 1) turned by position * 10000^(-2i / D)); causal softmax attention; no
biases; head and embedding untied. Linear layers in the blocks are `QuantLinear` under the recipe,
the head is one in BF16; embedding, norms and attention are never quantized. Activations between
layers are BF16; logits are rounded to BF16 like every product and leave as FP32; weights are FP32.

Init, width-aware, from one generator: N(0, 1 / fan_in) for linear layers, those that write into the
residual stream divided by sqrt(2 * layers), the head N(0, 1 / width^2) so that the first loss is
ln(vocabulary), the embedding N(0, 1).

Axes: B sequences, T positions, C width, H heads, D features of a head.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from kernels.linear import QuantLinear, Streams
from kernels.recipes import BF16_RECIPE, Recipe
from sweeps.runspec import Mlp, ModelShape

ROPE_BASE = 10_000.0
EPSILON = 1e-6


class RMSNorm(nn.Module):
    """x / rms(x) * gain over the last axis, in FP32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """BF16 or FP32 [..., width] to FP32 [..., width]."""
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
    """Causal softmax attention over BF16 [B, H, T, D].

    A CPU without BF16 units is several times faster on the same values held in FP32.
    """
    if q.is_cuda:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    return y.bfloat16()


class Attention(nn.Module):
    """Multi-head causal attention with QK-norm and RoPE."""

    turns: Tensor

    def __init__(
        self, shape: ModelShape, context: int, recipe: Recipe, name: str, streams: Streams
    ) -> None:
        super().__init__()
        self._heads = shape.num_heads

        def linear(part: str) -> QuantLinear:
            full = f"{name}.{part}"
            return QuantLinear(shape.width, shape.width, recipe=recipe, name=full, streams=streams)

        self.query = linear("query")
        self.key = linear("key")
        self.value = linear("value")
        self.output = linear("output")
        self.query_norm = RMSNorm(shape.head_width)
        self.key_norm = RMSNorm(shape.head_width)
        self.register_buffer("turns", rotations(context, shape.head_width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """BF16 [B, T, C] to BF16 [B, T, C]."""
        B, T, C = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(B, T, self._heads, -1)

        q = rotate(self.query_norm(heads(self.query(x))), self.turns[:T]).bfloat16()
        k = rotate(self.key_norm(heads(self.key(x))), self.turns[:T]).bfloat16()
        v = heads(self.value(x))
        y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        mixed: Tensor = self.output(y.transpose(1, 2).reshape(B, T, C))
        return mixed


class SwiGlu(nn.Module):
    """down(silu(gate x) * up x)."""

    def __init__(self, shape: ModelShape, recipe: Recipe, name: str, streams: Streams) -> None:
        super().__init__()
        width, inner = shape.width, shape.mlp_width
        self.gate = QuantLinear(width, inner, recipe=recipe, name=f"{name}.gate", streams=streams)
        self.up = QuantLinear(width, inner, recipe=recipe, name=f"{name}.up", streams=streams)
        self.down = QuantLinear(inner, width, recipe=recipe, name=f"{name}.down", streams=streams)

    def forward(self, x: Tensor) -> Tensor:
        """BF16 [B, T, C] to BF16 [B, T, C]."""
        y: Tensor = self.down(functional.silu(self.gate(x)) * self.up(x))
        return y


class SquaredRelu(nn.Module):
    """down(relu(up x)^2)."""

    def __init__(self, shape: ModelShape, recipe: Recipe, name: str, streams: Streams) -> None:
        super().__init__()
        width, inner = shape.width, shape.mlp_width
        self.up = QuantLinear(width, inner, recipe=recipe, name=f"{name}.up", streams=streams)
        self.down = QuantLinear(inner, width, recipe=recipe, name=f"{name}.down", streams=streams)

    def forward(self, x: Tensor) -> Tensor:
        """BF16 [B, T, C] to BF16 [B, T, C]."""
        y: Tensor = self.down(self.up(x).relu().square())
        return y


class Block(nn.Module):
    """Attention and MLP, each after a norm and added to the residual stream."""

    def __init__(
        self, shape: ModelShape, context: int, recipe: Recipe, name: str, streams: Streams
    ) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(shape.width)
        self.attention = Attention(shape, context, recipe, f"{name}.attention", streams)
        self.mlp_norm = RMSNorm(shape.width)
        mlp = {Mlp.SWIGLU: SwiGlu, Mlp.RELU2: SquaredRelu}[shape.mlp]
        self.mlp = mlp(shape, recipe, f"{name}.mlp", streams)

    def forward(self, x: Tensor) -> Tensor:
        """BF16 [B, T, C] to BF16 [B, T, C]."""
        x = x + self.attention(self.attention_norm(x).bfloat16())
        y: Tensor = x + self.mlp(self.mlp_norm(x).bfloat16())
        return y


class Decoder(nn.Module):
    """The whole model: token ids to logits."""

    def __init__(
        self, shape: ModelShape, vocab_size: int, context: int, recipe: Recipe, streams: Streams
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, shape.width)
        self.blocks = nn.ModuleList(
            Block(shape, context, recipe, f"blocks.{index}", streams)
            for index in range(shape.num_layers)
        )
        self.norm = RMSNorm(shape.width)
        self.head = QuantLinear(
            shape.width, vocab_size, recipe=BF16_RECIPE, name="head", streams=streams
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Ids [B, T] to FP32 logits [B, T, vocabulary]."""
        x = self.embedding(tokens).bfloat16()
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x).bfloat16())
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
