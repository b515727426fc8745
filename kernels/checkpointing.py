"""Gradient checkpointing: a part of a model keeps only its inputs, and runs again for backward.

The second run draws what the first one drew, so that gradients are the same to the bit: where the
streams have moved on in between, as with several microbatches in flight, they go back for it and
return. A compiled graph cannot move them: if they have moved on by then, its backward fails, for
words that it needs have changed. There, checkpoint around compiled parts.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kernels.streams import Streams


def checkpointed(part: Callable[..., Tensor], streams: Streams, *inputs: Any) -> Tensor:
    """What the part makes of its inputs, with nothing kept within it for backward.

    Args:
        part: A module or function of the inputs, whose only random numbers are those of the
            streams.
        streams: Of its layers.
        inputs: Tensors, and whatever else it takes.
    """
    run = partial(checkpoint, part, *inputs, use_reentrant=False, preserve_rng_state=False)
    if torch.compiler.is_compiling():
        output: Tensor = run()
    else:
        output = run(context_fn=partial(_contexts, streams, streams.step, streams.microbatch))
    return output


_Contexts = tuple[AbstractContextManager[None], AbstractContextManager[None]]


def _contexts(streams: Streams, step: int, microbatch: int) -> _Contexts:
    """Of the first run and of the second."""
    return nullcontext(), _back_at(streams, step, microbatch)


@contextmanager
def _back_at(streams: Streams, step: int, microbatch: int) -> Iterator[None]:
    now = streams.step, streams.microbatch
    streams.move(step=step, microbatch=microbatch)
    try:
        yield
    finally:
        streams.move(step=now[0], microbatch=now[1])
