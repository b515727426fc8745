"""Submitting, cancelling and retrying, with one sweep and with two that share runs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.states import Reason, State
from orchestrator.store import Store
from sweeps.errors import InputError, NotFoundError
from sweeps.plan import Plan
from sweeps.records import Outcome
from tests.orchestrator.values import START, completed, heard, plan_of

LATER = START + timedelta(minutes=5)
LONGER = ("40960tok", "81920tok", "163840tok")


def states(store: Store, sweep: str) -> dict[str, State]:
    return {run.run_id: run.state for run in store.runs(sweep)}


def finish(store: Store, run_id: str) -> None:
    task = store.claim(run_id, LATER)
    assert task is not None
    store.apply(completed(task), LATER)


def finish_all(store: Store, plan: Plan) -> None:
    for run in plan.runs:
        finish(store, run.run_id)


def test_a_submitted_plan_is_queued_in_plan_order(store):
    plan = plan_of(seeds=(0, 1))
    summary = store.submit(plan, START)
    assert summary.runs[State.QUEUED] == summary.num_runs == len(plan.runs) == 4
    waiting = store.snapshot(room=10).waiting
    assert [run.run_id for run in waiting] == [run.run_id for run in plan.runs]


def test_the_same_plan_again_is_the_same_sweep_and_nothing_new(store):
    plan = plan_of()
    first = store.submit(plan, START)
    assert store.submit(plan, LATER) == first
    assert len(store.sweeps()) == 1
    assert all(len(store.events(run.run_id)) == 1 for run in plan.runs)


def test_a_finished_sweep_submitted_again_stays_finished(store):
    plan = plan_of()
    store.submit(plan, START)
    finish_all(store, plan)
    assert store.submit(plan, LATER).is_over
    assert store.snapshot(room=10).waiting == ()


def test_an_overlapping_plan_adds_only_the_difference(store):
    store.submit(plan_of(seeds=(0,)), START)
    wider = plan_of(name="wider", seeds=(0, 1))
    store.submit(wider, LATER)
    new = [run for run in wider.runs if store.events(run.run_id)[0].at == LATER]
    assert len(new) == 2
    assert {run.spec.seeds.init for run in new} == {1}
    assert len(store.snapshot(room=10).waiting) == 4


def test_a_longer_horizon_sends_a_finished_run_back_for_that_horizon_alone(store):
    short = plan_of()
    store.submit(short, START)
    finish_all(store, short)
    longer = plan_of(name="longer", budgets=LONGER)
    store.submit(longer, LATER)
    run_id = short.runs[0].run_id
    assert store.events(run_id)[-1].reason is Reason.HORIZON_ADDED
    assert store.claim(run_id, LATER).horizons == (163840,)


def test_a_horizon_asked_elsewhere_does_not_reopen_a_finished_sweep(store):
    short = plan_of()
    store.submit(short, START)
    finish_all(store, short)
    before = store.records("small")
    store.submit(plan_of(name="longer", budgets=LONGER), LATER)
    assert store.sweep("small").is_over
    assert store.records("small") == before
    assert not store.sweep("longer").is_over


def test_a_horizon_added_while_a_run_trains_follows_in_the_next_attempt(store):
    plan = plan_of()
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    store.submit(plan_of(name="longer", budgets=LONGER), START)
    store.apply(completed(task), LATER)
    reasons = [event.reason for event in store.events(task.key.run_id)]
    assert reasons[-2:] == [Reason.COMPLETED, Reason.HORIZON_ADDED]
    assert store.claim(task.key.run_id, LATER).horizons == (163840,)


def test_each_sweep_keeps_its_own_names_for_a_shared_run(store):
    shape = {"layers": 1, "width": 32, "heads": 2, "mlp_width": 64}
    first = plan_of(name="first", models=[{"name": "ours", **shape}])
    second = plan_of(name="second", models=[{"name": "theirs", **shape}])
    store.submit(first, START)
    store.submit(second, START)
    assert {run.run_id for run in first.runs} == {run.run_id for run in second.runs}
    assert {record.spec.model.name for record in store.records("first")} == {"ours"}
    assert {record.spec.model.name for record in store.records("second")} == {"theirs"}


def test_a_run_reads_its_corpus_where_the_latest_sweep_found_it(store):
    plan = plan_of()
    moved = replace(plan.corpus, path="/new/place")
    runs = tuple(replace(run, spec=replace(run.spec, corpus=moved)) for run in plan.runs)
    store.submit(plan, START)
    store.submit(replace(plan, corpus=moved, runs=runs), LATER)
    assert store.claim(plan.runs[0].run_id, LATER).spec.corpus.path == "/new/place"


def test_cancelling_drops_what_is_queued_at_once(store):
    plan = plan_of()
    store.submit(plan, START)
    assert store.wish_cancel("small", LATER).runs[State.CANCELLED] == 2
    assert store.snapshot(room=10).waiting == ()
    events = store.events(plan.runs[0].run_id)
    assert (events[-1].target, events[-1].reason) == (State.CANCELLED, Reason.CANCELLED_BY_USER)


def test_cancelling_twice_is_cancelling_once(store):
    store.submit(plan_of(), START)
    once = store.wish_cancel("small", START)
    assert store.wish_cancel("small", LATER) == once


def test_cancelling_leaves_a_running_run_to_the_scheduler(store):
    plan = plan_of()
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    store.wish_cancel("small", LATER)
    (underway,) = store.snapshot(room=10).underway
    assert underway.key == task.key
    assert not underway.is_wanted


def test_cancelling_keeps_what_another_sweep_wants(store):
    store.submit(plan_of(seeds=(0,)), START)
    wider = plan_of(name="wider", seeds=(0, 1))
    store.submit(wider, START)
    store.wish_cancel("wider", LATER)
    assert set(states(store, "small").values()) == {State.QUEUED}
    by_seed = {run.spec.seeds.init: run.state for run in store.runs("wider")}
    assert by_seed == {0: State.QUEUED, 1: State.CANCELLED}


def test_the_last_of_two_cancelled_sweeps_takes_the_shared_runs_along(store):
    store.submit(plan_of(), START)
    store.submit(plan_of(name="wider", seeds=(0, 1)), START)
    store.wish_cancel("wider", START)
    store.wish_cancel("small", LATER)
    assert set(states(store, "small").values()) == {State.CANCELLED}


def test_cancelling_an_extension_leaves_the_results_it_extended(store):
    short = plan_of()
    store.submit(short, START)
    finish_all(store, short)
    store.submit(plan_of(name="longer", budgets=LONGER), LATER)
    store.wish_cancel("longer", LATER)
    assert store.sweep("small").is_over
    assert {record.outcome for record in store.records("small")} == {Outcome.SUCCEEDED}
    assert {record.outcome for record in store.records("longer")} == {Outcome.CANCELLED}
    assert len(store.records("longer")[0].endpoints) == 2


def test_cancelling_a_finished_sweep_changes_nothing(store):
    plan = plan_of()
    store.submit(plan, START)
    finish_all(store, plan)
    summary = store.wish_cancel("small", LATER)
    assert summary.cancelled_at is None
    assert summary.runs[State.SUCCEEDED] == 2


def test_the_same_plan_after_a_cancel_goes_on_where_it_stood(store):
    plan = plan_of()
    store.submit(plan, START)
    finish(store, plan.runs[0].run_id)
    store.wish_cancel("small", LATER)
    summary = store.submit(plan, LATER)
    assert summary.cancelled_at is None
    assert summary.runs[State.SUCCEEDED] == summary.runs[State.QUEUED] == 1


def test_a_failed_run_waits_for_a_retry(store):
    plan = plan_of()
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    store.apply(heard(task, ended=Reason.OUT_OF_MEMORY, detail="8 GB asked"), LATER)
    assert store.submit(plan, LATER).runs[State.FAILED] == 1
    assert store.retry("small", LATER).runs[State.QUEUED] == 2
    event = store.events(task.key.run_id)[-1]
    assert (event.source, event.reason) == (State.FAILED, Reason.RETRY_ASKED)


def test_a_diverged_run_is_not_retried(store):
    plan = plan_of()
    store.submit(plan, START)
    task = store.claim(plan.runs[0].run_id, START)
    store.apply(heard(task, ended=Reason.NON_FINITE), LATER)
    assert store.retry("small", LATER).runs[State.DIVERGED] == 1


def test_retrying_lifts_a_cancel(store):
    store.submit(plan_of(), START)
    store.wish_cancel("small", START)
    summary = store.retry("small", LATER)
    assert summary.cancelled_at is None
    assert summary.runs[State.QUEUED] == 2


@pytest.mark.parametrize("verb", ["wish_cancel", "retry"])
def test_what_is_unknown_cannot_be_changed(store, verb):
    with pytest.raises(NotFoundError, match="'nothing'"):
        getattr(store, verb)("nothing", START)


def test_a_sweep_is_found_by_id_name_or_the_start_of_its_id(store):
    sweep_id = store.submit(plan_of(), START).sweep_id
    for word in (sweep_id, "small", sweep_id[:7], "sm"):
        assert store.sweep(word).sweep_id == sweep_id


def test_a_word_that_fits_two_sweeps_is_refused_and_names_both(store):
    ids = {store.submit(plan_of(seeds=(seed,)), START).sweep_id for seed in (0, 1)}
    with pytest.raises(InputError) as caught:
        store.sweep("small")
    assert all(sweep_id in str(caught.value) for sweep_id in ids)


@pytest.mark.parametrize("word", ["", "%", "_mall", "SMALL-"])
def test_a_word_is_no_pattern(store, word):
    store.submit(plan_of(), START)
    with pytest.raises(NotFoundError):
        store.sweep(word)


def test_the_spec_comes_back_as_submitted(store):
    plan = plan_of()
    store.submit(plan, START)
    assert store.spec("small") == plan.spec


def test_the_newest_words_of_a_known_sweep_count_and_nothing_is_queued(store):
    claim = {"name": "bounded", "statement": "gap(ufp4) < 1"}
    first, second = plan_of(), plan_of(claims=(claim,), purpose="why")
    store.submit(first, START)
    finish_all(store, first)
    assert store.submit(second, LATER).is_over
    assert second.sweep_id == first.sweep_id
    assert store.spec(first.sweep_id) == second.spec
    assert [one.name for one in store.spec(first.sweep_id).claims] == ["bounded"]


def test_a_recipe_that_is_renamed_is_called_so_by_the_spec_and_by_the_runs(store):
    def named(name: str) -> Plan:
        return plan_of(recipes=("bf16", {"name": name, "format": "e2m1", "rht": ["wgrad"]}))

    store.submit(named("old"), START)
    finish_all(store, named("old"))
    store.submit(named("new"), LATER)
    sweep_id = named("new").sweep_id
    assert {run.spec.recipe.name for run in store.records(sweep_id)} == {"bf16", "new"}
    assert [recipe.name for recipe in store.spec(sweep_id).all_recipes()] == ["bf16", "new"]
