"""What a plan still costs: measured horizons, rates of this machine, slots."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from sweeps.metrics import StepMetrics
from sweeps.plan import Plan, expand
from sweeps.price import price
from sweeps.rates import (
    EVAL_COST,
    RUN_SECONDS,
    Rates,
    kind_of,
    makespan,
    modelled_seconds_per_token,
    rates_from,
)
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import Resources, RunSpec, Seeds
from sweeps.spec import parse_spec
from sweeps.training import OptimizerKind
from tests.sweeps.specs import CORPUS, mapping, train


def planned(**changes) -> Plan:
    return expand(parse_spec(mapping(**changes)), CORPUS)


def record(spec: RunSpec, *speeds: float) -> RunRecord:
    """A finished run whose reports show these speeds."""
    curve = tuple(
        StepMetrics(
            horizon=None,
            step=step,
            tokens=step * 1024,
            loss=1.0,
            learning_rate=0.01,
            gradient_norm=1.0,
            tokens_per_second=speed,
            seconds=float(step),
        )
        for step, speed in enumerate(speeds, start=1)
    )
    return RunRecord(
        spec=spec,
        N=1,
        flops_per_token=1.0,
        horizons=(1024,),
        outcome=Outcome.SUCCEEDED,
        curve=curve,
    )


def test_a_fresh_plan_costs_all_of_its_runs():
    plan = planned(budgets=["100ktok", "1Mtok"])
    cost = price(plan, {}, Rates())
    assert (cost.cells, cost.runs, cost.reused) == (4, 2, 0)
    assert cost.tokens == sum(run.tokens for run in plan.runs)
    assert cost.flops == sum(run.flops for run in plan.runs)
    assert cost.eta_seconds > 0


def test_a_plan_that_is_measured_costs_nothing():
    plan = planned(budgets=["100ktok", "1Mtok"])
    cost = price(plan, {run.run_id: run.horizons for run in plan.runs}, Rates())
    assert (cost.reused, cost.tokens, cost.flops, cost.eta_seconds) == (2, 0, 0, 0.0)


def test_only_a_run_with_every_horizon_measured_is_reused():
    plan = planned(budgets=["100ktok", "1Mtok"])
    first, second = plan.runs
    cost = price(plan, {first.run_id: first.horizons, second.run_id: second.horizons[:1]}, Rates())
    assert cost.reused == 1
    assert cost.tokens == second.tokens_left(second.horizons[:1])


def test_a_longer_horizon_goes_on_from_the_trunk_of_the_measured_one():
    (run,) = planned(recipes=["bf16"], budgets=["200ktok", "1Mtok"]).runs
    short, long = run.horizons
    branch = run.spec.branch_tokens
    assert run.tokens_left([short]) == (branch(long) - branch(short)) + (long - branch(long))


def test_a_shorter_horizon_cannot_use_a_trunk_that_has_passed_it():
    (run,) = planned(recipes=["bf16"], budgets=["200ktok", "1Mtok"]).runs
    short, long = run.horizons
    assert run.tokens_left([long]) == short


def test_horizons_measured_for_other_sweeps_shorten_the_trunk_too():
    (run,) = planned(recipes=["bf16"], budgets=["1Mtok"]).runs
    elsewhere = 512_000
    assert run.tokens_left([elsewhere]) == run.tokens - run.spec.branch_tokens(elsewhere)


@given(st.lists(st.floats(0, 100), max_size=12), st.integers(1, 4))
def test_a_makespan_lies_between_perfect_sharing_and_one_slot_alone(jobs, slots):
    end = makespan(jobs, slots)
    total, longest = sum(jobs), max(jobs, default=0.0)
    assert max(total / slots, longest) <= end + 1e-9
    assert end <= total / slots + longest + 1e-9


def test_two_equal_runs_in_two_slots_end_together():
    plan = planned(recipes=["bf16"], seeds=[0, 1])
    alone = price(plan, {}, Rates(slots=1)).eta_seconds
    assert price(plan, {}, Rates(slots=2)).eta_seconds == pytest.approx(alone / 2)


def test_a_measured_speed_decides_the_time_of_its_kind():
    plan = planned(recipes=["bf16"])
    (run,) = plan.runs
    rates = Rates(measured={kind_of(run.spec): 1000.0})
    evaluated = run.spec.evaluation.tokens * EVAL_COST
    expected = RUN_SECONDS + (run.tokens + evaluated) / 1000
    assert price(plan, {}, rates).eta_seconds == pytest.approx(expected)


def test_rates_are_the_median_speed_of_each_kind_and_correct_the_model_for_others():
    baseline, quantized = (run.spec for run in planned().runs)
    modelled = 1 / modelled_seconds_per_token(baseline)
    other_seed = replace(baseline, seeds=Seeds(init=9))
    rates = rates_from(
        [
            record(baseline, 2 * modelled, 2 * modelled, 5.0),
            record(other_seed, 2 * modelled, 0.0),
            record(quantized),
        ],
        slots=2,
    )
    assert rates.slots == 2
    assert rates.tokens_per_second(baseline) == 2 * modelled
    assert rates.correction == pytest.approx(0.5)
    expected = 2 / modelled_seconds_per_token(quantized)
    assert rates.tokens_per_second(quantized) == pytest.approx(expected)


def test_without_records_the_model_speaks_and_quantizing_is_slower():
    baseline, quantized = (run.spec for run in planned().runs)
    rates = rates_from([], slots=1)
    assert rates.tokens_per_second(baseline) > rates.tokens_per_second(quantized) > 0
    assert rates.tokens_per_second(baseline) == 1 / modelled_seconds_per_token(baseline)


def test_what_makes_a_step_slower_is_part_of_a_kind():
    baseline = next(run.spec for run in planned().runs)
    training = baseline.training
    others = [
        replace(baseline, training=replace(training, optimizer=OptimizerKind.MUON)),
        replace(baseline, training=replace(training, microbatch_tokens=256)),
        replace(baseline, training=replace(training, batch_tokens=2048)),
        replace(baseline, resources=Resources(gpus=2)),
    ]
    assert len({kind_of(spec) for spec in (baseline, *others)}) == 5


def test_a_cosine_is_priced_to_its_end_once_for_each_budget():
    cosine = planned(recipes=["bf16"], budgets=["200ktok", "1Mtok"], train=train(schedule="cosine"))
    tokens = [run.training.horizon or 0 for run in (one.spec for one in cosine.runs)]
    assert price(cosine, {}, Rates()).tokens == sum(tokens)
    longest = max(cosine.runs, key=lambda run: run.tokens)
    cost = price(cosine, {longest.run_id: longest.horizons}, Rates())
    assert (cost.reused, cost.tokens) == (1, min(tokens))


def test_names_and_seeds_are_no_part_of_a_kind():
    baseline, quantized = (run.spec for run in planned().runs)
    renamed = replace(baseline, model=replace(baseline.model, name="x"), seeds=Seeds(sr=7))
    assert kind_of(renamed) == kind_of(baseline) != kind_of(quantized)
