"""Verdicts held against scipy's t tests, Holm's adjustment by hand, and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from kernels.recipes import BF16_RECIPE, Rule
from sweeps.claims.judge import Verdict, holm, judge, named
from sweeps.errors import InputError
from sweeps.records import Outcome
from sweeps.runspec import Seeds
from tests.sweeps.claims.made_sweeps import (
    claim,
    contrast,
    ended,
    estimate_of,
    judged,
    noisy,
    records,
)
from tests.sweeps.made_runs import made_run, made_spec

GAPS = {"ufp4": 0.02, "e2m1-ref": 0.03}


@pytest.mark.parametrize("sd", [0.001, 0.02])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_one_model_is_judged_by_the_paired_t_test(sd, level):
    runs = records(noisy(GAPS, sd), seeds=range(5))
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs, level=level)
    ufp4, e2m1 = (contrast(runs, {name: 1}) for name in ("ufp4", "e2m1-ref"))
    test = stats.ttest_rel(ufp4, e2m1)
    low, high = test.confidence_interval(level)
    one = estimate_of(found)
    assert (one.value, one.low, one.high) == pytest.approx((np.mean(ufp4 - e2m1), low, high))
    assert found.p == pytest.approx(test.pvalue)
    assert one.df == 4
    expected = Verdict.SUPPORTED if high < 0 else Verdict.UNDECIDED
    assert found.verdict is expected
    assert (found.p < 1 - level) is (expected is Verdict.SUPPORTED)


def test_a_bound_on_one_gap_is_judged_on_differences_to_bf16():
    runs = records(noisy(GAPS, 0.001))
    found = judged("gap(ufp4) < 0.025", runs)
    test = stats.ttest_1samp(contrast(runs, {"ufp4": 1, "bf16": -1}), 0.025)
    assert found.verdict is Verdict.SUPPORTED
    assert found.p == pytest.approx(test.pvalue)


def test_a_ratio_is_judged_as_a_contrast_in_which_bf16_counts_with_the_rest():
    runs = records(noisy(GAPS, 0.001))
    found = judged("gap(ufp4) <= 0.8 * gap(e2m1-ref)", runs)
    values = contrast(runs, {"ufp4": 1, "e2m1-ref": -0.8, "bf16": -0.2})
    assert estimate_of(found).value == pytest.approx(values.mean())
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_equivalence_is_two_one_sided_tests():
    runs = records(noisy({"ufp4": 0.004}, 0.001), seeds=range(6))
    found = judged("abs(gap(ufp4)) < 0.01", runs)
    values = contrast(runs, {"ufp4": 1, "bf16": -1})
    sides = [
        stats.ttest_1samp(values, 0.01, alternative="less").pvalue,
        stats.ttest_1samp(values, -0.01, alternative="greater").pvalue,
    ]
    assert found.p == pytest.approx(2 * max(sides))
    assert found.verdict is Verdict.SUPPORTED
    far = records(noisy({"ufp4": 0.05}, 0.003), seeds=range(6))
    assert judged("abs(gap(ufp4)) < 0.01", far).verdict is Verdict.CONTRADICTED
    assert judged("abs(gap(ufp4)) > 0.01", far).verdict is Verdict.SUPPORTED


def test_a_difference_of_either_sign_is_the_two_sided_test():
    runs = records(noisy(GAPS, 0.004))
    found = judged("abs(gap(ufp4) - gap(e2m1-ref)) > 0", runs)
    test = stats.ttest_rel(contrast(runs, {"ufp4": 1}), contrast(runs, {"e2m1-ref": 1}))
    assert found.p == pytest.approx(test.pvalue)


def test_the_mean_over_two_models_is_welchs_test():
    sd = {32: 0.01, 128: 0.001}
    runs = records(noisy(GAPS, sd), widths=(32, 128), seeds=range(5))
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs, models="mean")
    one, other = (contrast(runs, {"ufp4": 1, "e2m1-ref": -1}, width=width) for width in (32, 128))
    test = stats.ttest_ind(one, -other, equal_var=False)
    low, high = test.confidence_interval(0.95)
    assert found.p == pytest.approx(test.pvalue)
    assert estimate_of(found).df == pytest.approx(test.df)
    assert (estimate_of(found).low, estimate_of(found).high) == pytest.approx((low / 2, high / 2))
    assert len(found.parts) == 1


def test_each_model_must_pass_and_the_weakest_gives_p():
    runs = records(noisy(GAPS, {32: 0.003, 64: 0.001, 128: 0.002}), widths=(128, 32, 64))
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs, models="each")
    tests = {
        width: stats.ttest_1samp(contrast(runs, {"ufp4": 1, "e2m1-ref": -1}, width=width), 0)
        for width in (32, 64, 128)
    }
    assert [part.models for part in found.parts] == [("w32",), ("w64",), ("w128",)]
    weakest = max(tests, key=lambda width: tests[width].pvalue)
    assert found.p == pytest.approx(tests[weakest].pvalue)
    assert found.decisive is not None
    assert found.decisive.models == (f"w{weakest}",)


def test_one_model_against_a_claim_about_each_refutes_it_with_a_correction_for_their_number():
    def loss(recipe, width, seed, tokens):
        better = -1 if width == 64 else 1
        return noisy({"ufp4": 0.02 - 0.01 * better, "e2m1-ref": 0.02}, 0.0005)(
            recipe, width, seed, tokens
        )

    runs = records(loss, widths=(32, 64, 128))
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs, models="each")
    against = stats.ttest_1samp(contrast(runs, {"ufp4": 1, "e2m1-ref": -1}), 0).pvalue
    assert found.verdict is Verdict.CONTRADICTED
    assert found.p == pytest.approx(3 * against)
    assert found.decisive is not None
    assert found.decisive.models == ("w64",)


def test_the_largest_model_is_that_of_most_parameters_wherever_it_stands():
    runs = records(noisy(GAPS, 0.001), widths=(128, 32, 64))
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs, models="largest")
    assert [part.models for part in found.parts] == [("w128",)]


def test_budgets_are_each_longest_or_their_mean_in_each_seed():
    runs = records(noisy(GAPS, 0.002), budgets=(1000, 4000))
    statement = "gap(ufp4) < gap(e2m1-ref)"
    short, long = (
        contrast(runs, {"ufp4": 1, "e2m1-ref": -1}, tokens=tokens) for tokens in (1000, 4000)
    )
    by_budgets = {
        budgets: judged(statement, runs, budgets=budgets) for budgets in ("each", "longest", "mean")
    }
    assert [len(found.parts) for found in by_budgets.values()] == [2, 1, 1]
    assert by_budgets["longest"].p == pytest.approx(stats.ttest_1samp(long, 0).pvalue)
    mean = stats.ttest_1samp((short + long) / 2, 0)
    assert by_budgets["mean"].p == pytest.approx(mean.pvalue)
    worst = max(stats.ttest_1samp(own, 0).pvalue for own in (short, long))
    assert by_budgets["each"].p == pytest.approx(worst)


@pytest.mark.parametrize("statement", ["gap(ufp4) < gap(e2m1-ref)", "gap(ufp4) < 0.8 * gap(ufp4)"])
def test_what_the_runs_of_a_seed_share_cancels(statement):
    quiet, loud = (
        judged(statement, records(noisy(GAPS, 0.002, shared=shared))) for shared in (0.0, 0.4)
    )
    assert estimate_of(quiet).value == pytest.approx(estimate_of(loud).value, abs=1e-12)
    assert quiet.p == pytest.approx(loud.p)


def test_a_claim_in_which_bf16_cancels_needs_no_bf16_run():
    runs = records(noisy(GAPS, 0.001), recipes=("ufp4", "e2m1-ref"))
    assert judged("gap(ufp4) < gap(e2m1-ref)", runs).verdict is Verdict.SUPPORTED
    lacking = judged("gap(ufp4) < 0.1", runs)
    assert lacking.verdict is Verdict.UNDECIDED
    assert {(one.recipe, one.reason) for one in lacking.absent} == {("bf16", "not planned")}


def test_the_order_of_the_records_and_of_the_seeds_means_nothing():
    runs = records(noisy(GAPS, 0.004), widths=(32, 64))
    shuffled = [runs[i] for i in np.random.default_rng(1).permutation(len(runs))]
    ours, theirs = (
        judged("gap(ufp4) < gap(e2m1-ref)", one, models="each") for one in (runs, shuffled)
    )
    assert ours.verdict is theirs.verdict
    assert ours.p == pytest.approx(theirs.p)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.WAITING, "unfinished"),
        (Outcome.FAILED, "failed"),
        (Outcome.CANCELLED, "cancelled"),
        (Outcome.SUCCEEDED, "endpoint missing"),
    ],
)
def test_a_run_without_a_loss_takes_its_seed_away_and_is_named(outcome, reason):
    runs = ended(records(noisy(GAPS, 0.001)), outcome, recipe="ufp4", seed=2, detail="why")
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs)
    (absent,) = found.absent
    assert (absent.recipe, absent.seeds.init, absent.reason) == ("ufp4", 2, reason)
    assert absent.detail == "why"
    assert found.parts[0].n_seeds == (3,)
    assert found.verdict is Verdict.SUPPORTED
    assert not found.is_complete


@pytest.mark.parametrize("recipe", ["ufp4", "bf16"])
def test_a_diverged_run_leaves_no_verdict_from_the_survivors(recipe):
    runs = ended(records(noisy(GAPS, 0.001)), Outcome.DIVERGED, recipe=recipe, seed=1)
    found = judged("gap(ufp4) < 0.5", runs)
    assert found.verdict is Verdict.UNDECIDED
    assert "diverged at w64" in found.reason
    assert found.p is None
    assert found.wanted is None


def test_a_single_seed_is_no_verdict_at_any_distance():
    found = judged("gap(ufp4) < gap(e2m1-ref)", records(noisy(GAPS, 0.0), seeds=(0,)))
    assert found.verdict is Verdict.UNDECIDED
    assert found.reason == "needs 2 complete seeds of each model at least and has 1 at w64"
    assert (found.p, found.p_holm, found.decisive) == (None, None, None)


def test_one_model_short_of_seeds_leaves_a_claim_about_each_open_unless_another_refutes_it():
    runs = records(noisy(GAPS, 0.001), widths=(32, 64))
    for seed in (0, 1, 2):
        runs = ended(runs, Outcome.WAITING, recipe="ufp4", seed=seed)
    found = judged("gap(ufp4) < gap(e2m1-ref)", runs, models="each")
    assert found.verdict is Verdict.UNDECIDED
    assert found.p == 1
    refuted = judged("gap(ufp4) > gap(e2m1-ref)", runs, models="each")
    assert refuted.verdict is Verdict.CONTRADICTED


def test_identical_differences_are_decided_without_a_division_by_zero():
    def exact(recipe, width, seed, tokens):
        return 2 + {"bf16": 0, "ufp4": 0.25, "e2m1-ref": 0.5}[recipe]

    runs = records(exact)
    assert judged("gap(ufp4) < gap(e2m1-ref)", runs).verdict is Verdict.SUPPORTED
    assert judged("gap(ufp4) > gap(e2m1-ref)", runs).verdict is Verdict.CONTRADICTED
    assert judged("gap(ufp4) < 0.25", runs).verdict is Verdict.UNDECIDED


def test_streams_that_do_not_vary_are_told():
    seeds = [Seeds(init=1, data=1, sr=sr, rht=1) for sr in range(4)]
    runs = [
        made_run(replace(made_spec(recipe), seeds=one), {1000: 2 + index + 0.01 * (one.sr % 2)})
        for index, recipe in enumerate(("bf16", "ufp4"))
        for one in seeds
    ]
    assert judged("gap(ufp4) > 0", runs).varied == ("sr",)


def test_records_of_two_sweeps_with_unlike_training_are_refused():
    runs = records(noisy(GAPS, 0.001))
    other = replace(runs[0].spec, training=replace(runs[0].spec.training, learning_rate=0.5))
    with pytest.raises(InputError, match="trained in two different ways"):
        judge([claim("gap(ufp4) < 1")], [*runs, replace(runs[0], spec=other)])


def test_models_of_unlike_numbers_of_budgets_have_no_mean_at_each_budget():
    runs = [
        *records(noisy(GAPS, 0.001), widths=(32,), budgets=(1000,)),
        *records(noisy(GAPS, 0.001), widths=(64,), budgets=(1000, 2000)),
    ]
    found = judged("gap(ufp4) < 1", runs, budgets="each")
    assert found.verdict is Verdict.UNDECIDED
    assert found.reason == "its models have unlike numbers of budgets"
    assert judged("gap(ufp4) < 1", runs, budgets="mean").verdict is Verdict.SUPPORTED
    assert len(judged("gap(ufp4) < 1", runs, budgets="each", models="each").parts) == 3


@pytest.mark.parametrize("order", [1, -1])
def test_bf16_under_exemptions_does_not_stand_in_for_bf16(order):
    rules = (Rule(pattern="*.down", quantize=False),)
    exempt = replace(BF16_RECIPE, name="bf16-exempt", rules=rules)
    others = [
        made_run(replace(made_spec(seed=seed), recipe=exempt), {1000: 9.0}) for seed in range(4)
    ]
    runs = [*others, *records(noisy(GAPS, 0.001))][::order]
    assert estimate_of(judged("gap(ufp4) < 1", runs)).value == pytest.approx(0.02, abs=0.005)


def test_no_records_leave_every_claim_open():
    found = judged("gap(ufp4) < 1", [])
    assert (found.verdict, found.parts, found.wanted) == (Verdict.UNDECIDED, (), None)


def test_holms_adjustment_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    first, second, third = holm([0.02, None, 0.9])
    assert (second, third) == (None, 1.0)
    assert first == pytest.approx(0.06)
    assert holm([]) == ()


def test_a_claim_without_data_counts_in_the_number_of_claims():
    runs = records(noisy(GAPS, 0.001))
    claims = [claim("gap(ufp4) < gap(e2m1-ref)"), claim("gap(fp8-block) < 1", name="d")]
    first, second = judge(claims, runs)
    assert first.p is not None
    assert first.p_holm == pytest.approx(2 * first.p)
    assert (second.p_holm, second.n_claims) == (None, 2)


def test_claims_are_found_by_name_or_the_closest_is_told():
    found = judge([claim("gap(ufp4) < 1", name=name) for name in ("one", "two")], [])
    assert [one.claim.name for one in named(found, ["two"])] == ["two"]
    assert named(found, ()) == found
    with pytest.raises(InputError, match=r"claim = tow: .* did you mean 'two'\?"):
        named(found, ["tow"])
    with pytest.raises(InputError, match="the claims are one and two"):
        named(found, ["zzz"])
