"""Attention of a block: causal, with QK-norm, RoPE and key and value heads shared in groups (GQA).

    output(attend(turn(norm(query x)), turn(norm(key x)), value x))

Queries and keys are RMS-normed over each head and then rotated. Axes: B sequences, T positions,
C width, H query heads, G key and value heads, D features of a head.
"""

from torch import Tensor, nn

from workers.layers.attention import attend
from workers.layers.norm import RMSNorm, rms_norm
from workers.layers.rotary import rotations
from workers.models.linears import Linears


class Attention(nn.Module):
    """Its four projections and two norms."""

    turns: Tensor

    def __init__(self, linears: Linears, context: int, name: str) -> None:
        super().__init__()
        shape = linears.shape
        self._head_width = shape.head_width
        self.query = linears.one(f"{name}.query", shape.width, shape.query_width)
        self.key = linears.one(f"{name}.key", shape.width, shape.kv_width)
        self.value = linears.one(f"{name}.value", shape.width, shape.kv_width)
        self.output = linears.one(f"{name}.output", shape.query_width, shape.width)
        self.query_norm = RMSNorm(shape.head_width)
        self.key_norm = RMSNorm(shape.head_width)
        turns = rotations(context, shape.head_width, shape.rope_base)
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, C] to [B, T, C], of the carrier."""
        batch, positions, _ = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(batch, positions, -1, self._head_width)

        turns = self.turns[:positions]
        q = rms_norm(heads(self.query(x)), self.query_norm.weight, turns)
        k = rms_norm(heads(self.key(x)), self.key_norm.weight, turns)
        y = attend(q, k, heads(self.value(x)))
        mixed: Tensor = self.output(y.reshape(batch, positions, -1))
        return mixed
