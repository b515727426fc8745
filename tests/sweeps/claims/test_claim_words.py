"""A judgement in sentences and as JSON: every number with unit, n, interval and what it is over."""

import json
from dataclasses import fields

import pytest

from sweeps.claims.claim_json import judgements_json
from sweeps.claims.judge import judge
from sweeps.claims.parts import Estimate
from sweeps.claims.sentences import counted, p_text, sentences
from sweeps.records import Outcome
from tests.sweeps.claims.made_sweeps import (
    claim,
    ended,
    estimate_of,
    judged,
    noisy,
    records,
    wanted_of,
)

GAPS = {"ufp4": 0.02, "e2m1-ref": 0.03}
STATEMENT = "gap(ufp4) < gap(e2m1-ref)"


def test_a_supported_claim_is_told_with_unit_interval_n_and_both_p():
    found = judged(STATEMENT, records(noisy(GAPS, 0.0005)))
    (said,) = sentences(found)
    one = estimate_of(found)
    assert f"= {one.value:+.4f} nats per token, claimed to be below 0 (w64 at 1ktok); " in said
    assert f"95 % t interval over seeds {one.low:+.4f} to {one.high:+.4f}, n = 4 seeds; " in said
    assert said.endswith(f"p = {found.p:.2g}, by Holm over 1 claim = {found.p_holm:.2g}.")


def test_several_models_are_told_as_a_mean_or_by_the_weakest():
    runs = records(noisy(GAPS, 0.0005), widths=(32, 64))
    (mean,) = sentences(judged(STATEMENT, runs))
    assert "(mean of w32 and w64)" in mean
    assert "n = 4 seeds of each model" in mean
    (weakest,) = sentences(judged(STATEMENT, runs, models="each"))
    assert "(weakest, w" in weakest
    (worst,) = sentences(judged("gap(ufp4) > gap(e2m1-ref)", runs, models="each"))
    assert "(strongest against it, w" in worst


def test_an_open_claim_says_why_what_would_decide_it_and_what_the_seeds_could_show():
    found = judged("gap(ufp4) < 0.024", records(noisy(GAPS, 0.004)))
    first, why, more = sentences(found)
    assert "claimed to be below 0.024" in first
    assert why == "Undecided: an interval reaches across the boundary of the statement."
    wanted = wanted_of(found)
    last = 3 + len(wanted.new_seeds)
    assert f"{wanted.n_needed} seeds decide it in 80 % of cases: add seeds 4 to {last} of" in more
    assert f"of ufp4 and bf16 at w64 ({wanted.runs:,} runs, " in more
    assert f"would show a distance of {wanted.detectable:.4f} nats from the boundary" in more


def test_what_has_no_loss_is_named_with_the_reason_and_the_verdict_is_provisional():
    runs = records(noisy(GAPS, 0.0005), widths=(32, 64), seeds=range(5))
    for width in (32, 64):
        for seed in (1, 3):
            runs = ended(runs, Outcome.WAITING, recipe="ufp4", seed=seed, width=width)
    said = sentences(judged(STATEMENT, runs))
    assert "Without a loss: ufp4 s1 and s3 at w32 and w64 (unfinished)." in said
    assert any(line.startswith("Provisional: ") for line in said)


def test_seeds_without_a_loss_are_in_order_in_rows_and_told_once_for_alike_recipes():
    runs = records(noisy(GAPS, 0.0005), widths=(32, 64), seeds=(7, 2, 0, 4, 3, 5, 1))
    for recipe in GAPS:
        for width, seeds in ((32, (5, 3, 4, 7)), (64, (4, 3))):
            for seed in seeds:
                runs = ended(runs, Outcome.WAITING, recipe=recipe, seed=seed, width=width)
    said = sentences(judged(STATEMENT, runs))
    assert (
        "Without a loss: ufp4 and e2m1-ref s3 to s5 and s7 at w32, s3 and s4 at w64 (unfinished)."
    ) in said


def test_before_the_noise_is_known_no_number_of_seeds_is_given():
    said = sentences(judged(STATEMENT, records(noisy(GAPS, 0.0005), seeds=(0,))))
    assert "can be said once 2 of each model are there: add seed 1 of ufp4 and e2m1-ref" in said[-1]
    assert "80 %" not in " ".join(said)


def test_a_boundary_that_cannot_be_told_apart_is_said_to_be_so():
    def loss(recipe, width, seed, tokens):
        return 2 + (0.01 if recipe == "ufp4" else 0.0) * (-1) ** seed

    said = sentences(judged("gap(ufp4) < 0", records(loss)))
    assert "more than 1,000 seeds would be needed" in said[-1]


def test_verdicts_are_counted():
    claims = [
        claim(STATEMENT, name="one"),
        claim("gap(ufp4) > gap(e2m1-ref)", name="two"),
        claim("gap(ufp4) < gap(nobody)", name="three"),
    ]
    found = judge(claims, records(noisy(GAPS, 0.0005)))
    assert counted(found).startswith("3 claims: 1 supported, 1 contradicted, 1 undecided. 2 of 2 ")
    assert counted(found[2:]) == "1 claim: 0 supported, 0 contradicted, 1 undecided."


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.5, "0.50"), (0.0321, "0.032"), (0.00012, "0.00012"), (1e-9, "<0.0001")],
)
def test_p_has_two_digits(value, text):
    assert p_text(value) == text


def test_the_json_holds_every_seed_and_is_strict():
    runs = ended(records(noisy(GAPS, 0.0005)), Outcome.WAITING, recipe="ufp4", seed=2)
    (value,) = json.loads(
        json.dumps(judgements_json(judge([claim(STATEMENT)], runs)), allow_nan=False)
    )
    assert (value["name"], value["verdict"], value["statement"]) == ("c", "supported", STATEMENT)
    (part,) = value["parts"]
    assert part == value["decisive"]
    (model,) = part["models"]
    assert [one["init"] for one in model["seeds"]] == [0, 1, 3]
    assert sum(model["values"]) / 3 == pytest.approx(part["estimate"]["value"])
    assert set(part["estimate"]) == {field.name for field in fields(Estimate)}
    assert [one["reason"] for one in value["absent"]] == ["unfinished"]
    assert not value["is_complete"]


def test_runs_without_a_loss_are_counted_before_new_seeds_are_asked_for():
    runs = records(noisy(GAPS, 0.0005), seeds=(0, 1, 2))
    for seed in (1, 2):
        runs = ended(runs, Outcome.WAITING, recipe="ufp4", seed=seed)
    said = sentences(judged(STATEMENT, runs))
    assert said[-1].startswith("2 runs of it have no loss yet. How many seeds would decide it ")
    assert "add seed" not in said[-1]
