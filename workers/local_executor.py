"""Executor in this process: one thread for each running attempt.

For notebooks, tests and machines without Ray. Python holds its global lock through the many small
operations of a tiny model, so that two threads train hardly faster than one: `slots` is 1 unless
asked for more, which pays once the matrices are large. Nothing outlives the process: attempts of
an earlier one are unknown here and reported as WORKER_LOST, to go on from their checkpoints.
"""

import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from orchestrator.executor import AttemptKey, Ended, Report, Task, Watch
from orchestrator.states import Reason
from sweeps.errors import InputError
from sweeps.metrics import TrainEvent
from workers.attempt import Attempt
from workers.train import train


class LocalExecutor:
    """Steps attempts in threads of this process."""

    def __init__(self, *, cache: Path, slots: int = 1, accelerate: bool = True) -> None:
        self._cache = cache
        self._accelerate = accelerate
        self._slots = slots
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._threads: dict[AttemptKey, threading.Thread] = {}

    def launch(self, task: Task) -> None:
        """Start a thread for the attempt.

        Raises:
            InputError: If the run asks for several ranks, which are processes.
        """
        if (gpus := task.spec.resources.gpus) > 1:
            raise InputError(
                f"resources.gpus = {gpus}: the local executor trains a run in one process; "
                f"GRIDLAW_EXECUTOR=ray trains it on {gpus} GPUs or CPUs"
            )
        attempt = Attempt(task, self._start)
        name = f"{task.key.run_id}-{task.key.attempt}"
        thread = threading.Thread(target=attempt.run, name=name, daemon=True)
        self._attempts[task.key] = attempt
        self._threads[task.key] = thread
        thread.start()

    def cancel(self, key: AttemptKey) -> None:
        """Stop the attempt at its next event; unknown keys are ignored."""
        if (attempt := self._attempts.get(key)) is not None:
            attempt.stop()

    def poll(self, watches: Sequence[Watch]) -> Sequence[Report]:
        """One report for each watch; ended attempts that nobody watches any more are forgotten."""
        watched = {watch.key for watch in watches}
        for key, attempt in list(self._attempts.items()):
            if attempt.is_over and key not in watched:
                del self._attempts[key], self._threads[key]
        return [self._report(watch) for watch in watches]

    def free_slots(self) -> int:
        """Slots without a living thread."""
        running = sum(not attempt.is_over for attempt in self._attempts.values())
        return max(0, self._slots - running)

    def shutdown(self, seconds: float) -> None:
        """Ask every attempt to checkpoint and stop, and wait for them at most this long."""
        for attempt in self._attempts.values():
            attempt.stop()
        deadline = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, task: Task) -> Generator[TrainEvent, None, None]:
        yield from train(
            task.spec,
            task.horizons,
            task.folder,
            cache=self._cache,
            attempt=task.attempt,
            accelerate=self._accelerate,
        )

    def _report(self, watch: Watch) -> Report:
        attempt = self._attempts.get(watch.key)
        if attempt is None:
            lost = Ended(
                reason=Reason.WORKER_LOST, detail="its thread ended with an earlier process"
            )
            return Report(key=watch.key, offset=watch.offset, ended=lost)
        return attempt.report(watch.offset)
