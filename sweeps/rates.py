"""How fast a run will go on this machine: what was measured before, else a model of the cost.

    seconds per token = FLOPs per token / FLOPS_PER_SECOND
                      + quantized elements per token / ELEMENTS_PER_SECOND
                      + LAYER_SECONDS * linear layers / tokens of a microbatch

for one slot of one core, divided by the ranks of a run, and RUN_SECONDS for each run. Of routed
experts the FLOPs are those that a token passes, and each expert's matrix is a layer. The constants
are a least-squares fit of relative errors to the processor time of 28 steps of models from 50k to
4M parameters (dense and moe, 16-bit, 8-bit and 4-bit recipes, 512 to 8192 tokens) on one Zen 4 core
with AVX512-BF16, each within 25 % of it; a core without those instructions is several times slower.
When runs of other kinds were measured here, the model is corrected by the median ratio of measured
to modelled time, so that another machine is believed at once.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from kernels.recipes import Recipe
from sweeps.counts import flops_per_token, linear_layers
from sweeps.microbatches import microbatch_sequences
from sweeps.quantized_work import quantized_elements_per_token
from sweeps.records import RunRecord
from sweeps.runspec import RunSpec
from sweeps.shapes import ModelShape
from sweeps.training import OptimizerKind

FLOPS_PER_SECOND = 1.3e11
"""BF16 GEMMs and attention of small models on one core, everything between them included."""

ELEMENTS_PER_SECOND = 7e8
"""Elements scaled, rounded or transformed on one core by the CPU kernels."""

LAYER_SECONDS = 3e-4
"""What a linear layer costs a microbatch whatever its size: the calls of its three GEMMs, and of
what lies between layers."""

RUN_SECONDS = 6.0
"""Starting a worker: a process, torch, the corpus."""

EVAL_COST = 2 / 3
"""Cost of an evaluation token in training tokens: two forward passes, without backward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What decides the speed of a run; names are left empty."""

    model: ModelShape
    recipe: Recipe
    vocab_size: int
    context: int
    batch_tokens: int
    microbatch_tokens: int | None
    optimizer: OptimizerKind
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Training speed by kind of run, and how many run at once.

    Attributes:
        measured: Tokens per second of one slot.
        slots: Runs carried out at the same time.
        correction: Measured over modelled seconds, for kinds never measured.
    """

    measured: Mapping[Kind, float] = field(default_factory=dict)
    slots: int = 1
    correction: float = 1.0

    def tokens_per_second(self, spec: RunSpec) -> float:
        """Training speed of a run in one slot."""
        known = self.measured.get(kind_of(spec))
        return known or 1 / (modelled_seconds_per_token(spec) * self.correction)


def rates_from(records: Iterable[RunRecord], *, slots: int) -> Rates:
    """Rates out of the training curves of earlier runs on this machine."""
    speeds: dict[Kind, list[float]] = {}
    specs: dict[Kind, RunSpec] = {}
    for record in records:
        kind = kind_of(record.spec)
        speeds.setdefault(kind, []).extend(
            point.tokens_per_second for point in record.curve if point.tokens_per_second > 0
        )
        specs[kind] = record.spec
    measured = {kind: median(values) for kind, values in speeds.items() if values}
    ratios = [
        1 / speed / modelled_seconds_per_token(specs[kind]) for kind, speed in measured.items()
    ]
    return Rates(measured=measured, slots=slots, correction=median(ratios) if ratios else 1.0)


def kind_of(spec: RunSpec) -> Kind:
    """The run's kind."""
    return Kind(
        model=replace(spec.model, name=""),
        recipe=replace(spec.recipe, name=""),
        vocab_size=spec.tokenizer.vocab_size,
        context=spec.training.context,
        batch_tokens=spec.training.batch_tokens,
        microbatch_tokens=spec.training.microbatch_tokens,
        optimizer=spec.training.optimizer,
        gpus=spec.resources.gpus,
    )


def modelled_seconds_per_token(spec: RunSpec) -> float:
    """The module's formula for one run."""
    shape, context = spec.model, spec.training.context
    tokens = microbatch_sequences(spec) * context
    flops = flops_per_token(shape, vocab_size=spec.tokenizer.vocab_size, context=context)
    elements = quantized_elements_per_token(shape, spec.recipe, tokens=tokens)
    layers = sum(layer.stack for layer in linear_layers(shape))
    seconds = flops / FLOPS_PER_SECOND + elements / ELEMENTS_PER_SECOND
    return (seconds + LAYER_SECONDS * layers / tokens) / spec.resources.gpus


def makespan(seconds: Iterable[float], slots: int) -> float:
    """Seconds until all jobs are done when each free slot takes the next in order."""
    ends = [0.0] * slots
    for job in seconds:
        heapq.heapreplace(ends, ends[0] + job)
    return max(ends)
