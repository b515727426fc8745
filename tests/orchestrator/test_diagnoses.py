"""What is stored of preflights and diagnoses: once each, fenced, and in step with the curve."""

from datetime import timedelta

import pytest

from orchestrator.executor import Task
from orchestrator.reports import Verdict
from orchestrator.states import Reason, State
from orchestrator.store import Store
from sweeps.errors import NotFoundError
from sweeps.metrics import TrainEvent
from tests.orchestrator.values import (
    BATCH,
    START,
    completed,
    diagnosis,
    heard,
    plan_of,
    preflight,
    step,
)

LATER = START + timedelta(seconds=30)
HORIZON = 40960


@pytest.fixture
def task(store):
    plan = plan_of(recipes=("bf16",))
    store.submit(plan, START)
    return store.claim(plan.runs[0].run_id, START)


def again(store: Store, task: Task) -> Task:
    """The next attempt, after the worker of this one was lost."""
    run_id = task.key.run_id
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST, now=LATER)
    claimed = store.claim(run_id, LATER)
    assert claimed is not None
    return claimed


def places(store: Store, task: Task) -> list[tuple[int | None, int]]:
    return [(seen.horizon, seen.tokens // BATCH) for seen in store.diagnoses(task.key.run_id)]


def test_a_preflight_is_seen_with_its_run_and_nothing_before_it(store, task):
    assert store.runs("small")[0].preflight is None
    store.apply(heard(task, preflight()), LATER)
    assert store.runs("small")[0].preflight == preflight()


def test_the_preflight_of_the_newest_attempt_that_has_one_is_shown(store, task):
    store.apply(heard(task, preflight(seconds=1.0)), LATER)
    second = again(store, task)
    assert store.runs("small")[0].preflight == preflight(seconds=1.0)
    store.apply(heard(second, preflight(seconds=2.0)), LATER)
    assert store.runs("small")[0].preflight == preflight(seconds=2.0)
    again(store, second)
    assert store.runs("small")[0].preflight == preflight(seconds=2.0)


def test_a_preflight_of_an_older_attempt_is_refused(store, task):
    second = again(store, task)
    assert store.apply(heard(task, preflight(failed="rht")), LATER) is Verdict.FENCED
    store.apply(heard(second, preflight()), LATER)
    assert store.runs("small")[0].preflight == preflight()


def test_a_run_whose_preflight_fails_is_failed_at_once_and_not_tried_again(store, task):
    found = preflight(failed="rht")
    report = heard(task, found, ended=Reason.PREFLIGHT_FAILED, detail=str(found.failure))
    store.apply(report, LATER)
    (run,) = store.runs("small")
    assert (run.state, run.reason) == (State.FAILED, Reason.PREFLIGHT_FAILED)
    assert run.detail == ("the preflight of cpu: C kernel, AVX2 failed: rht: within 1e-07")
    assert run.preflight == found
    assert store.snapshot(room=5).waiting == ()
    store.retry("small", LATER)
    assert [waiting.run_id for waiting in store.snapshot(room=5).waiting] == [run.run_id]


def test_diagnoses_come_back_as_they_were_told_in_the_order_of_training(store, task):
    told = [diagnosis(BATCH), diagnosis(2 * BATCH, sqnr=None), diagnosis(HORIZON, horizon=HORIZON)]
    store.apply(heard(task, step(BATCH), told[0], step(2 * BATCH), told[1]), LATER)
    store.apply(heard(task, told[2], offset=4), LATER)
    assert list(store.diagnoses(task.key.run_id)) == told


def test_a_diagnosis_heard_twice_is_stored_once(store, task):
    report = heard(task, diagnosis(BATCH), diagnosis(2 * BATCH))
    for _ in range(3):
        assert store.apply(report, LATER) is Verdict.TAKEN
    overlapping = heard(task, diagnosis(2 * BATCH), diagnosis(3 * BATCH), offset=1)
    store.apply(overlapping, LATER)
    assert places(store, task) == [(None, 1), (None, 2), (None, 3)]


def test_a_diagnosis_of_an_older_attempt_is_refused(store, task):
    store.apply(heard(task, diagnosis(BATCH)), LATER)
    again(store, task)
    assert store.apply(heard(task, diagnosis(2 * BATCH), offset=1), LATER) is Verdict.FENCED
    assert places(store, task) == [(None, 1)]


def test_what_is_trained_again_is_told_again_and_the_rest_stays(store, task):
    branch = [diagnosis(BATCH * n, horizon=HORIZON) for n in (33, 34)]
    trunk = [diagnosis(BATCH * n) for n in (2, 4, 6)]
    store.apply(heard(task, *trunk, *branch), LATER)
    second = again(store, task)
    store.apply(heard(second, diagnosis(4 * BATCH, sqnr=7.0)), LATER)
    assert places(store, task) == [(None, 2), (HORIZON, 33), (HORIZON, 34), (None, 4)]
    newest = store.diagnoses(task.key.run_id)[-1]
    assert newest.layers[0].operands[0].rotated.sqnr == 7.0


def test_a_curve_that_goes_back_takes_the_diagnoses_beyond_it_along(store, task):
    store.apply(heard(task, *(diagnosis(BATCH * n) for n in (2, 4, 6))), LATER)
    second = again(store, task)
    store.apply(heard(second, step(3 * BATCH)), LATER)
    assert places(store, task) == [(None, 2)]


def test_a_diagnosis_stays_when_its_own_attempt_reports_the_same_step_after_it(store, task):
    store.apply(heard(task, diagnosis(2 * BATCH)), LATER)
    store.apply(heard(task, step(2 * BATCH), step(3 * BATCH), offset=1), LATER)
    assert places(store, task) == [(None, 2)]


def test_neither_disturbs_curves_nor_endpoints(store, task):
    events: list[TrainEvent] = [
        preflight(),
        step(BATCH),
        diagnosis(BATCH),
        step(2 * BATCH),
        diagnosis(2 * BATCH),
    ]
    store.apply(heard(task, *events), LATER)
    store.apply(completed(task, offset=len(events)), LATER)
    (record,) = store.records("small")
    assert [point.tokens for point in record.curve] == [BATCH, 2 * BATCH]
    assert [point.tokens for point in record.endpoints] == list(task.horizons)
    assert store.runs("small")[0].state is State.SUCCEEDED


def test_a_run_that_does_not_exist_has_no_diagnoses(store):
    with pytest.raises(NotFoundError, match="there is no run '0000'"):
        store.diagnoses("0000")
