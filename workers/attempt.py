"""One attempt inside its worker: steps the training generator, numbers events, tells the ending.

    start(task) ─yields→ event 0, event 1, …  ─report(offset)→  events from offset on, the ending

Every executor wraps this same object, in a thread or in an actor. Events are kept until a reader
asks for later ones, which is its word that it has stored the earlier ones. Whatever is logged in
the training thread, tracebacks included, goes to `attempt-N.log` in the run's folder.

    what the generator does              reason
    returns                              COMPLETED; after a `Diverged` event NON_FINITE, or
                                         LOSS_OUT_OF_BOUNDS where the numbers were finite
    is closed because `stop` was asked   INTERRUPTED, at the next event
    MemoryError, torch out of memory     OUT_OF_MEMORY
    StorageError, no space or quota      DISK_FULL
    InputError, CheckpointError          INVALID_RUN
    PreflightError                       PREFLIGHT_FAILED
    WorkerLostError                      WORKER_LOST
    anything else                        TRAINING_ERROR
"""

import errno
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from orchestrator.executor import AttemptKey, Ended, Report, Task
from orchestrator.states import Reason
from sweeps.errors import (
    CheckpointError,
    GridlawError,
    InputError,
    PreflightError,
    StorageError,
)
from sweeps.metrics import Diverged, TrainEvent

logger = logging.getLogger(__name__)

Start = Callable[[Task], Generator[TrainEvent, None, None]]
"""What begins a training: closing the generator checkpoints and leaves."""


class WorkerLostError(GridlawError):
    """A process that a training needs is gone."""


class Attempt:
    """A task on its way; `run` belongs to one thread, everything else to any."""

    def __init__(self, task: Task, start: Start) -> None:
        self._task = task
        self._start = start
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._events: deque[TrainEvent] = deque()
        self._first = 0
        self._ended: Ended | None = None

    @property
    def key(self) -> AttemptKey:
        """Which attempt this is."""
        return self._task.key

    @property
    def is_over(self) -> bool:
        """Whether the training thread is done."""
        with self._lock:
            return self._ended is not None

    def run(self) -> None:
        """Train to the end, or to the first event after `stop`; never raises."""
        try:
            self._task.folder.mkdir(parents=True, exist_ok=True)
            with log_to(log_path(self._task)):
                ended = self._train()
        except OSError as error:
            ended = ending_of(error)
        with self._lock:
            self._ended = ended

    def stop(self) -> None:
        """Ask the training to checkpoint and leave."""
        self._stop.set()

    def report(self, offset: int) -> Report:
        """Events from `offset` on; those before it are dropped, since the reader holds them."""
        with self._lock:
            while self._events and self._first < offset:
                self._events.popleft()
                self._first += 1
            skipped = max(0, offset - self._first)
            return Report(
                key=self.key,
                offset=max(offset, self._first),
                events=tuple(islice(self._events, skipped, None)),
                ended=self._ended,
            )

    def _train(self) -> Ended:
        ended = Ended(reason=Reason.COMPLETED)
        try:
            with closing(self._start(self._task)) as events:
                for event in events:
                    with self._lock:
                        self._events.append(event)
                    if isinstance(event, Diverged):  # the generator says no more after it
                        reason = Reason.LOSS_OUT_OF_BOUNDS if event.is_finite else Reason.NON_FINITE
                        ended = Ended(reason=reason, detail=event.detail)
                    elif self._stop.is_set():
                        return Ended(reason=Reason.INTERRUPTED, detail="checkpointed and stopped")
        except BaseException as error:  # whatever is raised, the attempt must end with a reason
            logger.exception("attempt %d ended with an error", self._task.attempt)
            return ending_of(error)
        return ended


def log_path(task: Task) -> Path:
    """Where an attempt's log lies: each attempt has its own."""
    return task.folder / f"attempt-{task.attempt}.log"


def ending_of(error: BaseException) -> Ended:
    """What an exception out of the training means for the run."""
    import torch  # loaded by then; the scheduler, which imports this module too, must stay light

    match error:
        case MemoryError() | torch.OutOfMemoryError():
            reason = Reason.OUT_OF_MEMORY
        case RuntimeError() if "DefaultCPUAllocator" in str(error):  # torch has no class for it
            reason = Reason.OUT_OF_MEMORY
        case StorageError():
            reason = Reason.DISK_FULL
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = Reason.DISK_FULL
        case InputError() | CheckpointError():
            reason = Reason.INVALID_RUN
        case PreflightError():
            reason = Reason.PREFLIGHT_FAILED
        case WorkerLostError():
            reason = Reason.WORKER_LOST
        case _:
            reason = Reason.TRAINING_ERROR
    return Ended(reason=reason, detail=_sentence(error))


def _sentence(error: BaseException) -> str:
    first_line = next(iter(str(error).splitlines()), "")
    match error:
        case GridlawError():
            return first_line
        case _:
            return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


@contextmanager
def log_to(path: Path) -> Iterator[None]:
    """Write what this thread logs from INFO up to a file, times in UTC.

    Raises:
        OSError: If the file cannot be opened.
    """
    thread = threading.get_ident()
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setLevel(logging.INFO)
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(lambda record: record.thread == thread)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()
