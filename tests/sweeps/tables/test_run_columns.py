"""From columns to points: arms, clusters, what is excluded, and what may not be fitted together."""

from typing import Any

import numpy as np
import pytest
from pandas import DataFrame, concat

from sweeps.errors import InputError
from sweeps.tables.run_columns import Columns, joint_sample, samples


def made(**columns: Any) -> DataFrame:
    """Eight rows: two formats at two sizes and two token counts."""
    base = {
        "N": [1e6, 1e6, 2e6, 2e6] * 2,
        "D": [1e7, 2e7] * 4,
        "loss": np.linspace(3, 2, 8),
        "format": ["fp4"] * 4 + ["BF16"] * 4,
    }
    frame = DataFrame(base | columns)
    frame.index = frame.index + 1
    return frame


def test_without_arms_all_rows_are_one_sample_named_by_the_file():
    (one,) = samples(made(), Columns(), label="runs")
    assert one.label == "runs"
    assert len(one.points) == 8
    assert one.points.n_cells == 4
    assert one.points.arms == ("runs",)


def test_each_arm_is_a_sample_and_the_baseline_comes_first():
    found = samples(made(), Columns(arm="format"), label="runs")
    assert [one.label for one in found] == ["BF16", "fp4"]
    assert [len(one.points) for one in found] == [4, 4]
    named = samples(made(), Columns(arm="format"), label="runs", baseline="fp4")
    assert [one.label for one in named] == ["fp4", "BF16"]


def test_two_columns_make_one_arm_whose_baseline_has_bf16_in_both():
    frame = made(backward=["BF16", "BF16", "fp4", "fp4"] * 2)
    found = samples(frame, Columns(arm="format, backward"), label="runs")
    assert [one.label for one in found] == ["BF16/BF16", "fp4/BF16", "fp4/fp4", "BF16/fp4"]


def test_arms_that_are_whole_numbers_are_named_alike_whatever_stands_beside_them():
    for bits in ([4] * 4 + [16] * 4, [4.0] * 4 + [16.0] * 4, ["4"] * 4 + ["16"] * 4):
        found = samples(made(bits=bits), Columns(arm="bits"), label="runs", baseline="16")
        assert [one.label for one in found] == ["16", "4"]


def test_a_row_of_no_arm_is_refused():
    for arm, given in (("bits", {"bits": [4.0] * 7 + [None]}), ("format", {"format": [""] * 8})):
        with pytest.raises(InputError, match=rf"arm-col = {arm}: row [18] names no arm"):
            samples(made(**given), Columns(arm=arm), label="runs")


@pytest.mark.parametrize("twice", [{"D": "N"}, {"loss": "N"}, {"D": "x", "loss": "x"}])
def test_one_column_is_not_two_things(twice):
    with pytest.raises(InputError, match="one column cannot be two of them"):
        Columns(**twice)


def test_a_joint_sample_holds_all_arms_with_the_baseline_as_arm_0():
    one = joint_sample(made(), Columns(arm="format"), label="runs")
    assert one.points.arms == ("BF16", "fp4")
    losses = {arm: set(one.points.loss[one.points.arm == arm]) for arm in (0, 1)}
    assert losses == {0: set(made()["loss"][4:]), 1: set(made()["loss"][:4])}


def test_a_joint_sample_does_not_depend_on_the_order_of_the_rows():
    frame = concat([made(), made(format=["fp8"] * 8, loss=[4.0 + row / 8 for row in range(8)])])
    frame = frame.reset_index(drop=True)
    columns = Columns(arm="format")
    digests = {
        joint_sample(frame.sample(frac=1, random_state=seed), columns, label="runs").points.digest
        for seed in range(8)
    }
    assert digests == {joint_sample(frame, columns, label="runs").points.digest}


def test_a_joint_sample_whose_baseline_is_all_excluded_is_refused():
    frame = made()
    frame["why"] = ["diverged" if arm == "BF16" else "" for arm in frame["format"]]
    with pytest.raises(InputError, match="reference = BF16: no row is of this arm, only of fp4"):
        joint_sample(frame, Columns(arm="format", excluded="why"), label="runs")


def test_a_joint_sample_without_a_row_to_fit_is_empty():
    frame = made(why=["diverged"] * 8)
    found = joint_sample(frame, Columns(arm="format", excluded="why"), label="runs")
    assert (len(found.points), len(found.excluded)) == (0, 8)


def test_groups_are_the_clusters():
    (one,) = samples(made(run=["a", "a", "b", "b"] * 2), Columns(group="run"), label="runs")
    assert one.points.n_clusters == 2
    assert one.points.n_cells == 4


def test_excluded_rows_are_listed_and_not_fitted_even_without_a_loss():
    frame = made(why=["", "Diverged", None, ""] * 2)
    frame.loc[2, "loss"] = np.nan
    first, second = samples(frame, Columns(arm="format", excluded="why"), label="runs")
    assert [len(first.points), len(second.points)] == [3, 3]
    (gone,) = second.excluded
    assert (gone.label, gone.N, gone.tokens, gone.arm) == ("row 2", 1e6, 2e7, "fp4")
    assert gone.is_diverged


def test_repeats_of_one_configuration_are_kept_together():
    frame = made(D=[1e7] * 8, config=["a", "a", "b", "b", "c", "c", "d", "d"])
    found = samples(frame, Columns(arm="format", hash="config"), label="runs")
    assert [one.points.n_cells for one in found] == [2, 2]


@pytest.mark.parametrize(
    ("columns", "extra", "sentence"),
    [
        (
            Columns(hash="config", arm="format"),
            {"D": [1e7] * 8, "config": ["a", "b"] * 4},
            "hash-col = config: rows 5 and 6 are both BF16 at N = 1e.06, D = 1e.07 but differ, a "
            "and b",
        ),
        (
            Columns(tokenizer="vocabulary"),
            {"vocabulary": ["gpt2", "llama"] * 4},
            "tokenizer-col = vocabulary: runs holds 2 values, 'gpt2', 'llama', and nats per token "
            "of two tokenizers are not comparable",
        ),
        (
            Columns(evaluation="set"),
            {"set": ["c4", "pile"] * 4},
            "eval-col = set: .*two held-out sets are not comparable",
        ),
        (
            Columns(phase="phase"),
            {"phase": ["hot", "cool"] * 4},
            "phase-col = phase: .*before and after a cooldown",
        ),
        (Columns(N="M"), {}, "n-col = M: the file has no such column"),
    ],
)
def test_what_may_not_be_fitted_together_is_refused_in_one_sentence(columns, extra, sentence):
    with pytest.raises(InputError, match=sentence):
        samples(made(**extra), columns, label="runs")


def test_what_differs_between_arms_alone_is_no_mixture():
    frame = made(phase=["hot"] * 4 + ["cool"] * 4)
    assert len(samples(frame, Columns(arm="format", phase="phase"), label="runs")) == 2
    with pytest.raises(InputError, match="phase-col"):
        joint_sample(frame, Columns(arm="format", phase="phase"), label="runs")


def test_an_unknown_baseline_is_answered_with_the_arms():
    with pytest.raises(InputError, match=r"baseline = bf: .*mean BF16\? There is fp4, BF16"):
        samples(made(), Columns(arm="format"), label="runs", baseline="bf")


def test_the_order_of_the_rows_changes_nothing():
    frame = made(run=list("abcdefgh"))
    columns = Columns(arm="format", group="run")
    shuffled = frame.sample(frac=1, random_state=1)
    assert [one.points.digest for one in samples(frame, columns, label="x", baseline="BF16")] == [
        one.points.digest for one in samples(shuffled, columns, label="x", baseline="BF16")
    ]
