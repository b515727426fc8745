"""The one inversion: what the scheduler asks of whatever carries runs out.

`workers/` implements this in-process and over Ray. Four methods, none of which waits for training.
Events are numbered from 0 within an attempt; `poll` is told how many the store already holds, so
that a scheduler that died between hearing and storing hears the same events again. An executor
keeps no truth: asked about an attempt that it does not know (another scheduler launched it), it
looks for the worker by name and says so when there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.states import Reason
from sweeps.metrics import TrainEvent
from sweeps.runspec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One attempt at one run: train `spec` to every horizon inside `folder`."""

    spec: RunSpec
    horizons: tuple[int, ...]
    attempt: int
    folder: Path

    @property
    def key(self) -> "AttemptKey":
        """What the attempt is called everywhere."""
        return AttemptKey(run_id=self.spec.run_id, attempt=self.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """A run and its attempt number; the number also fences off writes of older attempts."""

    run_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An attempt that the store believes running, and how many of its events it holds."""

    key: AttemptKey
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The attempt is over. `detail` is one sentence for a person."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one attempt has to say: the events from `offset` on, and how it ended if it did.

    A report, even an empty one, is a sign of life. No report means no contact, which is not
    failure.
    """

    key: AttemptKey
    offset: int
    events: tuple[TrainEvent, ...] = ()
    ended: Ended | None = None


class Executor(Protocol):
    """Carries attempts out in a bounded number of slots."""

    def launch(self, task: Task) -> None:
        """Start an attempt; the caller has made sure of a free slot."""
        ...

    def cancel(self, key: AttemptKey) -> None:
        """Ask an attempt to checkpoint and stop: it ends with INTERRUPTED. Ignores unknown keys."""
        ...

    def poll(self, watches: Sequence[Watch]) -> Sequence[Report]:
        """New events and endings of the watched attempts.

        An attempt that is no longer watched is settled: what is left of it may go, and its slot
        is free.
        """
        ...

    def free_slots(self) -> int:
        """How many more attempts may be launched now."""
        ...
