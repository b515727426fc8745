"""What the scheduler sees of attempts: strikes, leases, the wish to stop."""

from datetime import timedelta

import pytest

from orchestrator.states import Reason, State
from orchestrator.store import Store
from sweeps.errors import NotFoundError
from tests.orchestrator.values import LEASE, START, completed, endpoint, heard, plan_of

LATER = START + timedelta(seconds=30)
LONGER = ("40960tok", "81920tok", "163840tok")


@pytest.fixture
def run_id(store):
    plan = plan_of(recipes=("bf16",))
    store.submit(plan, START)
    return plan.runs[0].run_id


def lose(store: Store, run_id: str, reason: Reason = Reason.WORKER_LOST) -> None:
    store.claim(run_id, LATER)
    store.move(run_id, State.RUNNING, State.QUEUED, reason, now=LATER)


def strikes(store: Store, run_id: str) -> dict[Reason, int]:
    """Of the next attempt."""
    store.claim(run_id, LATER)
    (underway,) = store.snapshot(room=0).underway
    return dict(underway.strikes)


def test_earlier_attempts_count_by_reason(store, run_id):
    for reason in (Reason.WORKER_LOST, Reason.LEASE_EXPIRED, Reason.WORKER_LOST):
        lose(store, run_id, reason)
    found = strikes(store, run_id)
    assert found == {Reason.WORKER_LOST: 2, Reason.LEASE_EXPIRED: 1}


def test_a_retry_starts_the_count_afresh(store, run_id):
    lose(store, run_id)
    task = store.claim(run_id, LATER)
    store.apply(heard(task, ended=Reason.OUT_OF_MEMORY), LATER)
    store.retry("small", LATER)
    lose(store, run_id)
    assert strikes(store, run_id) == {Reason.WORKER_LOST: 1}


def test_an_added_horizon_starts_the_count_afresh(store, run_id):
    lose(store, run_id)
    task = store.claim(run_id, LATER)
    store.apply(completed(task), LATER)
    store.submit(plan_of(name="longer", recipes=("bf16",), budgets=LONGER), LATER)
    assert strikes(store, run_id) == {}


def test_a_horizon_added_under_way_starts_the_count_afresh(store, run_id):
    lose(store, run_id)
    task = store.claim(run_id, LATER)
    store.submit(plan_of(name="longer", recipes=("bf16",), budgets=LONGER), LATER)
    store.apply(completed(task), LATER)
    assert strikes(store, run_id) == {}


def test_a_measurement_starts_the_count_with_its_own_attempt(store, run_id):
    lose(store, run_id)
    lose(store, run_id)
    task = store.claim(run_id, LATER)
    store.apply(heard(task, endpoint(40960)), LATER)
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST, now=LATER)
    assert strikes(store, run_id) == {Reason.WORKER_LOST: 1}


def test_the_first_wish_to_stop_sets_the_time(store, run_id):
    task = store.claim(run_id, START)
    store.note_stop(task.key, LATER)
    store.note_stop(task.key, LATER + LEASE)
    assert store.snapshot(room=0).underway[0].stop_by == LATER


def test_extending_leases_never_shortens_one(store, run_id):
    task = store.claim(run_id, START)
    store.apply(heard(task), LATER)
    store.extend_leases(START)
    assert store.snapshot(room=0).underway[0].lease_expires_at == LATER + LEASE
    store.extend_leases(LATER + LEASE)
    assert store.snapshot(room=0).underway[0].lease_expires_at == LATER + 2 * LEASE


def test_a_run_is_complete_when_all_that_live_sweeps_ask_is_measured(store, run_id):
    task = store.claim(run_id, START)
    store.submit(plan_of(name="longer", recipes=("bf16",), budgets=LONGER), LATER)
    store.apply(heard(task, endpoint(40960), endpoint(81920)), LATER)
    assert not store.snapshot(room=0).underway[0].is_complete
    store.wish_cancel("longer", LATER)
    assert store.snapshot(room=0).underway[0].is_complete


def test_a_sweep_sees_only_its_own_runs_wait(store, run_id):
    store.submit(plan_of(name="other", seeds=(5,)), LATER)
    small = store.sweep("small").sweep_id
    assert [run.run_id for run in store.snapshot(room=9, sweep_id=small).waiting] == [run_id]
    assert len(store.snapshot(room=9).waiting) == 3
    assert len(store.snapshot(room=2).waiting) == 2


def test_progress_of_what_is_unknown_is_not_found(store):
    with pytest.raises(NotFoundError):
        store.progress("nothing", slots=1)
