"""An executor that does its work when polled: one step of the protocol a turn, no threads, no time.

It trains nothing: each poll gives every attempt the next of the events laid down for its run, kept
until the store says that it holds them, as the protocol asks. Faults are laid down the same way.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from orchestrator.executor import AttemptKey, Ended, Report, Task, Watch
from orchestrator.states import Reason
from sweeps.metrics import TrainEvent
from tests.orchestrator.values import BATCH, endpoint, step

Script = Callable[[Task], Iterator[TrainEvent | Ended]]


def trains(task: Task) -> Iterator[TrainEvent | Ended]:
    """Two steps, then every horizon measured."""
    yield step(BATCH)
    yield step(2 * BATCH)
    for horizon in task.horizons:
        yield endpoint(horizon)
    yield Ended(reason=Reason.COMPLETED)


def hangs(task: Task) -> Iterator[TrainEvent | Ended]:
    """One step, and then nothing for ever: neither a word nor an end, even when asked."""
    yield step(BATCH)


@dataclass
class Worker:
    """One attempt: what it still has to do and what it said so far."""

    todo: Iterator[TrainEvent | Ended]
    is_deaf: bool
    events: list[TrainEvent] = field(default_factory=list)
    ended: Ended | None = None

    def work(self) -> bool:
        """One step; whether there was one."""
        if self.ended is not None:
            return True
        match next(self.todo, None):
            case None:
                return False
            case Ended() as ended:
                self.ended = ended
            case event:
                self.events.append(event)
        return True


class SteppingExecutor:
    """Implements `Executor` for the loop's tests."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.scripts: defaultdict[str, Script] = defaultdict(lambda: trains)
        self.workers: dict[AttemptKey, Worker] = {}
        self.launched: list[AttemptKey] = []
        self.cancelled: list[AttemptKey] = []
        self.launch_errors: list[Exception] = []
        self.poll_errors: list[Exception] = []

    def launch(self, task: Task) -> None:
        """Start an attempt."""
        if self.launch_errors:
            raise self.launch_errors.pop(0)
        script = self.scripts[task.spec.run_id]
        self.launched.append(task.key)
        self.workers[task.key] = Worker(todo=script(task), is_deaf=script is hangs)

    def cancel(self, key: AttemptKey) -> None:
        """End an attempt, unless it hangs."""
        self.cancelled.append(key)
        worker = self.workers.get(key)
        if worker is not None and not worker.is_deaf and worker.ended is None:
            worker.ended = Ended(reason=Reason.INTERRUPTED)

    def poll(self, watches: Sequence[Watch]) -> Sequence[Report]:
        """A step of every worker, then all that the store does not hold."""
        if self.poll_errors:
            raise self.poll_errors.pop(0)
        reports = []
        for watch in watches:
            worker = self.workers.get(watch.key)
            if worker is None:
                lost = Ended(reason=Reason.WORKER_LOST, detail="there is no such worker")
                reports.append(Report(key=watch.key, offset=watch.offset, ended=lost))
            elif worker.work():
                reports.append(
                    Report(
                        key=watch.key,
                        offset=watch.offset,
                        events=tuple(worker.events[watch.offset :]),
                        ended=worker.ended,
                    )
                )
        return reports

    def free_slots(self) -> int:
        """Slots without an attempt that is still at work."""
        return self.slots - sum(worker.ended is None for worker in self.workers.values())
