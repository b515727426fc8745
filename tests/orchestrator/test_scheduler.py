"""`decide` as a function: examples for each rule, and what holds for any snapshot."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, strategies as st

from orchestrator.executor import AttemptKey, Ended
from orchestrator.moves import check
from orchestrator.scheduler import Abandon, Launch, Move, Stop, decide
from orchestrator.snapshot import Snapshot, Underway, Waiting
from orchestrator.states import RETRY_BUDGET, Reason, State
from tests.orchestrator.values import START

SOON = START + timedelta(seconds=10)
PAST = START - timedelta(seconds=10)
BUDGETS = {reason: budget for reason, budget in RETRY_BUDGET.items() if budget is not None}

KEYS = st.builds(
    AttemptKey, run_id=st.text("abc", min_size=1, max_size=4), attempt=st.integers(1, 9)
)
MOMENTS = st.timedeltas(timedelta(seconds=-60), timedelta(seconds=60)).map(START.__add__)
UNDERWAY = st.builds(
    Underway,
    key=KEYS,
    version=st.integers(2, 9),
    lease_expires_at=MOMENTS,
    stop_by=st.none() | MOMENTS,
    ended=st.none() | st.builds(Ended, reason=st.sampled_from(sorted(RETRY_BUDGET))),
    strikes=st.dictionaries(st.sampled_from(sorted(RETRY_BUDGET)), st.integers(0, 6)),
    is_wanted=st.booleans(),
    is_complete=st.booleans(),
)
WAITING = st.builds(Waiting, run_id=st.text("xyz", min_size=1, max_size=6), version=st.just(1))
SNAPSHOTS = st.builds(
    Snapshot,
    waiting=st.lists(WAITING, max_size=6).map(tuple),
    unwanted=st.lists(WAITING, max_size=3).map(tuple),
    underway=st.lists(UNDERWAY, max_size=5, unique_by=lambda run: run.key.run_id).map(tuple),
)


def underway(**changes: Any) -> Underway:
    given: dict[str, Any] = {
        "key": AttemptKey(run_id="run", attempt=2),
        "version": 3,
        "lease_expires_at": SOON,
        "stop_by": None,
        "ended": None,
        "strikes": {},
        "is_wanted": True,
        "is_complete": False,
    }
    return Underway(**given | changes)


def one(run: Underway, *, is_draining: bool = False) -> Any:
    decisions = decide(Snapshot(underway=(run,)), START, free_slots=1, is_draining=is_draining)
    return decisions[0] if decisions else None


def after(reason: Reason, **changes: Any) -> tuple[State, Reason]:
    move = one(underway(ended=Ended(reason=reason, detail="so it was"), **changes))
    return move.target, move.reason


def test_free_slots_are_filled_in_plan_order():
    waiting = tuple(Waiting(run_id=name, version=1) for name in "cab")
    decisions = decide(Snapshot(waiting=waiting), START, free_slots=2, is_draining=False)
    assert decisions == (Launch(run_id="c", version=1), Launch(run_id="a", version=1))


def test_an_attempt_with_a_lease_is_left_alone():
    assert one(underway()) is None


def test_an_expired_lease_abandons_the_attempt_for_another():
    decision = one(underway(lease_expires_at=START))
    assert isinstance(decision, Abandon)
    assert decision.key.attempt == 2
    assert (decision.move.target, decision.move.reason) == (State.QUEUED, Reason.LEASE_EXPIRED)


def test_what_nobody_wants_is_asked_to_stop_once():
    assert one(underway(is_wanted=False)) == Stop(key=underway().key)
    assert one(underway(is_wanted=False, stop_by=SOON)) is None


def test_draining_asks_everything_to_stop():
    assert one(underway(), is_draining=True) == Stop(key=underway().key)


def test_an_attempt_that_does_not_stop_in_time_is_abandoned():
    cancelled = one(underway(stop_by=PAST, is_wanted=False))
    assert (cancelled.move.target, cancelled.move.reason) == (
        State.CANCELLED,
        Reason.CANCELLED_BY_USER,
    )
    drained = one(underway(stop_by=PAST), is_draining=True)
    assert (drained.move.target, drained.move.reason) == (State.QUEUED, Reason.INTERRUPTED)


@pytest.mark.parametrize("reason", list(BUDGETS))
def test_a_budget_is_spent_one_attempt_at_a_time(reason):
    budget = BUDGETS[reason]
    for strikes in range(budget):
        assert after(reason, strikes={reason: strikes}) == (State.QUEUED, reason)
    assert after(reason, strikes={reason: budget}) == (State.FAILED, reason)


def test_one_budget_does_not_pay_for_another():
    assert after(Reason.WORKER_LOST, strikes={Reason.LEASE_EXPIRED: 9})[0] is State.QUEUED


def test_interruptions_are_never_too_many():
    assert after(Reason.INTERRUPTED, strikes={Reason.INTERRUPTED: 999})[0] is State.QUEUED


def test_giving_up_says_after_how_many_attempts_and_why():
    ended = Ended(reason=Reason.WORKER_LOST, detail="process 7 was killed")
    move = one(underway(ended=ended, strikes={Reason.WORKER_LOST: 3}))
    assert move.detail == "given up after 4 attempts: process 7 was killed"


@pytest.mark.parametrize("reason", sorted(RETRY_BUDGET))
def test_an_attempt_lost_after_its_last_measurement_has_succeeded(reason):
    spent = {reason: 99}
    assert after(reason, is_complete=True, strikes=spent) == (State.SUCCEEDED, Reason.COMPLETED)


def test_an_interrupted_run_that_nobody_wants_is_cancelled():
    assert after(Reason.INTERRUPTED, is_wanted=False)[0] is State.CANCELLED


@given(SNAPSHOTS, st.integers(-1, 8), st.booleans())
def test_every_decision_is_a_permitted_move(snapshot, free_slots, is_draining):
    for decision in decide(snapshot, START, free_slots=free_slots, is_draining=is_draining):
        match decision:
            case Move() as move:
                check(move.source, move.target, move.reason)
            case Abandon(move=move):
                check(move.source, move.target, move.reason)
            case Launch() | Stop():
                pass


@given(SNAPSHOTS, st.integers(-1, 8), st.booleans())
def test_launches_never_exceed_the_slots_and_stop_when_draining(snapshot, slots, is_draining):
    decisions = decide(snapshot, START, free_slots=slots, is_draining=is_draining)
    launches = [decision for decision in decisions if isinstance(decision, Launch)]
    room = 0 if is_draining else min(max(slots, 0), len(snapshot.waiting))
    assert [launch.run_id for launch in launches] == [
        waiting.run_id for waiting in snapshot.waiting[:room]
    ]


@given(SNAPSHOTS)
def test_no_attempt_outlives_its_lease(snapshot):
    decisions = decide(snapshot, START, free_slots=0, is_draining=False)
    over = {
        decision.key.run_id if isinstance(decision, Abandon) else decision.run_id
        for decision in decisions
        if isinstance(decision, Abandon | Move)
    }
    for run in snapshot.underway:
        if run.lease_expires_at <= START or run.ended is not None:
            assert run.key.run_id in over


@given(SNAPSHOTS, st.booleans())
def test_the_same_snapshot_gives_the_same_decisions(snapshot, is_draining):
    first = decide(snapshot, START, free_slots=3, is_draining=is_draining)
    assert decide(snapshot, START, free_slots=3, is_draining=is_draining) == first


@given(st.lists(st.sampled_from(sorted(RETRY_BUDGET)), max_size=40))
def test_attempts_that_go_wrong_are_bounded_by_the_budgets(reasons):
    strikes = dict.fromkeys(RETRY_BUDGET, 0)
    made = 0
    for reason in reasons:
        made += reason in BUDGETS
        if after(reason, strikes=strikes)[0] is State.FAILED:
            break
        strikes[reason] += 1
    assert made <= sum(BUDGETS.values()) + 1
