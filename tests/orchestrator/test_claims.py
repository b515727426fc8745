"""Many that want the same run: one gets it."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from orchestrator.states import Reason, State
from orchestrator.store import Store
from tests.orchestrator.values import LEASE, START, plan_of

SEEDS = tuple(range(10))


def claim_all(
    url: str, runs: Path, run_ids: list[str], start: Barrier, won: "SimpleQueue[list[str]]"
) -> None:
    """In a process of its own: try to claim every run, tell which were won."""
    store = Store(url, runs=runs, lease=LEASE)
    start.wait()
    won.put([run_id for run_id in run_ids if store.claim(run_id, START) is not None])
    store.close()


def test_a_claim_gives_the_next_attempt_its_horizons_and_folder(store, tmp_path):
    plan = plan_of()
    store.submit(plan, START)
    run = plan.runs[0]
    task = store.claim(run.run_id, START)
    assert (task.spec, task.horizons, task.attempt) == (run.spec, run.horizons, 1)
    assert task.folder == tmp_path / "runs" / run.run_id
    assert store.claim(run.run_id, START) is None


def test_a_claim_at_an_old_version_is_lost(store):
    plan = plan_of()
    store.submit(plan, START)
    run_id = plan.runs[0].run_id
    assert store.claim(run_id, START, version=7) is None
    assert store.claim(run_id, START, version=1) is not None


def test_nobody_claims_what_nobody_wants_or_knows(store):
    plan = plan_of()
    store.submit(plan, START)
    store.wish_cancel("small", START)
    assert store.claim(plan.runs[0].run_id, START) is None
    assert store.claim("0" * 16, START) is None


def test_of_sixteen_threads_one_claims(store):
    plan = plan_of()
    store.submit(plan, START)
    run_id = plan.runs[0].run_id
    with ThreadPoolExecutor(16) as pool:
        tasks = list(pool.map(lambda _: store.claim(run_id, START), range(16)))
    assert len([task for task in tasks if task is not None]) == 1
    assert [event.reason for event in store.events(run_id)] == [Reason.PLANNED, Reason.LAUNCHED]


@pytest.mark.slow
def test_processes_that_race_share_the_runs_without_overlap(store, url, tmp_path):
    plan = plan_of(seeds=SEEDS)
    store.submit(plan, START)
    run_ids = [run.run_id for run in plan.runs]
    context = multiprocessing.get_context("spawn")
    start, queue = context.Barrier(3), context.SimpleQueue()
    arguments = (url, tmp_path / "runs", run_ids, start, queue)
    processes = [context.Process(target=claim_all, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    won = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    assert sorted(run_id for share in won for run_id in share) == sorted(run_ids)
    assert store.sweep("small").runs[State.RUNNING] == len(run_ids)


def test_a_move_that_came_too_late_changes_nothing(store):
    plan = plan_of()
    store.submit(plan, START)
    run_id = plan.runs[0].run_id
    store.claim(run_id, START)
    later = START + timedelta(seconds=1)
    cancel = (run_id, State.QUEUED, State.CANCELLED, Reason.CANCELLED_BY_USER)
    assert not store.move(*cancel, now=later)
    lost = (run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST)
    assert not store.move(*lost, now=later, version=1)
    assert store.move(*lost, now=later, version=2)
    assert not store.move(*lost, now=later, version=2)
    assert len(store.events(run_id)) == 3
