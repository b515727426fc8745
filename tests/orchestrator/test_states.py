import re
from itertools import product
from pathlib import Path

import pytest

from orchestrator.moves import check
from orchestrator.states import MOVES, REASON_STATE, RETRY_BUDGET, Reason, State
from sweeps.errors import ConflictError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
FINAL = (State.SUCCEEDED, State.DIVERGED, State.FAILED, State.CANCELLED)


def test_every_reason_leads_to_a_state():
    assert set(REASON_STATE) == set(Reason)


def test_exactly_the_reasons_that_end_an_attempt_without_a_result_have_a_budget():
    asked = {Reason.PLANNED, Reason.HORIZON_ADDED, Reason.RETRY_ASKED}
    queueing = {reason for reason, state in REASON_STATE.items() if state is State.QUEUED}
    assert set(RETRY_BUDGET) == queueing - asked


def test_every_state_can_be_reached_from_the_queue():
    reached, grown = {State.QUEUED}, True
    while grown:
        more = {target for source, target in MOVES if source in reached}
        grown = not more <= reached
        reached |= more
    assert reached == set(State)


def test_a_diverged_run_is_never_moved():
    assert not [target for source, target in MOVES if source is State.DIVERGED]


def test_final_states_lead_back_to_the_queue_alone():
    assert {target for source, target in MOVES if source in FINAL} == {State.QUEUED}


@pytest.mark.parametrize("state", list(State))
def test_terminal_is_all_but_queued_and_running(state):
    assert state.is_terminal == (state in FINAL)


@pytest.mark.parametrize(("source", "target"), list(product(State, State)))
def test_a_move_is_allowed_if_both_tables_allow_it(source, target):
    for reason in Reason:
        spent = target is State.FAILED and RETRY_BUDGET.get(reason) is not None
        if (source, target) in MOVES and (REASON_STATE[reason] is target or spent):
            check(source, target, reason)
        else:
            with pytest.raises(ConflictError):
                check(source, target, reason)


def test_the_page_gives_every_reason_its_state_and_its_budget():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w ]*)\|", PAGE.read_text(), re.MULTILINE)
    told = {reason: (state, again.strip()) for reason, state, again in rows}
    assert set(told) == set(Reason)
    for reason in Reason:
        state, again = told[reason]
        assert state == REASON_STATE[reason]
        if reason in RETRY_BUDGET:
            budget = RETRY_BUDGET[reason]
            assert again == ("always" if budget is None else f"{budget} times")
        else:
            assert again == ("no" if REASON_STATE[reason] is State.FAILED else "")
