"""Executor over Ray: one detached, named actor for each attempt.

    name `run_id-attempt`   one CPU, or its share of the GPUs where there are any   no restarts

An actor belongs to no driver: training goes on while the scheduler is away, and the next one finds
the actor by its name and reads every event that the store does not hold yet. An actor that does not
answer gives no report, since lost contact is no failure; one that is dead was WORKER_LOST. An ended
actor stays until a poll no longer watches it, the sign that its ending is stored.

What a run takes (`workers.packing`) is known once it is launched. One that finds no place although
there was a slot waits in Ray's queue, is alive as long as others hold the place, and ends the slots
until it has one: so a large run is never overtaken for ever by small ones.

Without an address a cluster of this machine is started, and ends with `shutdown`.
"""

import logging
import math
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ray
from ray import exceptions as failures

from orchestrator.executor import AttemptKey, Ended, Report, Task, Watch
from orchestrator.states import Reason
from sweeps.errors import InputError
from sweeps.metrics import TrainEvent
from sweeps.runspec import RunSpec
from workers import ray_cluster, worker_process
from workers.assignment import Assignment
from workers.attempt import Attempt, log_path
from workers.packing import share_of
from workers.ray_train import Ranks

logger = logging.getLogger(__name__)

PATIENCE = 0.25
"""Seconds that a poll waits for the answers of all actors together."""

CALLS = 4
"""That an actor answers at once: rank 0 of several may wait in one until its event is taken."""


class Worker:
    """What lives in the actor's process: one attempt in a thread, so that calls are answered."""

    def __init__(self, task: Task, cache: Path, share: float, accelerate: bool) -> None:
        with suppress(OSError):  # the attempt itself meets the same refusal and reports it
            worker_process.print_to(log_path(task))
        ids = ray.get_runtime_context().get_accelerator_ids()["GPU"]
        assignment = Assignment(ids=tuple(ids), share=share)
        assignment.hide_others()

        self._ranks = Ranks(task, cache, accelerate=accelerate)

        def start(task: Task) -> Generator[TrainEvent, None, None]:
            if task.spec.resources.gpus > 1:
                yield from self._ranks.train(ray.get_runtime_context().current_actor)
                return
            assignment.take()
            from workers.train import train  # torch loads here, off the thread that answers

            yield from train(
                task.spec, task.horizons, task.folder,
                cache=cache, attempt=task.attempt, accelerate=accelerate,
            )  # fmt: skip

        self._attempt = Attempt(task, start)
        threading.Thread(target=self._attempt.run, name="train", daemon=True).start()

    def collect(self, offset: int) -> Report:
        """Events from `offset` on; the reader holds those before it."""
        return self._attempt.report(offset)

    def stop(self) -> None:
        """Checkpoint and leave at the next event."""
        self._attempt.stop()

    def hear(self, event: TrainEvent) -> bool:
        """What rank 0 of several tells; whether they must leave."""
        return self._ranks.hear(event)


@dataclass(slots=True)
class Contact:
    """An actor and the question that it has not answered yet, the only one asked at a time.

    Attributes:
        actor: Ray's handle.
        need: What it takes of the cluster; 0 if an earlier driver launched it, for Ray to count.
        question: Put and not answered.
        is_new: Whether it was launched by this driver and has answered nothing so far.
        is_over: Whether its attempt has ended.
    """

    actor: Any
    need: float = 0.0
    question: Any = None
    is_new: bool = False
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
        self.is_new = False
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
        gpu_bytes: Memory of a GPU that runs may share; None for that of the cluster's smallest.
        accelerate: Whether passes may be compiled and recorded, on GPUs.

    Raises:
        InputError: If no cluster answers at the address.
        GridlawError: If no cluster can be started on this machine.
    """

    def __init__(
        self,
        address: str | None,
        slots: int,
        cache: Path,
        namespace: str = "gridlaw",
        gpu_bytes: int | None = None,
        accelerate: bool = True,
    ) -> None:
        self._slots = slots
        self._cache = cache
        self._gpu_bytes = gpu_bytes
        self._accelerate = accelerate
        self._temp_dir = None if address else worker_process.socket_folder()
        temp_dir = None if self._temp_dir is None else self._temp_dir.name
        ray_cluster.join(address, slots, namespace, temp_dir)
        self._unit = "GPU" if ray_cluster.size("GPU") else "CPU"
        self._contacts: dict[AttemptKey, Contact] = {}
        for name in ray.util.list_named_actors():
            self._find(_key_of(name))

    def launch(self, task: Task) -> None:
        """Create the attempt's actor, or adopt it; those of the run's older attempts are killed.

        Raises:
            InputError: If the whole cluster could not hold the run.
        """
        need = self._need(task.spec)
        own = 0.0 if task.spec.resources.gpus > 1 else need  # its ranks are given theirs
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
                max_concurrency=CALLS,
                num_cpus=own if self._unit == "CPU" else 0,
                num_gpus=own if self._unit == "GPU" else 0,
            )
            .remote(task, self._cache, need, self._accelerate)
        )
        self._contacts[task.key] = Contact(actor, need, is_new=True)

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
            if report is None and contact.is_new and self._may_wait(contact):
                report = Report(key=key, offset=offsets.get(key, 0))
            if report is not None and key in offsets:
                reports.append(report)
        return reports

    def free_slots(self) -> int:
        """Slots without an actor, as far as the cluster has room for them now.

        What the next runs take is not known: there is a slot for each whole GPU or CPU that is
        free, and one where only a part of a GPU is.
        """
        claimed = sum(contact.need for contact in self._contacts.values())
        unclaimed = ray_cluster.size(self._unit) - claimed
        free = min(ray_cluster.room(self._unit), unclaimed)
        fitting = math.floor(free) if free >= 1 else math.ceil(free)
        return max(0, min(self._slots - len(self._contacts), fitting))

    def shutdown(self) -> None:
        """Leave the cluster; one that was started here ends with everything in it."""
        ray.shutdown()
        if self._temp_dir is not None:
            self._temp_dir.cleanup()

    def _need(self, spec: RunSpec) -> float:
        """What a run takes of the cluster, in its unit."""
        shares = self._unit == "GPU" and spec.resources.pack
        need = share_of(spec, self._shared_bytes if shares else None)
        if need > (there := ray_cluster.size(self._unit)):
            raise InputError(
                f"resources.gpus = {spec.resources.gpus}: the cluster has {there:g} {self._unit}s"
            )
        return need

    @cached_property
    def _shared_bytes(self) -> int | None:
        """Memory of a GPU that runs share."""
        return self._gpu_bytes or ray_cluster.smallest_gpu()

    def _may_wait(self, contact: Contact) -> bool:
        """Whether Ray may have no place yet for what was launched: too little, or in pieces."""
        others = [one.need for one in self._contacts.values() if one is not contact]
        is_in_pieces = any(0 < need < 1 for need in others)
        return is_in_pieces or sum(others) + contact.need > ray_cluster.size(self._unit)

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
