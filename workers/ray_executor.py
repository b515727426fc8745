"""Executor over Ray: one detached, named actor for each attempt.

    name `run_id-attempt`   one CPU, or `gpus_per_run` GPUs where the cluster has any   no restarts

An actor belongs to no driver: training goes on while the scheduler is away, and the next one finds
the actor by its name and reads every event that the store does not hold yet. An actor that does not
answer gives no report, since lost contact is no failure; one that is dead was WORKER_LOST. An ended
actor stays until a poll no longer watches it, the sign that its ending is stored.

Thread counts reach the actor's process before torch loads, so that slots do not fight for cores.
Without an address a cluster of this machine is started, and ends with `shutdown`.
"""

import logging
import math
import os
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray import exceptions as failures

from orchestrator.executor import AttemptKey, Ended, Report, Task, Watch
from orchestrator.states import Reason
from sweeps.errors import GridlawError, InputError
from sweeps.metrics import TrainEvent
from workers.attempt import Attempt, log_path

logger = logging.getLogger(__name__)

PATIENCE = 0.25
"""Seconds that a poll waits for the answers of all actors together."""

OBJECT_STORE_BYTES = 100_000_000
"""Only small messages pass through Ray; its default is a third of the memory."""

LONGEST_TEMP_DIR = 36
"""Ray puts sockets 66 characters below its folder, and their paths end at 103 bytes."""

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class Worker:
    """What lives in the actor's process: one attempt in a thread, so that calls are answered."""

    def __init__(self, task: Task, cache: Path) -> None:
        with suppress(OSError):  # the attempt itself meets the same refusal and reports it
            _redirect_output(log_path(task))

        def start(task: Task) -> Generator[TrainEvent, None, None]:
            from workers.train import train  # torch loads here, off the thread that answers

            yield from train(
                task.spec, task.horizons, task.folder, cache=cache, attempt=task.attempt
            )

        self._attempt = Attempt(task, start)
        threading.Thread(target=self._attempt.run, name="train", daemon=True).start()

    def collect(self, offset: int) -> Report:
        """Events from `offset` on; the reader holds those before it."""
        return self._attempt.report(offset)

    def stop(self) -> None:
        """Checkpoint and leave at the next event."""
        self._attempt.stop()


@dataclass(slots=True)
class Contact:
    """An actor and the question that it has not answered yet, the only one asked at a time."""

    actor: Any
    question: Any = None
    is_over: bool = False

    def answer(self, watch: Watch) -> Report | None:
        """The actor's report if it has answered, cut to what the reader lacks; None: no contact."""
        if not ray.wait([self.question], timeout=0)[0]:
            return None
        question, self.question = self.question, None
        try:
            report: Report = ray.get(question)
        except failures.ActorUnavailableError:
            return None
        except (failures.RayActorError, failures.RuntimeEnvSetupError) as error:
            self.is_over = True
            return _death(watch, error)
        self.is_over = report.ended is not None
        known = max(0, watch.offset - report.offset)  # asked before the reader stored these
        return replace(report, offset=report.offset + known, events=report.events[known:])


class RayExecutor:
    """Runs attempts as actors of a cluster; one instance for each process at a time.

    Args:
        address: Of a running cluster; None starts one on this machine.
        slots: Runs that train at the same time.
        cache: Folder of tokenizers and tokenized corpora, on a disk that all nodes share.
        namespace: Keeps the actors of one store apart from those of another.
        gpus_per_run: GPUs of one run where the cluster has any: whole ones, or 1/n of one.

    Raises:
        InputError: If no cluster answers at the address, or a GPU share is not whole.
        GridlawError: If no cluster can be started on this machine.
    """

    def __init__(
        self,
        address: str | None,
        slots: int,
        cache: Path,
        namespace: str = "gridlaw",
        gpus_per_run: float = 1.0,
    ) -> None:
        _check_share(gpus_per_run)
        self._slots = slots
        self._cache = cache
        self._temp_dir = None if address else _temp_dir()
        temp_dir = None if self._temp_dir is None else self._temp_dir.name
        _connect(address, slots, namespace, temp_dir)
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        has_gpus = "GPU" in resources
        self._need = {"GPU": gpus_per_run} if has_gpus else {"CPU": 1.0}
        self._contacts: dict[AttemptKey, Contact] = {}
        for name in ray.util.list_named_actors():
            self._find(_key_of(name))

    def launch(self, task: Task) -> None:
        """Create the attempt's actor, or adopt it; those of the run's older attempts are killed."""
        for key in list(self._contacts):
            if key.run_id == task.key.run_id and key.attempt < task.attempt:
                self._release(key)
        actor = (
            ray.remote(Worker)
            .options(
                name=_name_of(task.key),
                lifetime="detached",
                get_if_exists=True,
                max_restarts=0,
                num_cpus=self._need.get("CPU", 0),
                num_gpus=self._need.get("GPU", 0),
            )
            .remote(task, self._cache)
        )
        self._contacts[task.key] = Contact(actor)

    def cancel(self, key: AttemptKey) -> None:
        """Ask the actor to checkpoint and stop; unknown keys are ignored."""
        if (contact := self._find(key)) is not None:
            contact.actor.stop.remote()

    def poll(self, watches: Sequence[Watch]) -> Sequence[Report]:
        """What the actors answer in a moment; those that do not are left out."""
        offsets = {watch.key: watch.offset for watch in watches}
        for key in [key for key in self._contacts if key not in offsets]:
            if self._contacts[key].is_over:
                self._release(key)
        unknown = [watch for watch in watches if self._find(watch.key) is None]
        reports = [_lost(watch, "no worker has its name") for watch in unknown]
        self._ask(offsets)
        for key, contact in self._contacts.items():
            report = contact.answer(Watch(key=key, offset=offsets.get(key, 0)))
            if report is not None and key in offsets:
                reports.append(report)
        return reports

    def free_slots(self) -> int:
        """Slots without an actor, as far as the cluster has room for them now."""
        room: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
        fitting = min(int(room.get(kind, 0.0) / need) for kind, need in self._need.items())
        return max(0, min(self._slots - len(self._contacts), fitting))

    def shutdown(self) -> None:
        """Leave the cluster; one that was started here ends with everything in it."""
        ray.shutdown()
        if self._temp_dir is not None:
            self._temp_dir.cleanup()

    def _find(self, key: AttemptKey) -> Contact | None:
        """The actor of an attempt, whichever driver made it."""
        if key not in self._contacts:
            try:
                actor = ray.get_actor(_name_of(key))
            except ValueError:  # nobody has that name
                return None
            self._contacts[key] = Contact(actor)
        return self._contacts[key]

    def _ask(self, offsets: Mapping[AttemptKey, int]) -> None:
        """Put a question to every actor that owes no answer, and wait a moment for all."""
        for key, contact in self._contacts.items():
            if contact.question is None:
                contact.question = contact.actor.collect.remote(offsets.get(key, 0))
        questions = [contact.question for contact in self._contacts.values()]
        if questions:
            ray.wait(questions, num_returns=len(questions), timeout=PATIENCE)

    def _release(self, key: AttemptKey) -> None:
        ray.kill(self._contacts.pop(key).actor)


def _name_of(key: AttemptKey) -> str:
    return f"{key.run_id}-{key.attempt}"


def _key_of(name: str) -> AttemptKey:
    run_id, _, attempt = name.rpartition("-")
    return AttemptKey(run_id=run_id, attempt=int(attempt))


def _lost(watch: Watch, detail: str) -> Report:
    ended = Ended(reason=Reason.WORKER_LOST, detail=detail)
    return Report(key=watch.key, offset=watch.offset, ended=ended)


def _death(watch: Watch, error: failures.RayActorError | failures.RuntimeEnvSetupError) -> Report:
    match error:
        case failures.RayActorError() if not error.actor_init_failed:
            return _lost(watch, "its process is gone")
        case _:
            logger.error("a worker could not start: %s", error)
            detail = f"the worker could not start: {_line(error, -1)}"
            ended = Ended(reason=Reason.TRAINING_ERROR, detail=detail)
            return Report(key=watch.key, offset=watch.offset, ended=ended)


def _line(error: Exception, which: int) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[which].strip()


def _check_share(gpus: float) -> None:
    """One device is shared in equal parts or not at all."""
    parts = gpus if gpus >= 1 else 1 / gpus if gpus > 0 else 0.5
    if not math.isclose(parts, round(parts)):
        raise InputError(f"gpus_per_run = {gpus}: must be a whole number, or 1/n to share one GPU")


def _temp_dir() -> tempfile.TemporaryDirectory[str] | None:
    """A folder for Ray's sockets and logs that goes when the cluster does; None: Ray's own."""
    if len(tempfile.gettempdir()) + len("/gridlaw-12345678") > LONGEST_TEMP_DIR:
        return None
    return tempfile.TemporaryDirectory(prefix="gridlaw-", ignore_cleanup_errors=True)


def _connect(address: str | None, slots: int, namespace: str, temp_dir: str | None) -> None:
    threads = max(1, _cores() // slots) if address is None else 1
    checkout = Path(__file__).resolve().parent.parent
    variables = dict.fromkeys(THREAD_VARIABLES, str(threads))
    variables["PYTHONPATH"] = f"{checkout}{os.pathsep}${{PYTHONPATH}}"  # expanded on the node
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {
        "namespace": namespace,
        "runtime_env": {"env_vars": variables},
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    try:
        if address is not None:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=slots,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=temp_dir,
                **quiet,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address is not None:
            raise InputError(f"ray_address = {address}: {_line(error, 0)}") from error
        raise GridlawError(f"no Ray cluster starts on this machine: {_line(error, 0)}") from error


def _cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _redirect_output(path: Path) -> None:
    """Send what this process prints, C libraries included, to the attempt's log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
