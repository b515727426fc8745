"""Which family a shape belongs to, and the model of a run."""

from kernels.recipes import Recipe
from kernels.streams import Streams
from sweeps.runspec import RunSpec
from sweeps.shapes import ModelShape
from workers.models import dense, moe
from workers.models.decoder import Decoder, FeedForward


def family(shape: ModelShape) -> FeedForward:
    """What follows attention in the blocks of a model of this shape."""
    return dense.feed_forward if shape.experts is None else moe.feed_forward


def make(
    shape: ModelShape,
    *,
    vocab_size: int,
    context: int,
    recipe: Recipe,
    streams: Streams,
    checkpoints: bool = False,
) -> Decoder:
    """A model of any family, its weights not drawn yet.

    Args:
        shape: Its dimensions.
        vocab_size: Rows of the embedding and of the head.
        context: Positions of the longest sequence.
        recipe: What its linear layers follow.
        streams: Of their random draws.
        checkpoints: Whether a block keeps its input alone for backward, and runs twice.
    """
    return Decoder(
        shape,
        family(shape),
        vocab_size=vocab_size,
        context=context,
        recipe=recipe,
        streams=streams,
        checkpoints=checkpoints,
    )


def build(spec: RunSpec, streams: Streams, *, checkpoints: bool = False) -> Decoder:
    """The model of a run; other arguments as in `make`."""
    return make(
        spec.model,
        vocab_size=spec.tokenizer.vocab_size,
        context=spec.training.context,
        recipe=spec.recipe,
        streams=streams,
        checkpoints=checkpoints,
    )
