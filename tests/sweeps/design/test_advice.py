"""A plan is told what its design cannot identify, and no more than that."""

from typing import Any

import pytest

from sweeps.design.advice import design_notes, plan_warnings, power_line, resolution_line
from sweeps.design.noise_level import NoiseLevel, stated
from sweeps.design.resolving import resolve
from sweeps.gaps.power import detectable
from tests.sweeps.design.made_sweeps import planned

GRID: dict[str, Any] = {
    "models": ["50k", "100k", "200k", "400k"],
    "budgets": ["10tpp", "20tpp", "40tpp", "80tpp"],
    "seeds": [0, 1],
}


def test_a_factorial_design_with_seeds_is_warned_of_nothing() -> None:
    assert plan_warnings(planned(**GRID)) == ()


@pytest.mark.parametrize(
    "models", [["50k", "100k", "200k"], ["50k", "100k", "200k", "400k", "800k"]]
)
def test_one_ratio_is_told_that_it_identifies_no_exponent(models: list[str]) -> None:
    (said,) = plan_warnings(planned(models=models, budgets=["20tpp"], seeds=[0, 1]))
    assert said.startswith("The design identifies no exponent, E or multiplier: N and D moved")
    assert "A second D/N" in said


def test_a_design_too_small_for_the_law_is_told_what_it_lacks() -> None:
    (said,) = plan_warnings(planned())
    assert said.startswith("The design carries no scaling law beyond its own range: ")
    assert "6 cells are fewer than 10" in said


@pytest.mark.parametrize(
    "changes", [{"models": ["50k"]}, {"models": ["50k"], "budgets": ["20tpp"]}]
)
def test_one_model_asks_for_no_law_and_is_told_nothing_of_one(changes: dict[str, Any]) -> None:
    assert plan_warnings(planned(**changes, seeds=[0, 1])) == ()


def test_claims_with_one_seed_are_told_that_they_stay_open() -> None:
    claims = [{"name": "a-claim", "statement": "gap(ufp4) < 0.01"}]
    said = plan_warnings(planned(**GRID | {"seeds": [3]}, claims=claims))
    assert said[-1] == "One seed decides no claim, as intervals are over seeds; left open: a-claim."


def test_the_smallest_gap_is_that_of_the_t_test() -> None:
    noise = NoiseLevel(sd=0.004, source="made")
    line = resolution_line(resolve(planned(**GRID).spec, noise))
    at_one, at_mean = detectable(0.004, 2), detectable(0.004, 2, groups=4)
    assert f"2 seeds tell a gap of {at_one:.2g} nats from none at one model" in line
    assert f"and {at_mean:.2g} for the mean over 4 models" in line
    assert "s.d. of a pair 0.004: made" in line
    assert "80 % power, 95 % two-sided" in line


def test_a_plan_reckons_with_the_noise_of_all_its_models() -> None:
    plan = planned(**GRID)
    sizes = {run.N for run in plan.runs}
    assert power_line(plan) == resolution_line(resolve(plan.spec, stated(sizes)))


def test_one_seed_is_said_to_have_no_interval_and_bf16_alone_no_gap() -> None:
    assert power_line(planned()).startswith("One seed: ")
    assert power_line(planned(recipes=["bf16"], seeds=[0, 1])) == ""


def test_notes_are_the_warnings_and_then_the_power() -> None:
    plan = planned()
    assert design_notes(plan) == (*plan_warnings(plan), power_line(plan))
    assert design_notes(planned(recipes=["bf16"])) == plan_warnings(planned(recipes=["bf16"]))
