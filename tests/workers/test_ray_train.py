"""A run over two ranks on a real cluster of this machine, through the executor."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray
import torch
from ray.exceptions import RayActorError

from orchestrator.executor import Task
from orchestrator.states import Reason
from sweeps.errors import StorageError
from sweeps.metrics import Endpoint
from sweeps.runspec import Resources, Sharding
from tests.workers import executor_contract
from tests.workers.executor_contract import BATCH, LONG, Bench
from tests.workers.tiny import curve, start
from workers.attempt import WorkerLostError, ending_of
from workers.ray_executor import RayExecutor
from workers.ray_train import cause

STEPS = 600


class HealthCheckFailedError(Exception):
    """As Ray Train tells of a process that is gone."""

    def __init__(self) -> None:
        super().__init__("a health check failed")
        self.health_check_failure = RayActorError()


GONE = HealthCheckFailedError()
CUT_OFF = RuntimeError("Connection closed by peer")
OWN = StorageError("the disk is full")
FAILURES: dict[str, tuple[dict[int, Exception], Reason]] = {
    "a process": ({0: CUT_OFF, 1: GONE}, Reason.WORKER_LOST),
    "a disk": ({0: OWN, 1: CUT_OFF}, Reason.DISK_FULL),
    "a disk, and then a process": ({0: GONE, 1: OWN}, Reason.DISK_FULL),
    "memory": ({0: CUT_OFF, 1: torch.OutOfMemoryError("no memory")}, Reason.OUT_OF_MEMORY),
    "a mistake": ({0: CUT_OFF, 1: KeyError("x")}, Reason.TRAINING_ERROR),
    "a connection": ({0: CUT_OFF}, Reason.TRAINING_ERROR),
}


@pytest.mark.parametrize("what", FAILURES)
def test_ranks_fail_of_what_the_first_of_them_failed_of(what):
    failures, reason = FAILURES[what]
    found = cause(failures)
    assert ending_of(found).reason is reason
    assert found is not CUT_OFF or set(failures.values()) == {CUT_OFF}


def test_a_lost_rank_is_named():
    found = cause({1: CUT_OFF, 2: GONE})
    assert isinstance(found, WorkerLostError)
    assert str(found) == "the process of rank 2 is gone"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayExecutor]:
    executor = RayExecutor(None, 2, tmp_path_factory.mktemp("cache"))
    yield executor
    executor.shutdown()


@pytest.fixture
def bench(cluster: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # Ray Train starts five processes, each of which loads torch.
    monkeypatch.setattr(executor_contract, "PATIENCE", 240.0)
    bench = Bench.over_text(cluster, tmp_path)
    yield bench
    for key in bench.stored:
        cluster.cancel(key)
    bench.until(lambda: len(bench.endings) == len(bench.stored))
    cluster.poll([])


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def on_two(task: Task, sharding: Sharding) -> Task:
    """The task with a microbatch for each of two ranks."""
    training = replace(task.spec.training, microbatch_tokens=BATCH // 2)
    resources = Resources(gpus=2, sharding=sharding)
    return replace(task, spec=replace(task.spec, training=training, resources=resources))


def ranks(task: Task) -> list[int]:
    """Processes in which ranks of a run train: they print into its folder."""
    return [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdecimal() and prints_to(process, task.folder / "attempt-1-rank-1.log")
    ]


def prints_to(process: Path, log: Path) -> bool:
    try:
        return (process / "fd" / "1").readlink() == log
    except OSError:  # it has ended, or is not ours
        return False


@pytest.mark.ray
@pytest.mark.slow
def test_cancelled_ranks_leave_together_and_one_process_ends_the_run_as_if_alone(
    bench, tmp_path, one_thread
):
    task = on_two(bench.task(horizons=(STEPS * BATCH,)), Sharding.REPLICATE)
    key = bench.launch(task)
    bench.until(lambda: len(bench.points(key)) > 3)
    bench.executor.cancel(key)
    assert bench.ending(key).reason is Reason.INTERRUPTED
    assert sorted(path.name for path in task.folder.glob("*.log")) == [
        "attempt-1-rank-1.log",
        "attempt-1.log",
    ]
    bench.until(lambda: bench.executor.free_slots() == 2)
    single = replace(task.spec, resources=Resources())
    next_key = bench.launch(replace(task, attempt=2, spec=single))
    assert bench.ending(next_key).reason is Reason.COMPLETED
    told = [*bench.stored[key], *bench.stored[next_key]]
    expected = list(start(single, [STEPS], tmp_path / "alone"))
    losses = {place: report.loss for place, report in curve(expected).items()}
    found = curve(told)
    assert {place: found[place].loss for place in losses} == losses
    assert isinstance(told[-1], Endpoint)
    assert told[-1] == expected[-1]


@pytest.mark.ray
@pytest.mark.slow
def test_a_lost_rank_ends_the_others_and_the_attempt(bench):
    task = on_two(bench.task(horizons=(LONG,)), Sharding.SHARD)
    key = bench.launch(task)
    bench.until(lambda: bench.points(key))
    (other,) = ranks(task)
    os.kill(other, signal.SIGKILL)
    ended = bench.ending(key)
    assert ended.reason is Reason.WORKER_LOST
    assert ended.detail == "the process of rank 1 is gone"
    bench.until(lambda: bench.executor.free_slots() == 2)
    assert not ranks(task)


@pytest.mark.ray
@pytest.mark.slow
def test_ranks_of_a_killed_attempt_end_and_their_place_is_free_again(bench):
    task = on_two(bench.task(horizons=(LONG,)), Sharding.REPLICATE)
    key = bench.launch(task)
    bench.until(lambda: bench.points(key))
    assert ranks(task)
    ray.kill(ray.get_actor(f"{key.run_id}-{key.attempt}"))
    assert bench.ending(key).reason is Reason.WORKER_LOST
    bench.until(lambda: bench.executor.free_slots() == 2)
    assert not ranks(task)
