"""Parameters and FLOPs of a model, counted exactly and under one stated convention.

Width d, L blocks, H query heads and K key heads of width h, MLP width m, vocabulary V, context T;
k matrices of an MLP, 3 of swiglu and 2 of relu2. Of a model with experts the first F blocks are
dense; in the others E experts of width e, of which a token passes A, one of width s for all, and a
router. A dense model has F = L.

    attention   2 (H + K) h d L                  query and output, key and value
    mlp         k d (m F + (s + E e) (L - F))    gate, up and down, or up and down
    router      E d (L - F)
    norms       (2 d + 2 h) L + d                two gains a block, query and key gains, the last
    embedding   V d                              input table
    head        V d                              untied output projection
    N         = attention + mlp + router + norms, the non-embedding parameters
    active    : the same with A in the place of E in mlp, what a token passes

    forward FLOPs per token = 2 (attention + active mlp)   GEMMs of the blocks, quantizable
                            + 2 router
                            + 4 T H h L                    scores and values, over the full context
                            + 2 V d                        logits
    FLOPs per token         = 3 x forward                  backward = 2 x forward

The square of attention is counted whole, without the causal half, as PaLM and Chinchilla
(arXiv 2203.15556, appendix F) do; looking up an embedding is no FLOP, and neither softmax nor
norms are counted, nor the zero rows that fill up the blocks of an expert's tokens. Exact counts
exceed 6 N by two thirds at 190M parameters and by more below.
"""

from dataclasses import dataclass
from functools import lru_cache

from sweeps.shapes import Mlp, ModelShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameter counts in buckets, so that any convention can be had later."""

    embedding: int
    head: int
    attention: int
    mlp: int
    router: int
    norms: int

    @property
    def non_embedding(self) -> int:
        """N."""
        return self.attention + self.mlp + self.router + self.norms

    @property
    def total(self) -> int:
        """All buckets."""
        return self.non_embedding + self.embedding + self.head


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One linear layer of the blocks that a recipe may quantize, or a stack of experts' layers.

    Attributes:
        name: As recipes' rules match it.
        in_features: Of one layer.
        out_features: Of one layer.
        stack: Experts that it holds a layer of; 1 where there are none.
        active: Layers of the stack that a token passes.
    """

    name: str
    in_features: int
    out_features: int
    stack: int = 1
    active: int = 1

    @property
    def block(self) -> int:
        """The block that it is in, counted from 0."""
        return int(self.name.split(".")[1])

    @property
    def weights(self) -> int:
        """Elements of all its matrices."""
        return self.in_features * self.out_features * self.stack

    @property
    def active_weights(self) -> int:
        """Elements of the matrices that a token passes."""
        return self.in_features * self.out_features * self.active


def is_dense(shape: ModelShape, block: int) -> bool:
    """Whether a block has one MLP for all tokens."""
    return shape.experts is None or block < shape.experts.dense_layers


@lru_cache(maxsize=256)  # asked for one recipe after the other
def linear_layers(shape: ModelShape) -> tuple[Linear, ...]:
    """Every quantizable linear layer of the blocks in the order of the forward pass."""
    attention, dense, mixed = _attention(shape), _mlp(shape, shape.mlp_width), _mixture(shape)
    return tuple(
        Linear(
            name=f"blocks.{block}.{one.name}",
            in_features=one.in_features,
            out_features=one.out_features,
            stack=one.stack,
            active=one.active,
        )
        for block in range(shape.num_layers)
        for one in (*attention, *(dense if is_dense(shape, block) else mixed))
    )


def count_parameters(shape: ModelShape, vocab_size: int) -> Parameters:
    """All buckets of a model with this vocabulary."""
    return _parameters(shape, vocab_size, sum(one.weights for one in linear_layers(shape)))


def active_parameters(shape: ModelShape, vocab_size: int) -> Parameters:
    """The buckets that a token passes: all of a dense model, a few experts of the others."""
    active = sum(one.active_weights for one in linear_layers(shape))
    return _parameters(shape, vocab_size, active)


def non_embedding_parameters(shape: ModelShape) -> int:
    """N: all parameters but the input embedding and the output head, every expert among them."""
    return count_parameters(shape, 0).non_embedding


def active_non_embedding_parameters(shape: ModelShape) -> int:
    """N without the experts that a token does not pass."""
    return active_parameters(shape, 0).non_embedding


def flops_per_token(shape: ModelShape, *, vocab_size: int, context: int) -> int:
    """Forward and backward FLOPs per training token at this context."""
    passed = active_parameters(shape, vocab_size)
    products = passed.attention + passed.mlp + passed.router + passed.head
    return 3 * (2 * products + 4 * context * shape.query_width * shape.num_layers)


def six_n_flops_per_token(shape: ModelShape) -> int:
    """The usual approximation 6 N, of the active N, shown beside the exact count."""
    return 6 * active_non_embedding_parameters(shape)


def _parameters(shape: ModelShape, vocab_size: int, linears: int) -> Parameters:
    d, layers = shape.width, shape.num_layers
    attention = sum(one.weights for one in _attention(shape)) * layers
    mixtures = sum(not is_dense(shape, block) for block in range(layers))
    experts = 0 if shape.experts is None else shape.experts.count
    return Parameters(
        embedding=vocab_size * d,
        head=vocab_size * d,
        attention=attention,
        mlp=linears - attention,
        router=experts * d * mixtures,
        norms=2 * (d + shape.head_width) * layers + d,
    )


def _attention(shape: ModelShape) -> tuple[Linear, ...]:
    d, queries, keys = shape.width, shape.query_width, shape.kv_width
    return (
        Linear(name="attention.query", in_features=d, out_features=queries),
        Linear(name="attention.key", in_features=d, out_features=keys),
        Linear(name="attention.value", in_features=d, out_features=keys),
        Linear(name="attention.output", in_features=queries, out_features=d),
    )


def _mixture(shape: ModelShape) -> tuple[Linear, ...]:
    if (experts := shape.experts) is None:
        return ()
    shared = _mlp(shape, experts.shared_width, "shared.") if experts.shared_width else ()
    routed = _mlp(shape, experts.width, "experts.", stack=experts.count, active=experts.active)
    return (*shared, *routed)


def _mlp(
    shape: ModelShape, inner: int, part: str = "", *, stack: int = 1, active: int = 1
) -> tuple[Linear, ...]:
    d = shape.width
    match shape.mlp:
        case Mlp.SWIGLU:
            widths = {"gate": (d, inner), "up": (d, inner), "down": (inner, d)}
        case Mlp.RELU2:
            widths = {"up": (d, inner), "down": (inner, d)}
    return tuple(
        Linear(
            name=f"mlp.{part}{name}",
            in_features=inside,
            out_features=outside,
            stack=stack,
            active=active,
        )
        for name, (inside, outside) in widths.items()
    )
