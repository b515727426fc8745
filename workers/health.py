"""Health: when a run has diverged although its numbers are finite.

With S = `spike_steps` and losses in nats per token, step by step along one path:

    lowest(t) = least mean of S losses in a row, up to step t
    above(t)  = loss(t) > lowest(t - 1) + spike
    diverged at the first t where   loss(t) > loss_bound
                               or   above(t - S + 1), …, above(t) all hold

One high batch is no spike, and a loss that comes back within S steps was none either. The verdict
is a function of the losses alone: it does not depend on when they are looked at, on clocks, or on
how often the run was resumed.
"""

import math
from collections import deque

from sweeps.training import Health


class DivergenceError(Exception):
    """The run's result is that it does not train.

    Attributes:
        step: The step at which that was decided, counted from 1.
    """

    def __init__(self, sentence: str, step: int) -> None:
        super().__init__(sentence)
        self.step = step


class HealthWatch:
    """Takes the losses of a path one after the other, from its first step on."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._recent: deque[float] = deque(maxlen=health.spike_steps)
        self._lowest = math.inf
        self._steps = self._in_a_row = 0

    def look(self, loss: float) -> None:
        """Take the next loss, which is finite.

        Raises:
            DivergenceError: If the run has diverged at this step.
        """
        self._steps += 1
        bound, spike = self._health.loss_bound, self._health.spike
        if bound is not None and loss > bound:
            raise DivergenceError(
                f"training loss was {loss:.5g} at step {self._steps}, above health.loss_bound = "
                f"{bound:g}",
                self._steps,
            )
        if spike is not None:
            self._look_for_a_spike(loss, spike)

    def _look_for_a_spike(self, loss: float, spike: float) -> None:
        length = self._health.spike_steps
        self._in_a_row = self._in_a_row + 1 if loss > self._lowest + spike else 0
        if self._in_a_row == length:
            raise DivergenceError(
                f"training loss stayed more than health.spike = {spike:g} above its lowest mean of "
                f"{self._lowest:.5g} for {length} steps in a row, up to step {self._steps}",
                self._steps,
            )
        self._recent.append(loss)
        if len(self._recent) == length:
            self._lowest = min(self._lowest, math.fsum(self._recent) / length)
