"""Statements about the arms of a file, judged against hand computations."""

import numpy as np
import pytest
from pandas import DataFrame
from scipy import stats

from sweeps.claims.judge import Verdict
from sweeps.errors import InputError
from sweeps.tables.file_claims import FileJudgement, judge_file
from sweeps.tables.paired_rows import paired_rows
from sweeps.tables.run_columns import Columns

COSTS = {"a": 0.01, "b": 0.03}


def made(seeds: int = 1, cells: int = 8) -> DataFrame:
    """Runs of BF16 and two formats, whose gaps are 0.01 and 0.03 with a noise of 0.003."""
    rng = np.random.default_rng(7)
    rows = []
    for cell in range(cells):
        for seed in range(seeds):
            shared = 3 + 0.1 * rng.standard_normal()
            for arm, gap in {"bf16": 0.0, **COSTS}.items():
                noise = 0.003 * rng.standard_normal()
                rows.append((1e6 * 2**cell, 1e8, arm, seed, shared + gap + noise, ""))
    frame = DataFrame(rows, columns=["N", "D", "arm", "seed", "loss", "out"])
    frame.index = frame.index + 1
    return frame


def judged(frame: DataFrame, *texts: str, **named: str) -> tuple[FileJudgement, ...]:
    columns = Columns(arm="arm", excluded="out", **named)
    return judge_file(paired_rows(frame, columns, label="runs", baseline=None), texts)


def wide(frame: DataFrame) -> DataFrame:
    return frame.pivot_table(index=["N", "seed"], columns="arm", values="loss")


def test_cells_are_the_repeats_and_the_estimate_is_the_paired_t_test():
    frame = made()
    (one,) = judged(frame, "gap(a) < gap(b)")
    losses = wide(frame)
    test = stats.ttest_rel(losses["a"], losses["b"])
    ends = test.confidence_interval(0.95)
    assert one.estimate is not None
    assert (one.estimate.low, one.estimate.high) == pytest.approx((ends.low, ends.high))
    assert one.p == pytest.approx(test.pvalue)
    assert (one.verdict, one.over, one.n_pairs) == (Verdict.SUPPORTED, "8 cells", 8)


def test_seeds_are_the_repeats_where_they_are_named():
    frame = made(seeds=3, cells=2)
    (one,) = judged(frame, "gap(b) > 0.02", seed="seed")
    gaps = (wide(frame)["b"] - wide(frame)["bf16"]).to_numpy().reshape(2, 3)
    terms = gaps.var(axis=1, ddof=1) / 3
    assert one.estimate is not None
    assert one.estimate.value == pytest.approx(gaps.mean())
    assert one.estimate.se == pytest.approx(np.sqrt(terms.sum()) / 2)
    assert one.estimate.df == pytest.approx(terms.sum() ** 2 / (terms**2 / 2).sum())
    assert one.over == "3 seeds in each of 2 cells"


def test_verdicts_and_holm_are_over_all_statements():
    found = judged(made(), "gap(a) < gap(b)", "gap(b) < 0.01", "gap(a) < 0.0101")
    assert [str(one.verdict) for one in found] == ["supported", "contradicted", "undecided"]
    p = [one.p or 0.0 for one in found]
    order = np.argsort(p)
    steps = np.maximum.accumulate([(3 - rank) * p[index] for rank, index in enumerate(order)])
    expected = np.empty(3)
    expected[order] = np.minimum(1, steps)
    assert [one.p_holm for one in found] == pytest.approx(expected)
    assert [one.detectable is None for one in found] == [True, True, False]
    assert [one.holds_after_holm for one in found] == [True, True, False]


def test_a_cell_that_lacks_an_arm_is_left_out_and_listed():
    frame = made()
    frame = frame[~((frame["N"] == 1e6) & (frame["arm"] == "a"))]
    difference, single = judged(frame, "gap(a) < gap(b)", "gap(b) > 0")
    assert (difference.n_cells, difference.left_out) == (7, ((1e6, 1e8),))
    assert (single.n_cells, single.left_out) == (8, ())


def test_the_baseline_is_not_asked_for_where_it_cancels():
    frame = made()
    frame = frame[~((frame["N"] == 1e6) & (frame["arm"] == "bf16"))]
    difference, single = judged(frame, "gap(a) < gap(b)", "gap(b) > 0")
    assert (difference.n_cells, single.n_cells) == (8, 7)


@pytest.mark.parametrize(
    ("change", "named", "reason"),
    [
        ({"out": "diverged"}, {}, "a run of it diverged (a at N = 1e+06, D = 1e+08), and the"),
        ({}, {"seed": "seed"}, "needs 2 complete seeds in every cell, and 8 of 8 cells have"),
        ({"arm": "c"}, {}, ""),
    ],
)
def test_what_cannot_be_judged_is_undecided_with_the_reason(change, named, reason):
    frame = made()
    first = (frame["N"] == 1e6) & (frame["arm"] == "a")
    for name, value in change.items():
        frame.loc[first, name] = value
    (one,) = judged(frame, "gap(a) < gap(b)", **named)
    assert one.reason.startswith(reason)
    assert (one.verdict is Verdict.UNDECIDED) == (one.estimate is None) == bool(reason)


def test_one_cell_alone_decides_nothing():
    (one,) = judged(made(cells=1), "gap(a) < gap(b)")
    assert (one.verdict, one.estimate) == (Verdict.UNDECIDED, None)
    assert one.reason == "one cell says nothing of its own noise"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gap(c) < 0", "statement = gap(c) < 0: no row is of arm c; there is a, b"),
        ("gap(bf16) < 0", "names bf16, whose gap to itself is 0 everywhere"),
        ("gap(a)", "statement = gap(a): compares nothing"),
        ("gap(a) == gap(b)", "no finite number of runs can show that two gaps are equal"),
    ],
)
def test_a_statement_that_makes_none_is_refused_in_a_sentence(text, said):
    with pytest.raises(InputError) as error:
        judged(made(), text)
    assert said in str(error.value)
