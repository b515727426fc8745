"""What one more cell costs is what the plan of the sweep with it would cost more."""

from sweeps.design.candidates import Candidate, candidates
from sweeps.design.information import Point
from sweeps.design.layout import Layout, layouts
from sweeps.design.wanted import Place
from sweeps.plan import Plan
from sweeps.records import Outcome
from tests.sweeps.design.made_sweeps import TRAIN, planned, records_of

PLACE = Place(N=2e5, D=2e6)
ARMS = (("bf16",), ("ufp4",))


def layout_of(plan: Plan, seeds: tuple[int, ...] = (0,)) -> Layout:
    return layouts(records_of(plan), ARMS, seeds)[1]


def candidate(plan: Plan, model: str, ratio: float) -> Candidate:
    found = [one for one in candidates(plan.spec, PLACE) if one.shape.name == model]
    return min(found, key=lambda one: abs(one.D / one.N - ratio))


def flops(plan: Plan) -> int:
    return sum(run.flops for run in plan.runs)


def test_a_further_budget_costs_what_the_trunk_and_its_cooldown_take_on_top() -> None:
    for schedule in ("wsd", "cosine"):
        train = {"train": TRAIN | {"schedule": schedule}}
        less, more = (
            planned(models=["100k"], **train),
            planned(models=["100k"], budgets=["10tpp", "40tpp", "160tpp"], **train),
        )
        step = layout_of(less).step(candidate(less, "100k", 160))
        assert step.arms == (0, 1)
        assert step.seed == 0
        assert step.flops == flops(more) - flops(less)


def test_a_new_seed_costs_both_runs_whole_and_follows_those_of_the_sweep() -> None:
    less, more = (
        planned(budgets=["40tpp"], models=["100k"]),
        planned(budgets=["40tpp"], models=["100k"], seeds=[0, 1]),
    )
    step = layout_of(less, seeds=(0, 1)).step(candidate(less, "100k", 40))
    assert step.seed == 1
    assert step.flops == flops(more) - flops(less)
    assert layout_of(more, seeds=(0, 1)).step(candidate(less, "100k", 40)).seed == 2


def test_bf16_that_is_there_is_not_trained_again() -> None:
    plan = planned(models=["100k"], recipes=["bf16", "ufp4", "e2m1-ref"])
    records = [run for run in records_of(plan) if run.spec.recipe.name != "ufp4"]
    step = layouts(records, ARMS, (0,))[1].step(candidate(plan, "100k", 40))
    assert step.arms == (1,)
    assert step.seed == 0


def test_a_cell_by_a_run_of_its_own_shares_no_seed_with_another_budget() -> None:
    plan = planned(models=["100k"])
    step = layout_of(plan).step(candidate(plan, "100k", 160), is_alone=True)
    assert step.seed == 1
    assert step.flops > layout_of(plan).step(candidate(plan, "100k", 160)).flops


def test_after_a_step_its_endpoints_are_there_and_it_costs_nothing_twice() -> None:
    plan = planned(models=["100k"])
    one = candidate(plan, "100k", 160)
    first = layout_of(plan).step(one)
    after = layout_of(plan).after(first)
    assert set(after.points[float(one.N)]) >= {Point(0, 0, one.D), Point(1, 0, one.D)}
    assert (float(one.N), float(one.D)) in after.cells
    assert after.step(one).seed == 1


def test_measured_and_planned_are_told_apart_and_what_failed_is_neither() -> None:
    plan = planned()
    outcomes = {"50k": Outcome.SUCCEEDED, "100k": Outcome.WAITING, "200k": Outcome.FAILED}
    records = records_of(plan, outcome=lambda run: outcomes[run.spec.model.name])
    done, coming = layouts(records, ARMS, (0,))
    sizes = {run.spec.model.name: float(run.N) for run in plan.runs}
    assert {N for N, _ in done.cells} == {sizes["50k"]}
    assert {N for N, _ in coming.cells} == {sizes["50k"], sizes["100k"]}


def test_a_cell_counts_once_every_arm_has_an_endpoint_there() -> None:
    plan = planned(models=["100k"])
    records = [run for run in records_of(plan) if run.spec.recipe.is_bf16]
    assert layouts(records, ARMS, (0,))[0].cells == frozenset()
    assert len(layouts(records, ARMS[:1], (0,))[0].cells) == 2
