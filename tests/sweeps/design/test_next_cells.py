"""Suggestions: within the budget, better than chance, and honest about what they cannot tell."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from sweeps.design.candidates import candidates
from sweeps.design.layout import layouts
from sweeps.design.next_cells import HOLD_OUT_SHARE, next_cells
from sweeps.design.noise_level import NoiseLevel
from sweeps.design.question import ask
from sweeps.design.suggested import Expected, NextCells, Why
from sweeps.design.wanted import Place, Wanted, parse_wanted
from sweeps.errors import InputError
from sweeps.gaps.pair import pair
from sweeps.plan import Plan
from sweeps.records import Outcome, RunRecord
from tests.sweeps.design.made_sweeps import LARGE, planned, planned_on, records_of

NOISE = NoiseLevel(sd=0.004, source="made")
GAP = "gap(ufp4) at N=1.6e6, D=32e6"


def wanted(text: str = GAP) -> Wanted:
    found = parse_wanted(text)
    assert isinstance(found, Wanted)
    return found


def suggested(
    plan: Plan,
    text: str = GAP,
    budget: float | None = None,
    records: list[RunRecord] | None = None,
) -> NextCells:
    runs = records_of(plan) if records is None else records
    return next_cells(wanted(text), plan.spec, runs, NOISE, budget)


def width(expected: Expected) -> float:
    return inf if expected.half_width is None else expected.half_width


@pytest.mark.parametrize("budget", [1e13, 1e14, 1e15])
def test_suggestions_fit_the_budget_and_narrow_the_interval_step_by_step(budget: float) -> None:
    found = suggested(planned(), budget=budget)
    assert found.suggestions
    assert found.flops == pytest.approx(sum(one.flops for one in found.suggestions))
    assert found.flops <= found.budget == budget
    widths = [width(one.expected) for one in found.suggestions]
    assert widths == sorted(widths, reverse=True)
    assert found.after.half_width == widths[-1] < width(found.now) < inf


def test_a_larger_budget_never_leaves_a_wider_interval() -> None:
    widths = [width(suggested(planned(), budget=flops).after) for flops in (1e13, 1e14, 1e15)]
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("budget", [1e14, 3e14, 1e16])
def test_the_choice_beats_three_of_four_random_designs_of_the_same_cost(budget: float) -> None:
    plan = planned()
    found = suggested(plan, budget=budget)
    place = found.place
    records = records_of(plan)
    arms = (("bf16",), ("ufp4",))
    question = ask(wanted(), place, records, pair(records), {"bf16": 0, "ufp4": 1}, NOISE)
    cells = candidates(plan.spec, place)
    held = sum(one.flops for one in found.suggestions if one.why is Why.HOLD_OUT)
    widths: list[float] = []
    generator = np.random.default_rng(0)
    for _ in range(25):
        layout, spent = layouts(records, arms, (0,))[1], held
        for index in generator.permutation(len(cells)):
            step = layout.step(cells[index])
            if spent + step.flops <= budget:
                layout, spent = layout.after(step), spent + step.flops
        widths.append(width(question.expected(layout)))
    assert width(found.after) < np.quantile(widths, 0.25, method="nearest")


def test_one_ratio_identifies_no_exponent_until_the_suggested_cells_are_run() -> None:
    plan = planned(budgets=["20tpp"], models=["50k", "100k", "200k", "400k", "800k"], seeds=[0, 1])
    found = suggested(plan, "beta", budget=1e17)
    assert found.now.half_width is None
    assert "N and D moved together" in found.now.reason
    assert found.after.half_width is not None
    ratios = {round(one.D / one.N) for one in found.suggestions if one.why is Why.NARROWS}
    assert max(ratios | {20}) >= 4 * min(ratios | {20})


def test_a_constant_asked_of_a_design_that_cannot_be_mended_is_said_to_stay_open() -> None:
    found = suggested(planned(), "alpha", budget=1e10)
    assert found.suggestions == ()
    assert found.after == found.now
    assert found.now.half_width is None
    assert found.now.reason


def test_one_cell_lies_at_the_ratio_asked_about_near_its_size() -> None:
    found = suggested(planned(), budget=1e15)
    anchors = [one for one in found.suggestions if one.why is Why.ANCHOR]
    (anchor,) = anchors
    assert anchor.N * 10 >= found.place.N
    assert anchor.D / anchor.N == pytest.approx(found.place.D / found.place.N, rel=0.25)


def test_no_anchor_is_suggested_where_one_is_planned_already() -> None:
    plan = planned(budgets=["10tpp", "20tpp"])
    found = suggested(plan, "gap(ufp4) at N=4e5, D=8e6", budget=1e15)
    assert all(one.why is not Why.ANCHOR for one in found.suggestions)
    assert not any("No cell at D/N" in note for note in found.notes)


def test_an_anchor_beyond_the_budget_is_said_with_its_price() -> None:
    found = suggested(planned(), "gap(ufp4) at N=1e9, D=20e9", budget=1e15)
    assert any("No cell at D/N = 20 with N of at least 1e+08" in note for note in found.notes)


def test_one_size_is_held_out_and_touched_by_no_other_step() -> None:
    plan = planned()
    found = suggested(plan, budget=1e16)
    (held,) = [one for one in found.suggestions if one.why is Why.HOLD_OUT]
    assert held.flops <= HOLD_OUT_SHARE * found.budget
    others = {one.N for one in found.suggestions if one.why is not Why.HOLD_OUT}
    assert held.N not in others | {run.N for run in plan.runs}


def test_where_every_size_is_used_a_cell_is_held_out_by_a_run_of_its_own() -> None:
    plan = planned()
    found = suggested(plan, budget=1e15)
    (held,) = [one for one in found.suggestions if one.why is Why.HOLD_OUT]
    others = [one for one in found.suggestions if one.why is not Why.HOLD_OUT]
    used = {(run.N, tokens) for run in plan.runs for tokens in run.horizons}
    used |= {(one.N, one.D) for one in others}
    assert (held.N, held.D) not in used
    assert (held.N, held.seed) not in {(one.N, one.seed) for one in others}


def test_a_hold_out_narrows_no_interval() -> None:
    found = suggested(planned(), budget=1e16)
    index = [one.why for one in found.suggestions].index(Why.HOLD_OUT)
    before = found.suggestions[index - 1]
    assert found.suggestions[index].expected == before.expected


def test_what_is_planned_counts_before_anything_is_suggested() -> None:
    plan = planned()
    records = records_of(
        plan,
        outcome=lambda run: Outcome.WAITING if run.spec.model.name == "200k" else Outcome.SUCCEEDED,
    )
    found = suggested(plan, records=records)
    assert (found.now.n_cells, found.planned.n_cells) == (4, 6)
    asked = {(run.N, tokens, 0) for run in plan.runs for tokens in run.horizons}
    assert not asked & {(one.N, one.D, one.seed) for one in found.suggestions}


def test_bf16_is_trained_once_for_every_recipe() -> None:
    plan = planned(recipes=["bf16", "ufp4", "e2m1-ref"])
    records = [
        run
        for run in records_of(plan)
        if run.spec.recipe.name != "ufp4" or run.spec.model.name == "50k"
    ]
    found = suggested(plan, records=records, budget=3e13)
    alone = [one for one in found.suggestions if one.recipes == ("ufp4",)]
    assert alone
    assert {one.model for one in alone} <= {"100k", "200k"}


def test_a_cell_at_which_a_run_diverged_is_not_suggested_again() -> None:
    plan = planned()
    records = records_of(
        plan,
        outcome=lambda run: (
            Outcome.DIVERGED
            if run.spec.recipe.is_quantized and run.spec.model.name == "100k"
            else Outcome.SUCCEEDED
        ),
    )
    found = suggested(plan, records=records, budget=1e15)
    shut = {
        (run.N, tokens) for run in plan.runs if run.spec.model.name == "100k"
        for tokens in run.horizons
    }  # fmt: skip
    assert not shut & {(one.N, one.D) for one in found.suggestions}
    assert any("diverged" in note for note in found.notes)


def test_no_cell_needs_more_of_the_corpus_than_its_epochs_hold() -> None:
    corpus = replace(LARGE, num_bytes=2_000_000)
    plan = planned_on(corpus, eval={"held_out": 0.1})
    found = suggested(plan, budget=1e15)
    most = 0.9 * 2_000_000 * plan.spec.train.max_epochs
    assert found.suggestions
    assert max(one.D for one in found.suggestions) <= most
    assert any("the corpus has no more in 4 epochs" in note for note in found.notes)
    assert not any("epochs" in note for note in suggested(planned(), budget=1e15).notes)


def test_a_sweep_without_a_result_is_planned_from_the_guess() -> None:
    plan = planned()
    records = records_of(plan, outcome=lambda _: Outcome.WAITING)
    found = suggested(plan, records=records, budget=1e14)
    assert found.now.half_width is None
    assert found.now.reason == "no endpoint was measured"
    assert found.planned.half_width is not None
    assert found.guess == pytest.approx(0.02)


def test_the_guess_follows_what_was_measured() -> None:
    assert suggested(planned()).guess == pytest.approx(0.02, abs=0.004)
    loss = suggested(planned(), "loss(bf16) at N=2e5, D=4e6").guess
    assert loss == pytest.approx(1 + 5 * 2e5**-0.2 + 200 * 4e6**-0.4, rel=0.01)


def test_the_same_question_has_the_same_answer_in_any_order_of_the_runs() -> None:
    plan = planned()
    records = records_of(plan)
    first = suggested(plan, records=records, budget=1e14)
    again = suggested(plan, records=[*reversed(records)], budget=1e14)
    assert again == first


def test_noise_and_distance_widen_what_is_expected() -> None:
    plan, records = planned(), records_of(planned())
    near, far = Place(N=2e5, D=4e6), Place(N=2e7, D=4e8)
    closer, farther = (
        width(suggested(plan, f"gap(ufp4) at N={one.N:g}, D={one.D:g}").now) for one in (near, far)
    )
    assert closer < inf
    assert farther > closer
    noisy = next_cells(
        wanted(), plan.spec, records, NoiseLevel(sd=0.04, source="made", gap_bend=0.0)
    )
    quiet = next_cells(
        wanted(), plan.spec, records, NoiseLevel(sd=0.004, source="made", gap_bend=0.0)
    )
    assert width(noisy.now) > 5 * width(quiet.now)


@pytest.mark.parametrize(
    ("text", "budget", "words"),
    [
        ("gap(upf4) at N=1e6, D=1e7", None, "did you mean ufp4?"),
        ("gap(bf16) at N=1e6, D=1e7", None, "is no quantized recipe of the sweep"),
        ("eff_N(nvfp4)", None, "is no quantized recipe of the sweep"),
        (GAP, 0.0, "budget = 0: must be a positive number of FLOPs"),
        (GAP, float("inf"), "budget = inf: must be"),
    ],
)
def test_what_cannot_be_asked_of_this_sweep_is_refused(
    text: str, budget: float | None, words: str
) -> None:
    with pytest.raises(InputError, match=r"^(want|budget) = ") as refused:
        suggested(planned(), text, budget)
    assert words in str(refused.value)
