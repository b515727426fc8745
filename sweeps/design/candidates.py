"""Cells that could be run next: models of a ladder, each at several D/N, by the sweep's own rules.

    models   those of the sweep, and the ladder of their family from the smallest of the sweep (or
             30M, if that is smaller) up to the N asked about, or so many times it
    D / N    the sweep's own budgets, that of the place asked about, and 10, 20, 40 ... 640, each at
             least a quarter from those before it
    D        whole steps of the batch that the sweep's rules give; at least ten warm-ups

Shorter or smaller runs are cheap, and a design that trusts a law everywhere asks for nothing else;
but their losses still hold warm-up and the beginning of training, which no law describes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

from sweeps.budget import Budget, parse_budget
from sweeps.counts import flops_per_token, non_embedding_parameters
from sweeps.design.wanted import Place
from sweeps.families import dense, moe
from sweeps.horizons import Horizon, distinct, horizons_of
from sweeps.shapes import ModelShape
from sweeps.spec import SweepSpec
from sweeps.training import Training

RATIOS = (10, 20, 40, 80, 160, 320, 640)
LEAST_RATIO = 10
SPACING = 1.25
SMALLEST = 30e6
"""Parameters below which a ladder is not carried on, unless the sweep is."""

WARMUPS = 10
"""Warm-ups that a run holds at least: they end within its first tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A cell that could be run.

    Attributes:
        shape: The model.
        N: Its non-embedding parameters.
        horizon: Budget, tokens and training.
        flops_per_token: Forward and backward.
    """

    shape: ModelShape
    N: int
    horizon: Horizon
    flops_per_token: int

    @property
    def D(self) -> int:
        """Training tokens."""
        return self.horizon.tokens

    @property
    def training(self) -> Training:
        """Optimizer, schedule and batch."""
        return self.horizon.training


def candidates(spec: SweepSpec, place: Place, times: float = 1.0) -> tuple[Candidate, ...]:
    """Cells that may be suggested, ascending in N and D; each (N, D) once.

    Args:
        spec: Of the sweep, whose rules they follow.
        place: What is asked about lies here.
        times: How far above its N the ladder may go on.
    """
    found: dict[tuple[int, int], Candidate] = {}
    for shape in _shapes(spec, times * place.N):
        for one in _of_shape(spec, shape, place):
            found.setdefault((one.N, one.D), one)
    return tuple(found[key] for key in sorted(found))


def _shapes(spec: SweepSpec, largest: float) -> Iterator[ModelShape]:
    own = spec.shapes()
    yield from own
    sizes = set(map(non_embedding_parameters, own))
    ladder = dense.LADDER if all(shape.experts is None for shape in own) else moe.LADDER
    least, most = min(SMALLEST, *sizes), max(largest, *sizes)
    for shape in ladder:
        N = non_embedding_parameters(shape)
        if least <= N <= most and N not in sizes:
            yield shape


def _of_shape(spec: SweepSpec, shape: ModelShape, place: Place) -> Iterator[Candidate]:
    N, vocab_size = non_embedding_parameters(shape), spec.tokenizer_ref().vocab_size
    asked = horizons_of(_budgets(spec.budgets, place), shape=shape, train=spec.train,
                        vocab_size=vocab_size)  # fmt: skip
    kept: list[int] = []
    for horizon in distinct(asked):
        least = max(WARMUPS * horizon.training.warmup_tokens, LEAST_RATIO * N * (1 - 1e-3))
        is_apart = all(abs(log(horizon.tokens / D)) >= log(SPACING) for D in kept)
        if horizon.tokens >= least and is_apart:
            kept.append(horizon.tokens)
            yield Candidate(
                shape=shape,
                N=N,
                horizon=horizon,
                flops_per_token=flops_per_token(
                    shape, vocab_size=vocab_size, context=spec.train.context
                ),
            )


def _budgets(own: Sequence[Budget], place: Place) -> tuple[Budget, ...]:
    ratios = (max(LEAST_RATIO, round(place.D / place.N, 3)), *RATIOS)
    return (*own, *(parse_budget(f"{ratio:g}tpp") for ratio in ratios))
