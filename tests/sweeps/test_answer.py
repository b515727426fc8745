"""The answer: one value for all front doors, whatever came of the runs."""

import csv
import io
import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sweeps.answer import Answer, answer, to_json
from sweeps.errors import InputError
from sweeps.fits.result import Status
from sweeps.plain import plain
from sweeps.records import Outcome, RunRecord
from sweeps.tables.results import endpoint_table
from sweeps.tables.table import Form, encode
from tests.sweeps.made_runs import UNIGRAM, made_grid, made_run, made_spec

RECIPES = {"bf16": 0.0, "e2m1-ref": 0.03, "ufp4": 0.02}


def endpoints_csv(result: Answer) -> str:
    return encode(endpoint_table(result.rows), Form.CSV).decode()


def noisy_grid(**changes: Any) -> list[RunRecord]:
    random = np.random.default_rng(0)
    return made_grid(RECIPES, noise=lambda: float(random.normal(0, 0.001)), **changes)


def strict(result: Answer) -> dict[str, Any]:
    """The JSON form after a trip through text that refuses NaN."""
    parsed: dict[str, Any] = json.loads(json.dumps(to_json(result), allow_nan=False))
    return parsed


def broken(run: RunRecord, outcome: Outcome, detail: str = "loss is nan at step 9") -> RunRecord:
    return replace(run, outcome=outcome, detail=detail, endpoints=())


def test_a_quickstart_sized_sweep_answers_with_gaps_and_an_honest_fit() -> None:
    result = answer(noisy_grid(), resamples=200)
    assert [fit.label for fit in result.fits] == ["bf16", "e2m1-ref", "ufp4"]
    assert {fit.status for fit in result.fits} == {Status.INSIDE_ONLY}
    means = {summary.recipe: summary.mean for summary in result.gaps.summaries}
    assert means == pytest.approx({"e2m1-ref": 0.03, "ufp4": 0.02}, abs=0.002)
    assert result.unigram_entropy == (UNIGRAM, UNIGRAM)
    assert result.not_beaten == ()
    text = " ".join(result.sentences)
    assert "18 of 18 endpoints measured" in text
    assert "18 of 18 endpoint losses lie below it" in text
    assert "bf16 has the lower loss in every one of the 12 pairs" in text
    assert "not identified" in text


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (2.1, "bf16 has the lower loss in its only pair."),
        (1.9, "bf16 does not have the lower loss in its only pair: "),
    ],
)
def test_a_single_pair_is_called_the_only_one(loss: float, words: str) -> None:
    runs = [made_run(made_spec(), {1000: 2.0}), made_run(made_spec("ufp4"), {1000: loss})]
    assert words in " ".join(answer(runs).sentences)


def test_where_bf16_does_not_win_is_named() -> None:
    runs = [
        made_run(made_spec(), {1000: 2.0, 4000: 1.8}),
        made_run(made_spec("ufp4"), {1000: 1.9, 4000: 1.85}),
    ]
    result = answer(runs)
    assert [(gap.recipe, gap.tokens) for gap in result.not_beaten] == [("ufp4", 1000)]
    assert any("w64 ufp4 s0 at 1,000 tokens (-0.1000)" in line for line in result.sentences)
    assert [gap["tokens"] for gap in strict(result)["not_beaten"]] == [1000]


def test_a_diverged_run_is_in_the_rows_the_json_the_csv_and_the_words() -> None:
    runs = noisy_grid()
    runs[-1] = broken(runs[-1], Outcome.DIVERGED)
    result = answer(runs, resamples=200)
    lost = [row for row in strict(result)["endpoints"] if row["outcome"] == "diverged"]
    assert len(lost) == 2
    for row in lost:
        assert (row["loss"], row["loss_tag"], row["reason"]) == (None, "diverged", "diverged")
        assert row["detail"] == "loss is nan at step 9"
    lines = list(csv.DictReader(io.StringIO(endpoints_csv(result))))
    assert [line["loss"] for line in lines if line["outcome"] == "diverged"] == ["", ""]
    (alone,) = [line for line in result.sentences if line.startswith("Without a gap: ")]
    assert alone == "Without a gap: w112 ufp4 s0 at 1,000,000 and 4,000,000 tokens (diverged)."
    assert "16 of 18 endpoints measured, 2 diverged." in result.sentences
    assert f"{runs[-1].spec.label} diverged: loss is nan at step 9." in result.sentences
    assert any("better in 4 of 4 pairs, 2 more diverged." in line for line in result.sentences)


def test_what_is_unfinished_is_counted_once_and_named_by_no_fit() -> None:
    runs = [
        replace(run, outcome=Outcome.WAITING, endpoints=())
        if run.spec.model.name == "w112"
        else run
        for run in noisy_grid()
    ]
    said = answer(runs, resamples=200).sentences
    assert "12 of 18 endpoints measured, 6 unfinished." in said
    assert "Without a gap: 4 endpoints of 2 runs, as it is unfinished." in said
    assert not any("Not fitted" in line or "w112" in line for line in said)


def test_a_sentence_that_holds_for_every_recipe_says_so() -> None:
    said = answer(noisy_grid(), resamples=200).sentences
    assert any(line.startswith("Fit of every recipe: ") for line in said)
    assert not any("bf16, e2m1-ref and ufp4" in line for line in said)


def test_sums_of_parts_and_published_laws_are_in_the_json() -> None:
    result = answer(noisy_grid(), resamples=200)
    found = strict(result)
    for part in ("additivity", "predicted", "orders", "signs"):
        assert len(found[part]) == len(getattr(result.formats, part))
    assert {one["recipe"] for one in found["predicted"]} == {"e2m1-ref", "ufp4"}
    assert {one["recipe"] for one in found["signs"]} == {"e2m1-ref", "ufp4"}


def test_a_nan_loss_is_null_with_a_tag() -> None:
    runs = [
        made_run(made_spec(), {1000: 2.0}),
        made_run(made_spec("ufp4"), {1000: float("nan")}, outcome=Outcome.DIVERGED),
    ]
    result = answer(runs)
    row = strict(result)["endpoints"][1]
    assert (row["loss"], row["loss_tag"], row["gap"]) == (None, "nan", None)
    assert "nan" not in endpoints_csv(result).lower()


def test_one_seed_is_said_to_leave_the_noise_between_seeds_unknown() -> None:
    said = answer(noisy_grid(), resamples=200).sentences
    assert "Too few repeated seeds: no interval is over seeds, and no noise floor is known." in said


def test_repeated_seeds_give_the_noise_floor_and_what_it_lets_one_see() -> None:
    random = np.random.default_rng(0)
    spread = iter(np.tile(np.repeat([0.001, 0.004, 0.002], 3), 3).tolist())  # by recipe
    runs = made_grid(
        RECIPES,
        seeds=(0, 1, 2),
        noise=lambda: next(spread) * float(random.normal()),
        budgets=(10**6,),
    )
    result = answer(runs, resamples=200)
    (said,) = [line for line in result.sentences if line.startswith("Noise between seeds")]
    floors = [one.noise.pair_sd for one in result.gaps.summaries if one.noise is not None]
    found = [one.certainty.detectable for one in result.gaps.summaries if one.certainty is not None]
    assert f"{min(floors):.4f} to {max(floors):.4f} nats per token" in said
    assert "with 3 seeds at each model" in said
    assert f"{min(found):.4f} to {max(found):.4f} would be told from zero" in said
    assert any("t interval over seeds at these 3 models" in line for line in result.sentences)


def test_each_recipe_is_set_beside_the_margin() -> None:
    runs = noisy_grid(seeds=(0, 1, 2))
    said = {
        margin: [one for one in answer(runs, margin=margin).sentences if "beside a margin" in one]
        for margin in (0.01, 0.025, 0.1)
    }
    assert [line.partition("%): ")[2] for lines in said.values() for line in lines] == [
        "above it: e2m1-ref and ufp4.",
        "within it: ufp4; above it: e2m1-ref.",
        "within it: e2m1-ref and ufp4.",
    ]


def test_the_worth_of_a_recipe_is_in_the_json_without_its_draws() -> None:
    runs = noisy_grid(
        widths=(32, 64, 128, 256), budgets=tuple(10**6 * 2**k for k in range(5)), seeds=(0, 1)
    )
    result = answer(runs, resamples=100)
    found = {one["label"]: one for one in strict(result)["effective"]}
    assert set(found) == {"e2m1-ref", "ufp4"}
    for one in result.formats.effective:
        values = found[one.label]
        assert values["C_mult"]["value"] == one.C_mult.value is not None
        assert one.draws is not None
        assert "draws" not in values
        assert "samples" not in json.dumps(values)


def test_a_sweep_without_bf16_runs_says_nothing_of_worth() -> None:
    runs = [run for run in noisy_grid() if not run.spec.recipe.is_bf16]
    assert answer(runs, resamples=200).formats.effective == ()


def test_the_csv_has_one_line_for_every_planned_endpoint() -> None:
    runs = noisy_grid()
    result = answer(runs, resamples=200)
    lines = list(csv.DictReader(io.StringIO(endpoints_csv(result))))
    assert len(lines) == sum(len(run.horizons) for run in runs) == 18
    by_key = {(line["model"], line["recipe"], line["tokens"]): line for line in lines}
    for gap in result.gaps.gaps:
        line = by_key[gap.model, gap.recipe, str(gap.tokens)]
        assert float(line["loss"]) == gap.loss
        assert float(line["gap"]) == gap.gap
        assert float(line["relative"]) == gap.relative
        assert line["baseline_id"] == gap.baseline_id
    assert [line["gap"] for line in lines if line["recipe"] == "bf16"] == [""] * 6


def test_rows_put_bf16_before_its_rivals_in_each_cell() -> None:
    rows = answer(noisy_grid()[::-1], resamples=200).rows
    assert [row.recipe for row in rows[:6]] == ["bf16", "e2m1-ref", "ufp4"] * 2
    assert [row.tokens for row in rows[:6]] == [1_000_000] * 3 + [4_000_000] * 3


def test_the_json_curves_stay_inside_the_data_and_between_their_bands() -> None:
    for item in strict(answer(noisy_grid(), resamples=200))["fits"]:
        assert [line["model"] for line in item["curves"]] == ["w32", "w64", "w112"]
        for line in item["curves"]:
            assert line["tokens"][0] == pytest.approx(1e6)
            assert line["tokens"][-1] == pytest.approx(4e6)
            assert line["flops"] == pytest.approx(6 * line["N"] * np.array(line["tokens"]))
            ordered = np.array([line["low"], line["loss"], line["high"]])
            assert (np.diff(ordered, axis=0) >= 0).all()


def test_a_grid_of_twenty_cells_identifies_the_law_it_was_made_from() -> None:
    random = np.random.default_rng(1)
    runs = made_grid(
        {"bf16": 0.0},
        widths=(32, 64, 128, 256, 512),
        budgets=tuple(10**6 * 4**k for k in range(6)),
        noise=lambda: float(random.normal(0, 0.0003)),
    )
    (item,) = answer(runs, resamples=200).fits
    assert item.status is Status.IDENTIFIED
    values = {estimate.name: estimate.value for estimate in item.estimates}
    assert values["E"] == pytest.approx(1.0, abs=0.05)
    assert values["alpha"] == pytest.approx(0.2, abs=0.02)
    assert values["beta"] == pytest.approx(0.4, abs=0.02)


def test_runs_on_different_text_are_not_put_into_one_fit() -> None:
    runs = noisy_grid()
    corpus = replace(runs[0].spec.corpus, fingerprint="other")
    runs += [replace(run, spec=replace(run.spec, corpus=corpus)) for run in runs]
    result = answer(runs)
    assert {fit.status for fit in result.fits} == {Status.NOT_IDENTIFIED}
    assert "not comparable" in result.fits[0].verdict[0]
    assert len(result.gaps.gaps) == 24


def test_a_tokenizer_that_lies_elsewhere_is_the_same_tokenizer() -> None:
    runs = noisy_grid()
    tokenizer = replace(runs[0].spec.tokenizer, path="/elsewhere/tokenizer.json")
    moved = [
        replace(run, spec=replace(run.spec, tokenizer=tokenizer)) if index % 2 else run
        for index, run in enumerate(runs)
    ]
    assert [fit.status for fit in answer(moved).fits] == [fit.status for fit in answer(runs).fits]


def test_losses_above_the_unigram_entropy_are_counted_as_such() -> None:
    result = answer([made_run(made_spec(), {1000: UNIGRAM + 1, 2000: UNIGRAM - 1})])
    assert any("1 of 2 endpoint losses lie below it" in line for line in result.sentences)


def test_the_same_records_give_the_same_answer() -> None:
    assert answer(noisy_grid(), resamples=200) == answer(noisy_grid(), resamples=200)


def test_a_record_listed_twice_changes_nothing() -> None:
    runs = noisy_grid()
    assert answer([*runs, *runs], resamples=200) == answer(runs, resamples=200)


def test_an_impossible_number_of_draws_is_refused() -> None:
    with pytest.raises(InputError, match="resamples"):
        answer(noisy_grid(), resamples=1)


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [made_run(made_spec(), {1000: 2.0})],
        [made_run(made_spec("ufp4"), {1000: 2.0})],
        [made_run(made_spec(), {})],
        made_grid({"bf16": 0.0}),
        made_grid({"bf16": 0.0, "ufp4": 0.0}),
        [broken(run, Outcome.DIVERGED) for run in made_grid(RECIPES)],
        [broken(run, Outcome.WAITING) for run in made_grid(RECIPES)],
        [made_run(made_spec(width=w), {1000: 2.0, 2000: 2.0}) for w in (32, 64, 112)],
    ],
    ids=[
        "none", "one", "one without baseline", "no horizon", "baselines", "zero gaps",
        "all diverged", "all waiting", "equal losses",
    ],
)  # fmt: skip
def test_any_sweep_has_an_answer_in_every_form(runs: list[RunRecord]) -> None:
    result = answer(runs, resamples=200)
    assert result.sentences
    assert len(strict(result)["endpoints"]) == sum(len(run.horizons) for run in runs)
    assert len(endpoints_csv(result).splitlines()) == 1 + len(result.rows)


OUTCOMES = st.sampled_from(list(Outcome))
LOSSES = st.one_of(st.floats(0.5, 5.0), st.sampled_from([float("nan"), float("inf"), 2.0]))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_mixture_of_outcomes_counts_every_planned_endpoint_once(data: st.DataObject) -> None:
    runs = [
        made_run(
            made_spec(recipe, width=width),
            {D: data.draw(LOSSES) for D in (1000, 4000) if data.draw(st.booleans())},
            horizons=(1000, 4000),
            outcome=data.draw(OUTCOMES),
        )
        for recipe in ("bf16", "ufp4")
        for width in (32, 64, 112)
    ]
    result = answer(runs, resamples=100)
    gaps, lone = result.gaps.gaps, result.gaps.unpaired
    planned = {(run.run_id, D) for run in runs[3:] for D in (1000, 4000)}
    told = {(gap.run_id, gap.tokens) for gap in gaps} | {(one.run_id, one.tokens) for one in lone}
    assert told == planned
    assert len(gaps) + len(lone) == len(planned)
    assert len(strict(result)["endpoints"]) == 12


class Shade(Enum):
    DARK = "dark"


@dataclass(frozen=True)
class Sample:
    shade: Shade
    value: float
    more: tuple[float, ...]


def test_plain_values_tag_what_json_cannot_hold() -> None:
    value = Sample(shade=Shade.DARK, value=float("-inf"), more=(1.0, float("nan")))
    assert plain(value) == {
        "shade": "dark",
        "value": None,
        "value_tag": "-inf",
        "more": [1.0, "nan"],
    }


def test_a_value_without_a_json_form_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        plain(b"x")
