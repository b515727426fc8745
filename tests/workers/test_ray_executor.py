"""Against a real cluster of this machine, which ends without leaving a process behind."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import ray
import torch

from orchestrator.executor import AttemptKey
from orchestrator.states import Reason
from sweeps.metrics import Endpoint, StepMetrics
from tests.workers.executor_contract import BATCH, LONG, SHORT, Bench, ExecutorContract
from workers.ray_executor import RayExecutor

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]

DRIVER = """
import pickle, sys
from pathlib import Path
from workers.ray_executor import RayExecutor

address, cache, tasks = sys.argv[1:]
executor = RayExecutor(address, 2, Path(cache))
for task in pickle.loads(Path(tasks).read_bytes()):
    executor.launch(task)
"""
"""Launches tasks on a running cluster and exits at once."""


def children(pid: int) -> set[int]:
    """All living descendants of a process."""
    listing = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found, wave = set[int](), {pid}
    while wave:
        wave = {child for child, parent in pairs if parent in wave} - found
        found |= wave
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayExecutor]:
    before = children(os.getpid())
    executor = RayExecutor(None, 2, tmp_path_factory.mktemp("cache"))
    started = children(os.getpid()) - before
    assert started
    yield executor
    executor.shutdown()
    assert not children(os.getpid()) & started


@pytest.fixture
def executor(cluster: RayExecutor) -> Iterator[RayExecutor]:
    """The cluster's executor, emptied after each test."""
    yield cluster
    for name in ray.util.list_named_actors():
        run_id, _, attempt = name.rpartition("-")
        cluster.cancel(AttemptKey(run_id=run_id, attempt=int(attempt)))
    while cluster.free_slots() < 2:
        cluster.poll([])


class TestRayExecutor(ExecutorContract):
    @pytest.fixture
    def executor(self, executor: RayExecutor) -> RayExecutor:
        return executor


@pytest.fixture
def bench(executor: RayExecutor, tmp_path: Path) -> Bench:
    return Bench.over_text(executor, tmp_path)


def inside(key: AttemptKey, question: str) -> object:
    """What an expression gives in the process of an attempt's actor."""
    actor = ray.get_actor(f"{key.run_id}-{key.attempt}")
    return ray.get(
        actor.__ray_call__.remote(lambda _worker: eval(question, {"os": os, "torch": torch}))
    )


def test_a_killed_worker_is_lost_and_the_next_attempt_goes_on(bench):
    task = bench.task(horizons=(LONG,))
    first = bench.launch(task)
    bench.until(lambda: bench.points(first))
    pid = inside(first, "os.getpid()")
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)
    assert bench.ending(first).reason is Reason.WORKER_LOST
    bench.until(lambda: bench.executor.free_slots() == 2)
    second = bench.launch(replace(task, attempt=2))
    bench.until(lambda: bench.points(second))


def test_each_worker_has_its_share_of_the_cores_and_the_terminal_is_left_alone(bench):
    task = bench.task(horizons=(LONG,))
    key = bench.launch(task)
    bench.until(lambda: bench.points(key))
    cores = len(os.sched_getaffinity(0))
    assert inside(key, "torch.get_num_threads()") == max(1, cores // 2)
    inside(key, "os.write(1, b'printed by a library') and os.write(2, b'complained')")
    log = (task.folder / "attempt-1.log").read_text()
    assert "printed by a library" in log
    assert "complained" in log


def test_a_worker_outlives_its_driver_and_the_next_one_hears_everything(bench, tmp_path):
    tasks = [bench.task(seed=1), bench.task(seed=2, horizons=(LONG,))]
    (tmp_path / "tasks").write_bytes(pickle.dumps(tasks))
    address = ray.get_runtime_context().gcs_address
    subprocess.run(
        [sys.executable, "-c", DRIVER, address, str(tmp_path), str(tmp_path / "tasks")],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    short, long = (task.key for task in tasks)
    bench.stored |= {short: [], long: []}
    assert bench.ending(short).reason is Reason.COMPLETED
    _preflight, *steps, last = bench.stored[short]
    assert [event.tokens for event in steps] == list(range(BATCH, SHORT + 1, BATCH))
    assert all(isinstance(event, StepMetrics) for event in steps)
    assert isinstance(last, Endpoint)
    bench.until(lambda: bench.points(long))
    bench.executor.cancel(long)
    assert bench.ending(long).reason is Reason.INTERRUPTED


def test_launching_again_adopts_the_worker_and_a_higher_attempt_ends_it(bench):
    task = bench.task(horizons=(LONG,))
    first = bench.launch(task)
    bench.until(lambda: bench.points(first))
    pid = inside(first, "os.getpid()")
    bench.executor.launch(task)
    assert inside(first, "os.getpid()") == pid
    second = bench.launch(replace(task, attempt=2))
    bench.until(lambda: bench.points(second))
    assert bench.endings[first].reason is Reason.WORKER_LOST
