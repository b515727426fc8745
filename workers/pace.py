"""The clock of a training: how long the run took so far, and how fast it went since a report."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from sweeps.counts import flops_per_token
from sweeps.runspec import RunSpec
from workers.utilization import memory_held, peak_flops


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What is told of a stretch of steps; units and conventions as in `StepMetrics`."""

    tokens_per_second: float
    mfu: float | None
    memory_bytes: int


class Pace:
    """Counts training time, to which neither reports nor checkpoints belong.

    Attributes:
        seconds: Of the run so far, over all attempts.
    """

    def __init__(
        self, spec: RunSpec, device: torch.device, seconds: float, *, ranks: int = 1
    ) -> None:
        """Goes on after so many seconds, on one device of each rank."""
        self.seconds = seconds
        self._device = device
        self._ranks = ranks
        self._batch_tokens = spec.training.batch_tokens
        self._flops_per_token = flops_per_token(
            spec.model, vocab_size=spec.tokenizer.vocab_size, context=spec.training.context
        )
        self.stand_at(0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens within, unless it fails."""
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started

    def stand_at(self, step: int) -> None:
        """Measure speed from here on.

        Args:
            step: Optimizer steps done along the path.
        """
        self._step, self._since = step, self.seconds

    def speed(self, step: int) -> Speed:
        """Since the place where speed was measured from, which becomes this step."""
        tokens = (step - self._step) * self._batch_tokens
        rate = tokens / max(self.seconds - self._since, 1e-9)
        self.stand_at(step)
        peak = peak_flops(self._device)
        return Speed(
            tokens_per_second=rate,
            mfu=None if peak is None else rate * self._flops_per_token / (peak * self._ranks),
            memory_bytes=memory_held(self._device),
        )
