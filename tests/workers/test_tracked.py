import math
from dataclasses import replace

import pytest

from orchestrator.states import State
from sweeps.metrics import StepMetrics
from sweeps.records import Outcome, RunRecord
from tests.orchestrator.values import BATCH, endpoint, plan_of, step
from workers.tracked import STATUS, new_points

SHORT, LONG = 40960, 81920


def record(*curve: StepMetrics) -> RunRecord:
    run = plan_of().runs[0]
    return RunRecord(
        spec=run.spec,
        N=run.N,
        flops_per_token=run.flops_per_token,
        horizons=(SHORT, LONG),
        outcome=Outcome.WAITING,
        endpoints=(endpoint(SHORT),),
        curve=curve,
    )


def test_trunk_branches_and_endpoints_share_no_metric_at_the_same_place():
    run = record(
        step(SHORT), step(SHORT, horizon=SHORT), step(SHORT, horizon=LONG), step(LONG, horizon=LONG)
    )
    told = [(name, point.tokens) for point in new_points(run, {}) for name in point.metrics]
    assert len(set(told)) == len(told)
    assert ("train_loss", SHORT) in told
    assert (f"cooldown_{SHORT}/train_loss", SHORT) in told
    assert (f"cooldown_{LONG}/train_loss", SHORT) in told
    assert ("val_loss", SHORT) in told


def test_only_what_lies_beyond_the_mark_of_its_own_path_is_new():
    run = record(step(BATCH), step(2 * BATCH), step(BATCH, horizon=SHORT))
    found = [(point.path, point.tokens) for point in new_points(run, {"trunk": BATCH})]
    assert found == [
        ("trunk", 2 * BATCH),
        (f"cooldown_{SHORT}", BATCH),
        (f"endpoint_{SHORT}", SHORT),
    ]
    assert list(new_points(run, dict(found))) == []


def test_an_endpoint_comes_when_its_branch_was_trained():
    run = record(step(SHORT, horizon=SHORT))
    branch, measured = new_points(run, {})
    assert measured.seconds == branch.seconds == SHORT / 1000


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_left_out(value):
    (point, _) = new_points(record(replace(step(BATCH), loss=value)), {})
    assert set(point.metrics) == {"learning_rate", "gradient_norm", "tokens_per_second"}


def test_every_state_has_a_status_and_only_two_of_them_are_open():
    assert set(STATUS) == set(State)
    open_statuses = {STATUS[state] for state in State if not state.is_terminal}
    assert open_statuses == {"SCHEDULED", "RUNNING"}
    assert not open_statuses & {STATUS[state] for state in State if state.is_terminal}
