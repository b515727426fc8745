"""Pairing: who is whose baseline, what is listed instead of a gap, and the summary statistics."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from kernels.recipes import BF16_RECIPE, Precision, Rule
from sweeps.errors import InputError
from sweeps.gaps.pair import pair
from sweeps.gaps.paired import Missing
from sweeps.records import Outcome
from sweeps.runspec import RunSpec, Seeds
from tests.sweeps.leaves import Leaf, leaves, moved
from tests.sweeps.made_runs import made_grid, made_run, made_spec

MADE = ("bf16", "ufp4")
ALL_LEAVES = [leaf for leaf in leaves(made_spec()) if leaf.path[0] != "recipe"]


def test_the_walk_reaches_every_section_of_a_spec() -> None:
    assert {leaf.path[0] for leaf in ALL_LEAVES} == {field.name for field in fields(RunSpec)} - {
        "recipe"
    }


@pytest.mark.parametrize("leaf", [leaf for leaf in ALL_LEAVES if leaf.is_part], ids=str)
def test_a_difference_in_any_science_field_leaves_a_run_unpaired(leaf: Leaf) -> None:
    spec = made_spec("ufp4")
    baseline = made_run(moved(replace(spec, recipe=BF16_RECIPE), leaf), {1000: 2.0})
    table = pair([made_run(spec, {1000: 2.1}), baseline])
    assert table.gaps == ()
    assert [item.reason for item in table.unpaired] == [Missing.NO_BASELINE]


@pytest.mark.parametrize("leaf", [leaf for leaf in ALL_LEAVES if not leaf.is_part], ids=str)
def test_a_difference_in_a_name_alone_does_not_part_a_pair(leaf: Leaf) -> None:
    spec = made_spec("ufp4")
    baseline = made_run(moved(replace(spec, recipe=BF16_RECIPE), leaf), {1000: 2.0})
    (gap,) = pair([made_run(spec, {1000: 2.1}), baseline]).gaps
    assert gap.baseline_id == baseline.run_id


def test_recipes_of_other_precision_share_a_baseline_and_have_gaps_of_their_own() -> None:
    ufp4, baseline = made_spec("ufp4"), made_run(made_spec(), {1000: 2.0})
    runs = [
        made_run(
            replace(ufp4, recipe=replace(ufp4.recipe, name=f"at-{gemm}", gemm=gemm)), {1000: loss}
        )
        for gemm, loss in ((Precision.FP32, 2.125), (Precision.BF16, 2.25))
    ]
    gaps = {gap.recipe: (gap.baseline_id, gap.loss) for gap in pair([*runs, baseline]).gaps}
    assert gaps == {"at-fp32": (baseline.run_id, 2.125), "at-bf16": (baseline.run_id, 2.25)}


def test_a_gap_is_the_difference_in_nats_and_in_percent_of_the_baseline() -> None:
    run, baseline = made_run(made_spec("ufp4"), {1000: 2.1}), made_run(made_spec(), {1000: 2.0})
    (gap,) = pair([run, baseline]).gaps
    assert gap.gap == pytest.approx(0.1)
    assert gap.relative == pytest.approx(5.0)
    assert gap.bf16_wins
    assert (gap.run_id, gap.baseline_id) == (run.run_id, baseline.run_id)
    assert gap.flops == 1000 * run.flops_per_token


@pytest.mark.parametrize("loss", [2.0, 1.9])
def test_bf16_wins_only_with_a_strictly_lower_loss(loss: float) -> None:
    (gap,) = pair([made_run(made_spec("ufp4"), {1: loss}), made_run(made_spec(), {1: 2.0})]).gaps
    assert not gap.bf16_wins


def test_endpoints_pair_at_equal_tokens_only() -> None:
    run = made_run(made_spec("ufp4"), {1000: 2.1, 4000: 1.9})
    table = pair([run, made_run(made_spec(), {1000: 2.0, 3999: 1.8})])
    assert [gap.tokens for gap in table.gaps] == [1000]
    (lone,) = table.unpaired
    assert (lone.tokens, lone.reason) == (4000, Missing.BASELINE_ENDPOINT_MISSING)


@pytest.mark.parametrize(
    ("outcome", "own", "of_baseline"),
    [
        (Outcome.WAITING, Missing.UNFINISHED, Missing.BASELINE_UNFINISHED),
        (Outcome.SUCCEEDED, Missing.ENDPOINT_MISSING, Missing.BASELINE_ENDPOINT_MISSING),
        (Outcome.DIVERGED, Missing.DIVERGED, Missing.BASELINE_DIVERGED),
        (Outcome.FAILED, Missing.FAILED, Missing.BASELINE_FAILED),
        (Outcome.CANCELLED, Missing.CANCELLED, Missing.BASELINE_CANCELLED),
    ],
)
def test_a_missing_endpoint_is_listed_with_what_came_of_its_run(
    outcome: Outcome, own: Missing, of_baseline: Missing
) -> None:
    def ended(recipe: str) -> Any:
        return made_run(made_spec(recipe), {}, horizons=(1000,), outcome=outcome, detail="why")

    done = {recipe: made_run(made_spec(recipe), {1000: 2.0}) for recipe in ("bf16", "ufp4")}
    (mine,) = pair([ended("ufp4"), done["bf16"]]).unpaired
    (partners,) = pair([done["ufp4"], ended("bf16")]).unpaired
    assert (mine.reason, mine.detail) == (own, "why")
    assert (partners.reason, partners.detail) == (of_baseline, "why")


def test_an_endpoint_measured_before_its_run_diverged_still_pairs() -> None:
    run = made_run(made_spec("ufp4"), {1000: 2.1}, horizons=(1000, 4000), outcome=Outcome.DIVERGED)
    table = pair([run, made_run(made_spec(), {1000: 2.0, 4000: 1.8})])
    assert [gap.tokens for gap in table.gaps] == [1000]
    assert [(lone.tokens, lone.reason) for lone in table.unpaired] == [(4000, Missing.DIVERGED)]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_non_finite_loss_on_either_side_is_no_gap(loss: float) -> None:
    mine = pair([made_run(made_spec("ufp4"), {1: loss}), made_run(made_spec(), {1: 2.0})])
    partners = pair([made_run(made_spec("ufp4"), {1: 2.0}), made_run(made_spec(), {1: loss})])
    assert [item.reason for item in mine.unpaired] == [Missing.DIVERGED]
    assert [item.reason for item in partners.unpaired] == [Missing.BASELINE_DIVERGED]


def test_a_waiting_baseline_that_was_never_asked_for_the_tokens_is_not_unfinished() -> None:
    baseline = made_run(made_spec(), {}, horizons=(4000,), outcome=Outcome.WAITING)
    (lone,) = pair([made_run(made_spec("ufp4"), {1000: 2.1}), baseline]).unpaired
    assert lone.reason is Missing.BASELINE_ENDPOINT_MISSING


@pytest.mark.parametrize(
    ("measured", "reasons"),
    [
        ({1000: 2.0, 4100: 1.9}, {4000: Missing.OVERSHOT}),
        ({1100: 2.0, 4000: 1.9}, {1000: Missing.OVERSHOT}),
        ({1000: 2.0, 3999: 1.9}, {4000: Missing.ENDPOINT_MISSING}),
        ({1000: 2.0, 4000: 1.9, 4100: 1.8}, {}),
    ],
)
def test_a_loss_measured_past_the_plan_is_no_measurement_of_it(
    measured: dict[int, float], reasons: dict[int, Missing]
) -> None:
    done = {recipe: made_run(made_spec(recipe), {1000: 2.0, 4000: 1.9}) for recipe in MADE}
    off = {recipe: made_run(made_spec(recipe), measured, horizons=(1000, 4000)) for recipe in MADE}
    mine = pair([off["ufp4"], done["bf16"]])
    partners = pair([done["ufp4"], off["bf16"]])
    assert {lone.tokens: lone.reason for lone in mine.unpaired} == reasons
    assert {lone.tokens: lone.reason for lone in partners.unpaired} == {
        tokens: Missing(f"baseline {reason}") for tokens, reason in reasons.items()
    }
    assert {gap.tokens for gap in mine.gaps} == {1000, 4000} - set(reasons)


def test_every_reason_of_a_run_has_its_twin_for_the_baseline() -> None:
    own = {reason for reason in Missing if not reason.startswith(("baseline", "no "))}
    assert {Missing(f"baseline {reason}") for reason in own} | own | {Missing.NO_BASELINE} == set(
        Missing
    )


@pytest.mark.parametrize(
    ("options", "words"), [({"level": 95.0}, "level = 95.0"), ({"margin": 0.0}, "margin = 0.0")]
)
def test_a_level_or_margin_that_is_none_is_refused_with_its_value(
    options: dict[str, float], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        pair([], **options)


def test_the_plain_bf16_run_stands_before_one_with_idle_rules() -> None:
    ruled = replace(BF16_RECIPE, name="ruled", rules=(Rule(pattern="*", quantize=False),))
    plain, odd = made_run(made_spec(), {1: 2.0}), made_spec()
    beside = made_run(replace(odd, recipe=ruled), {1: 1.5})
    for order in ([plain, beside], [beside, plain]):
        (gap,) = pair([*order, made_run(made_spec("ufp4"), {1: 2.1})]).gaps
        assert gap.baseline_id == plain.run_id


def test_the_mean_gap_and_its_interval_count_a_model_once_whatever_its_horizons() -> None:
    noise = iter(np.random.default_rng(1).normal(0, 0.01, 12).tolist())
    table = pair(made_grid({"bf16": 0.0, "ufp4": 0.03}, noise=lambda: next(noise)))
    sizes = sorted({gap.N for gap in table.gaps})
    values = [np.mean([gap.gap for gap in table.gaps if gap.N == N]) for N in sizes]
    (summary,) = table.summaries
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    assert (summary.n_models, summary.n_cells, summary.n_pairs) == (3, 6, 6)
    assert summary.mean == pytest.approx(np.mean(values))
    assert (summary.low, summary.high) == pytest.approx((low, high))
    assert summary.noise is None


def test_cells_differ_in_more_than_seeds() -> None:
    spec = made_spec("ufp4")
    again = replace(spec, seeds=Seeds(init=7))
    tuned = replace(spec, training=replace(spec.training, learning_rate=2e-3))
    runs = [
        made_run(item, {1000: 2.1 if item.recipe is spec.recipe else 2.0})
        for one in (spec, again, tuned)
        for item in (one, replace(one, recipe=BF16_RECIPE))
    ]
    (summary,) = pair(runs).summaries
    assert sorted(cell.n_seeds for cell in summary.cells) == [1, 2]


def test_one_cell_has_a_mean_and_says_why_it_has_no_interval() -> None:
    (summary,) = pair(made_grid({"bf16": 0, "ufp4": 0.02}, widths=(32,), budgets=(1000,))).summaries
    assert summary.mean == pytest.approx(0.02)
    assert summary.low is None
    assert summary.reason == "one seed: no interval from one model"


def test_a_recipe_without_a_pair_is_summarised_as_such() -> None:
    (summary,) = pair([made_run(made_spec("ufp4"), {1000: 2.0})]).summaries
    assert (summary.mean, summary.low, summary.n_unpaired) == (None, None, 1)
    assert summary.reason == "no pair"


def test_equal_losses_give_a_zero_gap_with_a_zero_interval() -> None:
    (summary,) = pair(made_grid({"bf16": 0.0, "ufp4": 0.0})).summaries
    assert (summary.mean, summary.low, summary.high, summary.n_bf16_wins) == (0, 0, 0, 0)


def test_records_in_another_order_give_the_same_gaps() -> None:
    runs = made_grid({"bf16": 0.0, "ufp4": 0.01, "e2m1-ref": 0.02})
    assert pair(runs).gaps == pair(runs[::-1]).gaps


@pytest.mark.parametrize("recipes", [{}, {"bf16": 0.0}])
def test_nothing_to_pair_is_an_empty_table(recipes: dict[str, float]) -> None:
    table = pair(made_grid(recipes))
    assert (table.gaps, table.unpaired, table.summaries) == ((), (), ())
