import math
from dataclasses import replace
from datetime import timedelta

import pytest

from kernels.verdict import Preflight
from orchestrator.states import State
from orchestrator.store import Store
from sweeps.metrics import StepMetrics
from sweeps.records import Outcome, RunRecord
from tests.orchestrator.values import (
    BATCH,
    START,
    diagnosis,
    endpoint,
    plan_of,
    preflight,
    step,
)
from workers.tracked import STATUS, new_points, tags

SHORT, LONG = 40960, 81920


def record(*curve: StepMetrics, horizons: tuple[int, ...] = (SHORT, LONG)) -> RunRecord:
    run = plan_of().runs[0]
    return RunRecord(
        spec=run.spec,
        N=run.N,
        flops_per_token=run.flops_per_token,
        horizons=horizons,
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


def test_bits_per_byte_are_told_where_the_bytes_of_a_token_are_known():
    known = replace(endpoint(SHORT), loss=3.0, bytes_per_token=2.5)
    told = {}
    for end in (known, replace(known, bytes_per_token=None)):
        (point,) = new_points(replace(record(), endpoints=(end,)), {})
        told[end.bytes_per_token] = point.metrics
    assert told[2.5]["val_bits_per_byte"] == pytest.approx(3.0 / math.log(2) / 2.5)
    assert told[2.5].keys() - told[None].keys() == {"val_bits_per_byte"}


def test_underflow_by_class_of_operand_is_the_mean_over_layers_and_gemms():
    layer, *_ = diagnosis(BATCH).layers
    one, *_ = layer.operands
    shares = {("fprop", "x"): 0.25, ("wgrad", "x"): 0.75, ("dgrad", "dy"): 0.125}
    operands = tuple(
        replace(
            one, gemm=gemm, operand=operand, rotates=False, plain=replace(one.plain, underflow=u)
        )
        for (gemm, operand), u in shares.items()
    )
    told = replace(diagnosis(BATCH), layers=(replace(layer, operands=operands),) * 2)
    (*_, point) = new_points(record(), {}, [told])
    assert point.metrics["numerics/underflow/x"] == 0.5
    assert point.metrics["numerics/underflow/dy"] == 0.125
    assert "numerics/underflow/w" not in point.metrics


def test_what_a_step_tells_of_its_health_is_sent_and_what_it_does_not_is_not():
    told = replace(step(BATCH), update_ratio=0.003, mfu=0.4, memory_bytes=2**30, imbalance=1.5)
    (first, second, _) = new_points(record(told, step(2 * BATCH)), {})
    usual = {"train_loss", "learning_rate", "gradient_norm", "tokens_per_second"}
    assert set(second.metrics) == usual
    assert {name: first.metrics[name] for name in set(first.metrics) - usual} == {
        "update_ratio": 0.003,
        "mfu": 0.4,
        "memory_bytes": 2**30,
        "expert_imbalance": 1.5,
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_left_out(value):
    (point, _) = new_points(record(replace(step(BATCH), loss=value)), {})
    assert set(point.metrics) == {"learning_rate", "gradient_norm", "tokens_per_second"}


def test_a_diagnosis_names_every_number_of_every_layer_once():
    told = diagnosis(BATCH)
    (*_, point) = new_points(record(), {}, [told])
    layer = told.layers[0]
    start = f"numerics/{layer.layer}"
    one, product, motion = layer.operands[0], layer.products[0], layer.motion
    assert point.tokens == BATCH
    assert product.sqnr is None
    assert motion is not None
    assert point.metrics == {
        f"{start}/fprop/x/sqnr": one.rotated.sqnr,
        f"{start}/fprop/x/sqnr_plain": one.plain.sqnr,
        f"{start}/fprop/x/sqnr_rht": one.rotated.sqnr,
        f"{start}/fprop/x/gain": one.rotated.gain,
        f"{start}/fprop/x/utilisation": one.rotated.utilisation,
        f"{start}/fprop/x/crest_factor": one.rotated.crest_factor,
        f"{start}/fprop/x/underflow": one.rotated.underflow,
        f"{start}/fprop/x/saturation": one.rotated.saturation,
        f"{start}/fprop/gain": product.gain,
        f"{start}/weight/flips": motion.flips,
        f"{start}/weight/oscillations": motion.oscillations,
        f"{start}/weight/mismatch": motion.mismatch,
        "numerics/underflow/x": one.rotated.underflow,
    }


def test_an_operand_is_told_as_its_gemm_multiplies_it():
    def told(*, rotates: bool) -> float:
        found = diagnosis(BATCH, sqnr=31.0)
        layer = found.layers[0]
        operand = replace(layer.operands[0], rotates=rotates)
        layers = (replace(layer, operands=(operand,)),)
        (*_, point) = new_points(record(), {}, [replace(found, layers=layers)])
        return point.metrics["numerics/blocks.0.mlp.down/fprop/x/sqnr"]

    assert (told(rotates=False), told(rotates=True)) == (20.5, 31.0)


def test_diagnoses_have_marks_of_their_own_on_each_path():
    run = record(step(2 * BATCH))
    given = [diagnosis(BATCH), diagnosis(2 * BATCH), diagnosis(BATCH, horizon=SHORT)]
    found = [(point.path, point.tokens) for point in new_points(run, {"trunk": LONG}, given)]
    paths = ("numerics_trunk", f"numerics_cooldown_{SHORT}")
    assert found[-3:] == [(paths[0], BATCH), (paths[0], 2 * BATCH), (paths[1], BATCH)]
    assert not list(new_points(run, {"trunk": LONG, **dict(found)}, given))


def test_diagnoses_of_what_a_sweep_does_not_ask_for_are_left_out():
    run = record(horizons=(SHORT,))
    beyond = run.spec.branch_tokens(SHORT) + BATCH
    given = [diagnosis(beyond), diagnosis(beyond, horizon=LONG), diagnosis(beyond, horizon=SHORT)]
    diagnosed = [point.path for point in new_points(run, {}, given) if "numerics" in point.path]
    assert diagnosed == [f"numerics_cooldown_{SHORT}"]


def test_a_diagnosis_comes_when_its_step_was_trained():
    run = record(step(BATCH), step(3 * BATCH), step(2 * BATCH, horizon=SHORT))
    (*_, point) = new_points(run, {}, [diagnosis(2 * BATCH)])
    assert point.seconds == step(BATCH).seconds


def test_the_preflight_is_told_by_a_tag(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'a.db'}", runs=tmp_path, lease=timedelta(seconds=60))
    run = store.runs(store.submit(plan_of(), START).sweep_id)[0]
    store.close()

    def told(found: Preflight) -> str:
        return tags(replace(run, preflight=found))["gridlaw.preflight"]

    assert tags(run)["gridlaw.preflight"] == "none"
    assert told(preflight()) == "cpu: C kernel, AVX2: passed"
    assert told(preflight(failed="rht")) == "cpu: C kernel, AVX2: failed rht"


def test_every_state_has_a_status_and_only_two_of_them_are_open():
    assert set(STATUS) == set(State)
    open_statuses = {STATUS[state] for state in State if not state.is_terminal}
    assert open_statuses == {"SCHEDULED", "RUNNING"}
    assert not open_statuses & {STATUS[state] for state in State if state.is_terminal}
