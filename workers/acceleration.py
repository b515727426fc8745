"""Forward and backward of a microbatch, made faster where the device allows it.

    written   as the model says it                       on a CPU, or if acceleration is off
    graph     the same kernels, recorded once in a       on a GPU: dense, on one rank, and so small
              CUDA graph and replayed: the same bits     that launching kernels takes the time
    blocks    each block compiled by torch.compile,      on a GPU, else
              alike ones into one graph

A pass over t x d activations in 16 bits moves 4 t d bytes, at SMALL some 10 us of an H200's memory
(3.35 TB/s at least): about what Python takes to launch a kernel, so that below it the GPU waits.
Experts ask the host for their rows and peers talk between passes, which no graph can hold.

Random draws follow from words in memory that `Streams.move` changes in place, so that a recorded
pass draws anew. Compiled blocks keep the roundings between operations and choose their kernels by
rule, not by stopwatch, so that a run goes on with the same bits in another process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from kernels.recipe_module import RecipeModule
from sweeps.microbatches import microbatch_sequences
from sweeps.runspec import RunSpec
from workers.recording import Record, Recorded, cuda_graph

Pass = Callable[[Tensor], Tensor]
"""Windows [b, T + 1] on the device to their share of the loss, the gradients added to the weights'.

It does the same for windows of one shape, whatever their values.
"""

SMALL = 2**23
"""Tokens of a microbatch times width, at most which a pass is recorded."""

INDUCTOR: Mapping[str, Any] = MappingProxyType(
    {"options": {"emulate_precision_casts": True, "deterministic": True}}
)
"""How blocks are compiled."""


class Way(StrEnum):
    """How passes are carried out; see the module docstring."""

    WRITTEN = "written"
    GRAPH = "graph"
    BLOCKS = "blocks"


def way_of(spec: RunSpec, device: torch.device, *, ranks: int = 1) -> Way:
    """The fastest way for a run.

    Raises:
        InputError: If the spec's microbatches do not divide its batch.
    """
    if device.type != "cuda":
        return Way.WRITTEN
    elements = microbatch_sequences(spec) * spec.training.context * spec.model.width
    is_recorded = spec.model.experts is None and ranks == 1 and elements <= SMALL
    return Way.GRAPH if is_recorded else Way.BLOCKS


class Passes:
    """Carries out the passes of a model in training.

    It is made before peers share the weights out, which wrap compiled blocks and not the reverse.

    Args:
        model: Its blocks are its children `blocks`.
        run: One pass, as written.
        way: How to carry it out.
        ranks: Processes that train the model.
        record: How a pass is recorded.
        compiler: How blocks are compiled, as `torch.compile` takes it.
    """

    def __init__(
        self,
        model: nn.Module,
        run: Pass,
        way: Way,
        *,
        ranks: int = 1,
        record: Record = cuda_graph,
        compiler: Mapping[str, Any] = INDUCTOR,
    ) -> None:
        self._model, self._run, self._way, self._record = model, run, way, record
        self._is_alone = ranks == 1
        self._layers = [one for one in model.modules() if isinstance(one, RecipeModule)]
        self._recorded: Recorded | None = None
        self._is_written = way is Way.WRITTEN
        if way is Way.BLOCKS:
            _compile(tuple(model.get_submodule("blocks").children()), compiler)

    def __call__(self, windows: Tensor) -> Tensor:
        """One pass; its loss is to be read before the next.

        A probed pass goes as written. Where that rounds otherwise, it goes so beside the real one,
        since to look must change no number; peers, who take passes together, cannot do so.
        """
        if self._is_written:
            return self._run(windows)
        is_probed = any(layer.probe is not None for layer in self._layers)
        match self._way:
            case Way.GRAPH if not is_probed:
                return self._replayed(windows)
            case Way.BLOCKS if is_probed and self._is_alone:
                self._show(windows)
                with self._unseen():
                    return self._run(windows)
            case Way.BLOCKS if is_probed:
                with self.as_written():
                    return self._run(windows)
            case _:
                return self._run(windows)

    @contextmanager
    def as_written(self) -> Iterator[None]:
        """Carries passes out kernel by kernel, so that hooks of modules see them."""
        before, self._is_written = self._is_written, True
        is_compiled = self._way is Way.BLOCKS  # to ask the compiler would load it
        try:
            with torch.compiler.set_stance("force_eager") if is_compiled else nullcontext():
                yield
        finally:
            self._is_written = before

    def _replayed(self, windows: Tensor) -> Tensor:
        if self._recorded is None:
            self._recorded = Recorded(self._model, self._run, windows, record=self._record)
        return self._recorded(windows)

    def _show(self, windows: Tensor) -> None:
        """A pass for the probes alone: gradients and buffers are afterwards as they were."""
        weights, buffers = tuple(self._model.parameters()), tuple(self._model.buffers())
        gradients = [weight.grad for weight in weights]
        values = [buffer.clone() for buffer in buffers]
        for weight in weights:
            weight.grad = None
        with self.as_written():
            self._run(windows)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        for buffer, value in zip(buffers, values, strict=True):
            buffer.copy_(value)

    @contextmanager
    def _unseen(self) -> Iterator[None]:
        probes = [layer.probe for layer in self._layers]
        for layer in self._layers:
            layer.probe = None
        try:
            yield
        finally:
            for layer, probe in zip(self._layers, probes, strict=True):
                layer.probe = probe


def _compile(blocks: Sequence[nn.Module], compiler: Mapping[str, Any]) -> None:
    """Has each block compiled at its first pass; a graph serves all that are alike."""
    import torch._dynamo  # the compiler, which takes seconds to load

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, len(blocks))
    for block in blocks:
        block.compile(fullgraph=True, dynamic=False, **compiler)
