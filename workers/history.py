"""Loss and gradient norm of every step along a path, and the means that are reported of them.

A scheduled report follows step n when n is a multiple of

    interval(n) = max(1, 2^(floor(log2 n) - 6))

that is every step up to 128, then 64 points for each doubling. The schedule looks at the step
alone, not at horizons or clocks, so a resumed run and one with more horizons report the same.

Values stay on the device until they are read, so that a GPU never waits for a step's loss. As they
are read, `workers.health` judges them.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sweeps.training import Health
from workers.health import DivergenceError, HealthWatch

POINTS_PER_DOUBLING = 64


def is_report_step(step: int) -> bool:
    """Whether a scheduled report follows this many steps."""
    return step % _interval(step) == 0


def report_step_before(step: int) -> int:
    """The last scheduled report before a step, 0 when there is none."""
    return (step - 1) - (step - 1) % _interval(step - 1)


class NonFiniteError(DivergenceError):
    """A loss or a gradient left the finite numbers at a step."""

    def __init__(self, what: str, value: float, step: int) -> None:
        super().__init__(f"{what} became {value} at step {step}", step)

    def at(self, place: str) -> "NonFiniteError":
        """The same, with what is known of where it began."""
        self.args = (f"{self}: {place}",)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Means over a stretch of steps, of the norms over those that were not skipped."""

    loss: float
    gradient_norm: float


class History:
    """Grows by a row at every step; row n - 1 belongs to step n."""

    def __init__(self, health: Health, rows: Tensor | None = None) -> None:
        """Starts empty, or goes on from what `tensor` gave.

        Args:
            health: When finite losses mean that the run has diverged.
            rows: FP32 [steps, 2].

        Raises:
            DivergenceError: If the run has diverged within these rows.
        """
        self._watch = HealthWatch(health)
        self._rows: list[list[float]] = []
        self._unread: list[Tensor] = []
        self._take([] if rows is None else rows.tolist())

    def append(self, loss: Tensor, gradient_norm: Tensor) -> None:
        """Note one step's scalars without waiting for them; the norm of a skipped step is 0."""
        self._unread.append(torch.stack((loss, gradient_norm)))

    def settle(self) -> None:
        """Read what is outstanding.

        Raises:
            NonFiniteError: At the first step whose loss or gradient norm is not finite.
            DivergenceError: At the first step at which the losses are beyond the run's health.
        """
        if not self._unread:
            return
        rows = torch.stack(self._unread).tolist()
        self._unread.clear()
        self._take(rows)

    def means(self, first: int, last: int) -> Means:
        """Means over the settled steps first + 1 to last."""
        losses, norms = zip(*self._rows[first:last], strict=True)
        taken = max(1, sum(norm > 0 for norm in norms))
        return Means(loss=math.fsum(losses) / len(losses), gradient_norm=math.fsum(norms) / taken)

    def tensor(self) -> Tensor:
        """The settled rows as FP32 [steps, 2], exactly as they were."""
        return torch.tensor(self._rows, dtype=torch.float32).view(-1, 2)

    def _take(self, rows: list[list[float]]) -> None:
        for row in rows:
            for value, what in zip(row, ("training loss", "gradient norm"), strict=True):
                if not math.isfinite(value):
                    raise NonFiniteError(what, value, len(self._rows) + 1)
            self._watch.look(row[0])
            self._rows.append(row)


def _interval(step: int) -> int:
    return 1 << max(0, step.bit_length() - POINTS_PER_DOUBLING.bit_length())
