"""One run over several ranks, which Ray Train starts, watches and ends together.

    the attempt's actor ─TorchTrainer▶ rank 0 … R - 1     each runs `train` in the world of `Peers`
            ▲─────────── hear(event) → leave? ── rank 0   and all of them leave where rank 0 does

An event is taken before rank 0 goes on, and the answer says whether to leave, as if the attempt
itself stepped the generator: what was told and what the checkpoint holds are one. Ranks are placed
as closely together as the cluster allows, one GPU each, or one CPU where it has none. A rank that
fails or is lost ends the others; the next attempt goes on from the checkpoint, with as many ranks
or with others. What rank r > 0 prints and logs goes to `attempt-N-rank-r.log` in the run's folder.
"""

import logging
import os
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ray
from ray.exceptions import RayActorError

from orchestrator.executor import Task
from orchestrator.states import Reason
from sweeps.errors import GridlawError
from sweeps.metrics import TrainEvent
from workers import worker_process
from workers.attempt import WorkerLostError, ending_of, log_path, log_to
from workers.ray_place import keep

logger = logging.getLogger(__name__)

CONTROLLER = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths keep their meaning
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_V2_ENABLED": "1",
}
"""Environment of Ray Train's own process."""


class Ranks:
    """The ranks of one attempt, as its actor sees them.

    Args:
        task: The attempt.
        cache: Folder of tokenizers and tokenised corpora, on every node that ranks come to.
        accelerate: Whether passes may be compiled, on GPUs.
    """

    def __init__(self, task: Task, cache: Path, *, accelerate: bool = True) -> None:
        self._task = task
        self._cache = cache
        self._accelerate = accelerate
        self._heard: SimpleQueue[TrainEvent | _Over] = SimpleQueue()
        self._answers: SimpleQueue[bool] = SimpleQueue()

    def hear(self, event: TrainEvent) -> bool:
        """Called by rank 0; returns, once the event is taken, whether all ranks must leave."""
        self._heard.put(event)
        return self._answers.get()

    def train(self, actor: Any) -> Generator[TrainEvent, None, None]:
        """As `workers.train.train`: closing it checkpoints and leaves.

        Args:
            actor: Handle of the attempt's own actor, whose method `hear` is that of these ranks.

        Raises:
            GridlawError: As `train` on any of the ranks.
            WorkerLostError: If the process of a rank is gone.
        """
        threading.Thread(target=self._fit, args=(actor,), name="ranks", daemon=True).start()
        while not isinstance(event := self._heard.get(), _Over):
            try:
                yield event
            except GeneratorExit:
                self._answers.put(True)
                self._leave()
                raise
            self._answers.put(False)
        event.check()

    def _leave(self) -> None:
        """Wait until all ranks have ended."""
        while not isinstance(over := self._heard.get(), _Over):
            self._answers.put(True)
        over.check()

    def _fit(self, actor: Any) -> None:
        try:
            _fit(self._task, {"cache": self._cache, "accelerate": self._accelerate}, actor)
        except BaseException as error:  # whatever it is, the attempt waits for it
            logger.exception("attempt %d ended with an error of its ranks", self._task.attempt)
            self._heard.put(_Over(error=error))
        else:
            self._heard.put(_Over(error=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Over:
    """All ranks have ended, in order or by an error."""

    error: BaseException | None

    def check(self) -> None:
        if self.error is not None:
            raise self.error


def _fit(task: Task, options: dict[str, Any], actor: Any) -> None:
    """Train on all ranks; `options` are those of `train` beside the task's."""
    os.environ.update(CONTROLLER)
    from ray.train import FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
    from ray.train.torch import TorchConfig, TorchTrainer

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    has_gpus = "GPU" in resources
    with tempfile.TemporaryDirectory(prefix="gridlaw-ranks-") as own_notes:
        trainer = TorchTrainer(
            _train_rank,
            train_loop_config={"task": task, "options": options, "actor": actor},
            scaling_config=ScalingConfig(
                num_workers=task.spec.resources.gpus,
                use_gpu=has_gpus,
                resources_per_worker={"GPU": 1} if has_gpus else {"CPU": 1},
            ),
            run_config=RunConfig(
                name=f"{task.key.run_id}-{task.attempt}",
                storage_path=own_notes,
                failure_config=FailureConfig(max_failures=0),
            ),
            # Flags and objects travel over the CPU, so that they never wait for a GPU's queue.
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if has_gpus else "gloo"),
        )
        try:
            trainer.fit()
        except WorkerGroupError as error:
            raise cause(error.worker_failures) from error


def _train_rank(config: dict[str, Any]) -> None:
    """What each rank does."""
    from workers.parallel import Peers
    from workers.train import train

    task: Task = config["task"]
    peers = Peers(task.spec.resources.sharding)
    if peers.is_lead:
        keep(config["actor"])
    log = log_path(task)
    if not peers.is_lead:
        log = log.with_stem(f"{log.stem}-rank-{peers.rank}")
    with suppress(OSError):  # rank 0 meets the same refusal and reports it
        worker_process.print_to(log)
    with log_to(log):
        events = train(
            task.spec,
            task.horizons,
            task.folder,
            attempt=task.attempt,
            world=peers,
            **config["options"],
        )
        try:
            for event in events:
                if peers.agreed(peers.is_lead and ray.get(config["actor"].hear.remote(event))):
                    events.close()
            peers.agreed(True)  # none leaves before all are done
        except BaseException:
            logger.exception("rank %d ended with an error", peers.rank)
            raise


def cause(failures: Mapping[int, Exception]) -> BaseException:
    """What a run over several ranks failed of; the other ranks fail of that rank's absence.

    Args:
        failures: By rank, as Ray Train gives them: what the rank raised, or that it is gone.

    Returns:
        The first error that says more than that training went wrong; else that a process is gone;
        else the first of a class of its own, which the loss of a connection has not.
    """
    telling = [
        error
        for _, error in sorted(failures.items())
        if isinstance(error, GridlawError) or ending_of(error).reason is not Reason.TRAINING_ERROR
    ]
    gone = [rank for rank, error in sorted(failures.items()) if _is_death(error)]
    if telling:
        return telling[0]
    if gone:
        return WorkerLostError(f"the process of rank {gone[0]} is gone")
    return min(failures.values(), key=lambda error: type(error) is RuntimeError)


def _is_death(error: Exception) -> bool:
    return isinstance(getattr(error, "health_check_failure", error), RayActorError)
