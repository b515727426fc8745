"""Summaries, records and progress of a sweep."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import event
from sqlalchemy.engine.default import DefaultDialect

from orchestrator.states import Reason, State
from orchestrator.store import Store
from orchestrator.tables import UtcTime
from sweeps.errors import NotFoundError
from sweeps.records import Outcome
from tests.orchestrator.values import START, completed, endpoint, heard, plan_of, step

LATER = START + timedelta(minutes=1)
READERS = {
    "sweeps": lambda store, _sweep: store.sweeps(),
    "runs": lambda store, sweep: store.runs(sweep),
    "records": lambda store, sweep: store.records(sweep),
    "progress": lambda store, sweep: store.progress(sweep, slots=2),
    "snapshot": lambda store, _sweep: store.snapshot(room=2),
    "rates": lambda store, _sweep: store.rates(slots=2),
}


def test_a_new_sweep_has_records_of_runs_that_wait(store):
    plan = plan_of()
    store.submit(plan, START)
    for record, run in zip(store.records("small"), plan.runs, strict=True):
        assert (record.spec, record.N, record.horizons) == (run.spec, run.N, run.horizons)
        assert record.flops_per_token == run.flops_per_token
        assert record.outcome is Outcome.WAITING
        assert (record.detail, record.endpoints, record.curve) == ("", (), ())


def test_a_record_holds_what_its_own_sweep_asked_for(store):
    short = plan_of(recipes=("bf16",), budgets=("40960tok",))
    longer = plan_of(name="longer", recipes=("bf16",), budgets=("40960tok", "81920tok"))
    store.submit(short, START)
    store.submit(longer, START)
    (run,) = short.runs
    task = store.claim(run.run_id, START)
    assert task.horizons == (40960, 81920)
    branch, far = (run.spec.branch_tokens(horizon) for horizon in task.horizons)
    points = [
        step(branch),
        step(40960, horizon=40960),
        step(far),
        step(81920, horizon=81920),
    ]
    store.apply(heard(task, *points), LATER)
    store.apply(completed(task, offset=4), LATER)
    (seen_short,), (seen_longer,) = store.records("small"), store.records("longer")
    assert [point.tokens for point in seen_short.endpoints] == [40960]
    assert list(seen_short.curve) == points[:2]
    assert [point.tokens for point in seen_longer.endpoints] == [40960, 81920]
    assert list(seen_longer.curve) == points


def test_endpoints_come_back_equal_and_ascending(store):
    plan = plan_of(recipes=("bf16",))
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    late, early = endpoint(81920, loss=1 / 3), endpoint(40960, loss=2 / 3)
    store.apply(heard(task, late, early), LATER)
    assert store.records("small")[0].endpoints == (early, late)
    assert store.measured_horizons() == {task.key.run_id: (40960, 81920)}


def test_times_are_utc_and_exact(store):
    moment = START.replace(microsecond=123456).astimezone()
    store.submit(plan_of(), moment)
    summary = store.sweep("small")
    assert summary.created_at == moment
    assert summary.created_at.utcoffset() == timedelta(0)
    with pytest.raises(ValueError, match="time zone"):
        UtcTime().process_bind_param(START.replace(tzinfo=None), DefaultDialect())


def test_events_of_an_unknown_run_are_not_found(store):
    with pytest.raises(NotFoundError, match="'feed'"):
        store.events("feed")


def test_progress_counts_cells_tokens_and_states(store):
    plan = plan_of()
    store.submit(plan, START)
    before = store.progress("small", slots=1)
    total = sum(run.tokens for run in plan.runs)
    assert (before.cells_done, before.cells_total) == (0, 4)
    assert (before.tokens_done, before.tokens_total, before.eta_seconds) == (0, total, None)
    task = store.claim(plan.runs[0].run_id, START)
    store.apply(heard(task, step(10240), step(20480, loss=2.75)), LATER)
    during = store.progress("small", slots=1)
    assert during.tokens_done == 20480
    assert during.runs == {**dict.fromkeys(State, 0), State.RUNNING: 1, State.QUEUED: 1}
    (now,) = during.running
    assert (now.run_id, now.label, now.tokens) == (task.key.run_id, "m bf16 s0", 20480)
    assert (now.loss, now.tokens_per_second) == (2.75, 1000.0)
    assert during.eta_seconds >= (plan.runs[0].tokens - 20480) / 1000.0
    store.apply(completed(task, offset=2), LATER)
    after = store.progress("small", slots=1)
    assert (after.cells_done, after.tokens_done) == (2, plan.runs[0].tokens)
    assert after.running == ()


def test_progress_counts_the_tokens_of_a_branch_under_way(store):
    plan = plan_of(recipes=("bf16",), budgets=("40960tok",))
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    branch = plan.runs[0].spec.branch_tokens(40960)
    store.apply(heard(task, step(branch), step(branch + 2048, horizon=40960)), LATER)
    assert store.progress("small", slots=1).tokens_done == branch + 2048


def test_the_eta_is_what_is_left_at_the_measured_speed(store):
    plan = plan_of(recipes=("bf16",), seeds=(0, 1, 2))
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    store.apply(heard(task, step(10240)), LATER)  # 1000 tokens per second, as all three
    each = plan.runs[0].tokens / 1000
    left = each - 10.24
    assert store.progress("small", slots=1).eta_seconds == pytest.approx(2 * each + left)
    assert store.progress("small", slots=3).eta_seconds == pytest.approx(each)


def test_a_run_that_failed_is_done_with_and_costs_no_time(store):
    plan = plan_of()
    store.submit(plan, START)
    for run in plan.runs:
        task = store.claim(run.run_id, START)
        store.apply(heard(task, endpoint(40960), ended=Reason.OUT_OF_MEMORY), LATER)
    progress = store.progress("small", slots=2)
    assert (progress.cells_done, progress.cells_total) == (4, 4)
    assert (progress.tokens_total, progress.eta_seconds) == (0, 0.0)


def test_progress_goes_back_with_a_run_that_lost_work(store):
    plan = plan_of(recipes=("bf16",))
    store.submit(plan, START)
    run_id = plan.runs[0].run_id
    task = store.claim(run_id, START)
    store.apply(heard(task, step(10240), step(20480)), LATER)
    store.move(run_id, State.RUNNING, State.QUEUED, Reason.WORKER_LOST, now=LATER)
    again = store.claim(run_id, LATER)
    store.apply(heard(again, step(5120)), LATER)
    assert store.progress("small", slots=1).tokens_done == 5120


@pytest.mark.parametrize("reader", sorted(READERS))
def test_the_number_of_queries_does_not_grow_with_the_sweep(store, reader):
    counts = []
    read: Callable[[Store, str], object] = READERS[reader]
    for seeds in (range(1), range(12)):
        sweep_id = store.submit(plan_of(seeds=tuple(seeds)), START).sweep_id
        statements: list[object] = []

        def note(*arguments: object, found: list[object] = statements) -> None:
            found.append(arguments)

        event.listen(store._engine, "before_cursor_execute", note)
        read(store, sweep_id)
        event.remove(store._engine, "before_cursor_execute", note)
        counts.append(len(statements))
    assert counts[0] == counts[1] > 0
