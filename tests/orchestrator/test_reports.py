"""Taking in reports: exactly once, fenced, and what an ending does to the run."""

from datetime import timedelta
from math import inf, isnan, nan

import pytest

from orchestrator.executor import AttemptKey, Report
from orchestrator.reports import Verdict
from orchestrator.states import Reason, State
from orchestrator.store import Store
from sweeps.errors import ConflictError
from sweeps.metrics import Diverged
from sweeps.records import Outcome
from tests.orchestrator.values import BATCH, LEASE, START, completed, endpoint, heard, plan_of, step

LATER = START + timedelta(seconds=30)


@pytest.fixture
def task(store):
    plan = plan_of(recipes=("bf16",))
    store.submit(plan, START)
    return store.claim(plan.runs[0].run_id, START)


def curve(store: Store) -> list[tuple[int | None, int, float]]:
    return [(point.horizon, point.tokens, point.loss) for point in store.records("small")[0].curve]


def test_a_report_heard_twice_is_stored_once(store, task):
    report = heard(task, step(1024), step(2048), endpoint(40960))
    for _ in range(3):
        assert store.apply(report, LATER) is Verdict.TAKEN
    assert curve(store) == [(None, 1024, 3.0), (None, 2048, 3.0)]
    assert store.watches()[0].offset == 3


@pytest.mark.parametrize("offset", range(5))
def test_of_an_overlapping_report_only_the_new_part_is_stored(store, task, offset):
    steps = [step(BATCH * n) for n in range(1, 9)]
    store.apply(heard(task, *steps[:4]), LATER)
    store.apply(heard(task, *steps[offset:], offset=offset), LATER)
    assert [tokens for _, tokens, _ in curve(store)] == [point.tokens for point in steps]


def test_a_report_that_left_events_out_is_not_stored_and_no_sign_of_life(store, task):
    before = store.snapshot(room=0).underway
    assert store.apply(heard(task, step(1024), offset=5), LATER) is Verdict.GAP
    assert store.snapshot(room=0).underway == before
    assert curve(store) == []


def test_an_empty_report_renews_the_lease(store, task):
    store.apply(heard(task), LATER)
    assert store.snapshot(room=0).underway[0].lease_expires_at == LATER + LEASE


def test_an_older_attempt_is_fenced_off(store, task):
    run_id = task.key.run_id
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.LEASE_EXPIRED, now=LATER)
    newer = store.claim(run_id, LATER)
    assert newer.attempt == task.attempt + 1
    assert store.apply(completed(task), LATER) is Verdict.FENCED
    assert store.runs("small")[0].state is State.RUNNING
    assert store.apply(completed(newer), LATER) is Verdict.TAKEN


def test_a_lost_attempt_is_fenced_before_the_next_begins(store, task):
    store.move(task.key.run_id, State.RUNNING, State.QUEUED, Reason.LEASE_EXPIRED, now=LATER)
    assert store.apply(heard(task, step(1024)), LATER) is Verdict.FENCED


def test_a_result_is_never_overridden(store, task):
    store.apply(completed(task), LATER)
    before = store.records("small"), store.events(task.key.run_id)
    for reason in (Reason.NON_FINITE, Reason.TRAINING_ERROR, Reason.COMPLETED):
        late = heard(task, endpoint(40960, loss=9.0), offset=2, ended=reason)
        assert store.apply(late, LATER) is Verdict.FENCED
    assert (store.records("small"), store.events(task.key.run_id)) == before


def test_an_attempt_that_never_was_is_fenced(store, task):
    for key in (
        AttemptKey(run_id="0" * 16, attempt=1),
        AttemptKey(run_id=task.key.run_id, attempt=7),
    ):
        assert store.apply(Report(key=key, offset=0), LATER) is Verdict.FENCED


@pytest.mark.parametrize(
    ("reason", "state", "outcome"),
    [
        (Reason.NON_FINITE, State.DIVERGED, Outcome.DIVERGED),
        (Reason.LOSS_OUT_OF_BOUNDS, State.DIVERGED, Outcome.DIVERGED),
        (Reason.OUT_OF_MEMORY, State.FAILED, Outcome.FAILED),
        (Reason.DISK_FULL, State.FAILED, Outcome.FAILED),
        (Reason.INVALID_RUN, State.FAILED, Outcome.FAILED),
        (Reason.PREFLIGHT_FAILED, State.FAILED, Outcome.FAILED),
        (Reason.TRAINING_ERROR, State.FAILED, Outcome.FAILED),
    ],
)
def test_an_ending_moves_the_run_where_its_reason_leads(store, task, reason, state, outcome):
    store.apply(heard(task, step(1024), ended=reason, detail="it was so"), LATER)
    (run,) = store.runs("small")
    assert (run.state, run.reason, run.detail) == (state, reason, "it was so")
    (record,) = store.records("small")
    assert (record.outcome, record.detail) == (outcome, "it was so")


@pytest.mark.parametrize("reason", [Reason.INTERRUPTED, Reason.WORKER_LOST, Reason.LEASE_EXPIRED])
def test_an_ending_without_result_is_left_to_the_scheduler(store, task, reason):
    store.apply(heard(task, ended=reason, detail="gone"), LATER)
    (underway,) = store.snapshot(room=0).underway
    assert (underway.ended.reason, underway.ended.detail) == (reason, "gone")
    assert store.watches() == ()
    assert store.apply(completed(task), LATER) is Verdict.FENCED


@pytest.mark.parametrize("reason", [Reason.PLANNED, Reason.LAUNCHED, Reason.RETRY_ASKED])
def test_a_reason_that_ends_no_attempt_is_refused_and_nothing_stored(store, task, reason):
    with pytest.raises(ConflictError, match=reason):
        store.apply(heard(task, step(1024), ended=reason), LATER)
    assert store.watches()[0].offset == 0
    assert curve(store) == []


def test_completed_without_its_endpoints_is_a_failure_that_names_them(store, task):
    store.apply(heard(task, endpoint(40960), ended=Reason.COMPLETED), LATER)
    (run,) = store.runs("small")
    assert (run.state, run.reason) == (State.FAILED, Reason.TRAINING_ERROR)
    assert "81920" in run.detail
    assert "40960" not in run.detail


def test_the_first_measurement_of_a_horizon_stands(store, task):
    store.apply(heard(task, endpoint(40960, loss=2.5), endpoint(40960, loss=9.9)), LATER)
    assert [point.loss for point in store.records("small")[0].endpoints] == [2.5]


def test_why_a_run_diverged_is_kept(store, task):
    diverged = Diverged(horizon=None, step=3, tokens=3072, detail="loss is nan at step 3")
    store.apply(heard(task, step(1024), step(2048), diverged), LATER)
    store.apply(heard(task, offset=3, ended=Reason.NON_FINITE), LATER)
    assert store.records("small")[0].detail == "loss is nan at step 3"


def test_non_finite_numbers_are_stored_exactly(store, task):
    store.apply(heard(task, endpoint(40960, loss=inf), endpoint(81920, loss=nan)), LATER)
    store.apply(heard(task, step(1024, loss=-inf), step(2048, loss=nan), offset=2), LATER)
    (record,) = store.records("small")
    assert record.endpoints[0].loss == inf
    assert isnan(record.endpoints[1].loss)
    assert record.curve[0].loss == -inf
    assert isnan(record.curve[1].loss)


def test_after_a_resume_every_token_count_has_one_live_value(store, task):
    run_id = task.key.run_id
    store.apply(heard(task, *(step(1024 * n, loss=1.0) for n in range(1, 7))), LATER)
    store.apply(heard(task, *(step(1024 * n, loss=1.0) for n in range(7, 9)), offset=6), LATER)
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST, now=LATER)
    second = store.claim(run_id, LATER)
    store.apply(heard(second, *(step(1024 * n, loss=2.0) for n in range(5, 10))), LATER)
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST, now=LATER)
    third = store.claim(run_id, LATER)
    store.apply(heard(third, step(3072, loss=3.0)), LATER)
    losses = [1.0, 1.0, 3.0]
    assert curve(store) == [(None, 1024 * n, loss) for n, loss in enumerate(losses, start=1)]
    store.apply(heard(third, step(4096, loss=3.0), offset=1), LATER)
    assert [tokens for _, tokens, _ in curve(store)] == [1024, 2048, 3072, 4096]


def test_paths_are_superseded_one_by_one(store, task):
    run_id = task.key.run_id
    branch = [step(1024 * n, horizon=40960, loss=1.0) for n in (33, 34)]
    trunk = [step(1024 * n, loss=1.0) for n in (33, 34)]
    store.apply(heard(task, *branch, *trunk), LATER)
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST, now=LATER)
    second = store.claim(run_id, LATER)
    store.apply(heard(second, step(34816, horizon=40960, loss=2.0)), LATER)
    assert sorted(curve(store), key=str) == sorted(
        [(40960, 33792, 1.0), (40960, 34816, 2.0), (None, 33792, 1.0), (None, 34816, 1.0)], key=str
    )


def test_a_worker_that_goes_back_within_an_attempt_supersedes_itself(store, task):
    store.apply(
        heard(task, step(1024, loss=1.0), step(2048, loss=1.0), step(1024, loss=2.0)), LATER
    )
    assert curve(store) == [(None, 1024, 2.0)]
