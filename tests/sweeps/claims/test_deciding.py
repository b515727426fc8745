"""How many seeds would decide: held against simulated sweeps of that many seeds."""

import numpy as np
import pytest

from sweeps.claims.contrasts import Board, Stratum
from sweeps.claims.deciding import Wanted, wanted
from sweeps.claims.judge import Verdict
from sweeps.claims.parts import judged as judged_part
from sweeps.claims.statement import parse_statement
from sweeps.gaps.power import pairs_needed
from sweeps.records import Outcome, RunRecord
from tests.sweeps.claims.made_sweeps import (
    Losses,
    claim,
    contrast,
    ended,
    judged,
    noisy,
    records,
    strata_of,
    wanted_of,
)

CLOSE = {"ufp4": 0.02, "e2m1-ref": 0.0215}
STATEMENT = "gap(ufp4) < gap(e2m1-ref)"


def open_claim() -> tuple[list[RunRecord], Wanted]:
    runs = records(noisy(CLOSE, 0.003, seed=2), seeds=range(4))
    found = judged(STATEMENT, runs)
    assert found.verdict is Verdict.UNDECIDED
    return runs, wanted_of(found)


def test_the_seeds_of_one_model_are_those_of_the_t_test_with_the_noise_that_was_measured():
    runs, asked = open_claim()
    values = contrast(runs, {"ufp4": 1, "e2m1-ref": -1})
    number = pairs_needed(float(values.std(ddof=1)), float(values.mean()))
    assert number is not None
    assert (asked.n_needed, asked.n_seeds) == (number, 4)
    assert [one.init for one in asked.new_seeds] == list(range(4, number))
    assert asked.runs == 2 * (number - 4)
    assert asked.flops == asked.runs * 1000 * runs[0].flops_per_token
    assert (asked.models, asked.recipes) == (("w64",), ("ufp4", "e2m1-ref"))


def test_bf16_is_asked_for_where_the_claim_needs_it():
    runs = records(noisy(CLOSE, 0.01, seed=3), seeds=range(4))
    found = judged("gap(ufp4) < 0.021", runs)
    assert found.wanted is not None
    assert found.wanted.recipes == ("ufp4", "bf16")


@pytest.mark.parametrize(
    ("statement", "truth", "sd", "inside"),
    [
        ("gap(a) < 0", [-0.5], [1.0], True),
        ("gap(a) < 0", [-0.6, -0.6, -0.6], [2.0, 1.0, 0.5], True),
        ("abs(gap(a)) < 1", [0.3], [0.9], True),
        ("abs(gap(a)) < 1", [0.0, 0.0], [1.5, 0.7], True),
        ("gap(a) < 0", [0.7], [1.0], False),
    ],
)
def test_so_many_seeds_decide_in_about_four_of_five_sweeps(statement, truth, sd, inside):
    # A first sweep whose estimate and noise are exactly these, then sweeps of the number it gives.
    parsed = parse_statement(statement)
    exact = [
        mean + scale * np.array([-1.0, 1.0]) / np.sqrt(2)
        for mean, scale in zip(truth, sd, strict=True)
    ]
    number = _needed(statement, strata_of(exact))
    random = np.random.default_rng(5)
    decided = 0
    for _ in range(600):
        draws = [random.normal(mean, scale, number) for mean, scale in zip(truth, sd, strict=True)]
        found = judged_part(strata_of(draws), parsed, 0.95).estimate
        assert found is not None
        decided += 2 * (found.p_for if inside else found.p_against) < 0.05
    assert 0.76 <= decided / 600 <= 0.9


def _needed(statement: str, strata: tuple[Stratum, ...]) -> int:
    part = judged_part(strata, parse_statement(statement), 0.95)
    found = wanted(claim(statement), [part], Board([]))
    assert found is not None
    assert found.n_needed is not None
    return found.n_needed


def test_runs_that_are_still_to_end_come_before_new_ones():
    runs, _ = open_claim()
    for recipe in ("ufp4", "e2m1-ref"):
        runs = ended(runs, Outcome.WAITING, recipe=recipe, seed=3)
    asked = judged(STATEMENT, runs).wanted
    assert asked is not None
    assert (asked.n_seeds, asked.unfinished) == (3, 2)
    assert asked.n_needed is not None
    assert len(asked.new_seeds) == max(0, asked.n_needed - 4)
    assert asked.runs == 2 + 2 * len(asked.new_seeds)


def test_without_noise_known_two_seeds_are_asked_for():
    asked = judged(STATEMENT, records(noisy(CLOSE, 0.002), seeds=(7,))).wanted
    assert asked is not None
    assert (asked.n_needed, asked.detectable) == (2, None)
    assert [one.init for one in asked.new_seeds] == [8]


def test_an_estimate_on_the_boundary_is_told_that_no_number_of_seeds_would_do():
    def loss(recipe, width, seed, tokens):
        return 2 + (0.01 if recipe == "ufp4" else 0.0) * (-1) ** seed

    found = judged("gap(ufp4) < 0", records(loss))
    assert found.wanted is not None
    assert (found.wanted.n_needed, found.wanted.new_seeds) == (None, ())
    assert found.wanted.detectable is not None


def test_of_several_models_only_those_that_do_not_pass_are_asked_for():
    runs = records(noisy(CLOSE, {32: 0.0001, 64: 0.004}, seed=3), widths=(32, 64))
    found = judged(STATEMENT, runs, models="each")
    assert found.verdict is Verdict.UNDECIDED
    assert found.wanted is not None
    assert found.wanted.models == ("w64",)
    together = judged(STATEMENT, records(noisy(CLOSE, 0.01, seed=3), widths=(32, 64)))
    assert together.wanted is not None
    assert together.wanted.models == ("w32", "w64")


def test_a_decided_claim_asks_for_nothing():
    found = judged(STATEMENT, records(noisy({"e2m1-ref": 0.1}, 0.001)))
    assert (found.verdict, found.wanted) == (Verdict.SUPPORTED, None)


def alternating(sizes: dict[int, tuple[float, float]]) -> Losses:
    """Losses whose contrast has exactly this mean and spread over four seeds, by width."""

    def loss(recipe: str, width: int, seed: int, tokens: int) -> float:
        mean, spread = sizes[width]
        return 2 + (mean + spread * (-1) ** seed if recipe == "ufp4" else 0.0)

    return loss


def test_the_weakest_of_several_models_sets_the_number_and_all_of_them_the_cost():
    sizes = {32: (-0.01, 0.02), 64: (-0.01, 0.03)}
    runs = records(alternating(sizes), widths=(32, 64))
    asked = wanted_of(judged(STATEMENT, runs, models="each"))
    spreads = [spread * np.sqrt(4 / 3) for _, spread in sizes.values()]
    numbers = [pairs_needed(float(sd), 0.01) for sd in spreads]
    assert numbers[0] is not None
    assert numbers[1] is not None
    assert asked.n_needed == numbers[1] > numbers[0]
    new = 2 * (numbers[1] - 4)
    rates = {run.spec.model.name: run.flops_per_token for run in runs}
    assert asked.runs == 2 * new
    assert asked.flops == pytest.approx(new * 1000 * sum(rates.values()))


def test_what_leans_against_a_claim_about_each_model_must_pass_the_correction_for_their_number():
    sizes = {32: (-0.5, 0.001), 64: (0.01, 0.02), 128: (-0.5, 0.001)}
    runs = records(alternating(sizes), widths=tuple(sizes))
    asked = wanted_of(judged(STATEMENT, runs, models="each"))
    assert asked.models == ("w64",)
    sd = float(0.02 * np.sqrt(4 / 3))
    assert asked.n_needed == pairs_needed(sd, 0.01, 1 - 0.05 / 3)
    assert asked.n_needed != pairs_needed(sd, 0.01)
