"""ModelShape: every dimension of a decoder, dense or with routed experts.

    dense   h += attention(norm h);  h += mlp(norm h)                                in each block
    moe     the same, but from block `dense_layers` on the MLP is a mixture of experts:
            h += shared(norm h) + sum of g_e(norm h) expert_e(norm h) over the `active` chosen e

Pre-norm RMSNorm, RoPE, QK-norm, no biases, untied head. Query heads share key and value heads in
equal groups (GQA). Standard library only: this also runs on a bare GPU node.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from sweeps.identity import LATER


class Mlp(StrEnum):
    """Feed-forward block: `swiglu` = down(silu(gate x) * up x), `relu2` = down(relu(up x)^2)."""

    SWIGLU = "swiglu"
    RELU2 = "relu2"


class Router(StrEnum):
    """How scores become gates: each expert's sigmoid, or a softmax over all experts."""

    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts; every expert is an MLP of the model's kind.

    Attributes:
        count: Routed experts of a block.
        active: How many of them a token passes.
        width: Inner width of one routed expert.
        shared_width: Inner width of the expert that every token passes; 0 for none.
        dense_layers: First blocks, which keep a dense MLP of the model's `mlp_width`.
        router: How scores become gates; those of the chosen experts are scaled to the sum 1.
        balance_rate: Step by which the bias of an expert moves against its load after each
            optimizer step (auxiliary-loss-free balancing, arXiv 2408.15664); 0 for no balancing.
    """

    count: int
    active: int
    width: int
    shared_width: int
    dense_layers: int = 0
    router: Router = Router.SIGMOID
    balance_rate: float = 0.01

    @property
    def passed_width(self) -> int:
        """Inner width of all that a token passes in a block with experts."""
        return self.shared_width + self.active * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Every dimension of a decoder.

    Attributes:
        name: What the user calls it; no part of the identity.
        num_layers: Blocks.
        width: Features of the residual stream.
        num_heads: Query heads.
        mlp_width: Inner width of a dense MLP.
        mlp: Kind of MLP, of experts too.
        num_kv_heads: Key and value heads, a divisor of `num_heads`; None for as many.
        head_size: Features of one head; None for width / heads.
        rope_base: Base of the rotation frequencies.
        experts: The mixture of experts; None for a dense model.
    """

    name: str
    num_layers: int
    width: int
    num_heads: int
    mlp_width: int
    mlp: Mlp = Mlp.SWIGLU
    num_kv_heads: int | None = field(default=None, metadata=LATER)
    head_size: int | None = field(default=None, metadata=LATER)
    rope_base: float = field(default=10_000.0, metadata=LATER)
    experts: Experts | None = field(default=None, metadata=LATER)

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.head_size or self.width // self.num_heads

    @property
    def query_width(self) -> int:
        """Features of all query heads, and of what the output projection takes."""
        return self.num_heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Features of all key heads, and of all value heads."""
        return (self.num_kv_heads or self.num_heads) * self.head_width
