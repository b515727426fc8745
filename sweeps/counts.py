"""Parameters and FLOPs of a model, counted exactly and under one stated convention.

With width d, L layers, head width h, MLP width m, vocabulary V, context T:

    attention   4 d^2 L              query, key, value and output projections
    mlp         3 d m L  or  2 d m L swiglu (gate, up, down) or relu2 (up, down)
    norms       (2 d + 2 h) L + d    two RMSNorm gains a layer, query and key gains, the final norm
    embedding   V d                  input table
    head        V d                  untied output projection
    N         = attention + mlp + norms, the non-embedding parameters: what scaling laws take

    forward FLOPs per token = 2 (attention + mlp)        GEMMs of the blocks, quantizable
                            + 4 T d L                    scores and values, over the full context
                            + 2 V d                      logits
    FLOPs per token         = 3 x forward                backward = 2 x forward

The square of attention is counted whole, without the causal half, as PaLM and Chinchilla
(arXiv 2203.15556, appendix F) do; looking up an embedding is no FLOP, and neither softmax nor
norms are counted. Exact counts exceed 6 N by two thirds at 190M parameters and by more below.
"""

from dataclasses import dataclass
from functools import lru_cache

from kernels.operands import Operand
from kernels.recipes import Recipe
from sweeps.shapes import Mlp, ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameter counts in buckets, so that any convention can be had later."""

    embedding: int
    head: int
    attention: int
    mlp: int
    norms: int

    @property
    def non_embedding(self) -> int:
        """N."""
        return self.attention + self.mlp + self.norms

    @property
    def total(self) -> int:
        """All buckets."""
        return self.non_embedding + self.embedding + self.head


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One linear layer of the blocks: its name, as recipes' rules match it, and its two widths."""

    name: str
    in_features: int
    out_features: int

    @property
    def weights(self) -> int:
        """Elements of its matrix."""
        return self.in_features * self.out_features


@lru_cache(maxsize=16)  # asked for one recipe after the other
def linear_layers(shape: ModelShape) -> tuple[Linear, ...]:
    """Every linear layer of the blocks in the order of the forward pass."""
    d, m = shape.width, shape.mlp_width
    widths = {f"attention.{part}": (d, d) for part in ("query", "key", "value", "output")}
    match shape.mlp:
        case Mlp.SWIGLU:
            widths |= {"mlp.gate": (d, m), "mlp.up": (d, m), "mlp.down": (m, d)}
        case Mlp.RELU2:
            widths |= {"mlp.up": (d, m), "mlp.down": (m, d)}
    return tuple(
        Linear(name=f"blocks.{block}.{name}", in_features=inside, out_features=outside)
        for block in range(shape.num_layers)
        for name, (inside, outside) in widths.items()
    )


def count_parameters(shape: ModelShape, vocab_size: int) -> Parameters:
    """All buckets of a model with this vocabulary."""
    d, layers = shape.width, shape.num_layers
    matrices = {Mlp.SWIGLU: 3, Mlp.RELU2: 2}[shape.mlp]
    return Parameters(
        embedding=vocab_size * d,
        head=vocab_size * d,
        attention=4 * d * d * layers,
        mlp=matrices * d * shape.mlp_width * layers,
        norms=2 * (d + shape.head_width) * layers + d,
    )


def non_embedding_parameters(shape: ModelShape) -> int:
    """N: all parameters but the input embedding and the output head."""
    return count_parameters(shape, 0).non_embedding


def flops_per_token(shape: ModelShape, *, vocab_size: int, context: int) -> int:
    """Forward and backward FLOPs per training token at this context."""
    attention = 4 * context * shape.width * shape.num_layers
    return 3 * (_block_gemms(shape) + attention + 2 * vocab_size * shape.width)


def six_n_flops_per_token(shape: ModelShape) -> int:
    """The usual approximation 6 N, shown beside the exact count."""
    return 6 * non_embedding_parameters(shape)


def quantizable_share(shape: ModelShape, *, vocab_size: int, context: int) -> float:
    """Share of all FLOPs in GEMMs of the blocks: f in the bound 1 / ((1 - f) + f / s) on a speedup.

    The three GEMMs of a layer cost the same, so the share holds for each of them too.
    """
    total = flops_per_token(shape, vocab_size=vocab_size, context=context)
    return 3 * _block_gemms(shape) / total


def quantized_elements_per_token(shape: ModelShape, recipe: Recipe, *, batch_tokens: int) -> float:
    """Elements that a step rounds or transforms, per token of the step.

    Each operand with a grid counts once for rounding, and both of a GEMM once more where it has an
    RHT; weights are shared by the tokens of a step.
    """
    elements = 0.0
    for layer in linear_layers(shape):
        if not recipe.quantizes(layer.name, shape.num_layers):
            continue
        x, dy = float(layer.in_features), float(layer.out_features)
        w = layer.weights / batch_tokens
        for gemm, sizes in (
            (recipe.fprop, (x, w)),
            (recipe.dgrad, (dy, w)),
            (recipe.wgrad, (dy, x)),
        ):
            elements += sum(map(_rounded, (gemm.left, gemm.right), sizes))
            elements += 0.0 if gemm.rht is None else sum(sizes)
    return elements


def _rounded(operand: Operand, size: float) -> float:
    return 0.0 if operand.grid is None else size


def _block_gemms(shape: ModelShape) -> int:
    return 2 * sum(layer.weights for layer in linear_layers(shape))
