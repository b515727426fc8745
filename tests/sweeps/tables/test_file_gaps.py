"""Gaps of a file against hand computations: means, intervals, what they are over."""

from dataclasses import replace

import numpy as np
import pytest
from pandas import DataFrame
from scipy import stats

from sweeps.errors import InputError
from sweeps.fits.settings import Settings
from sweeps.gaps.certainty import Basis
from sweeps.gaps.equivalence import Verdict
from sweeps.tables.file_gaps import ArmGap, FileGaps, file_gaps
from sweeps.tables.paired_rows import paired_rows
from sweeps.tables.run_columns import Columns

QUICK = Settings(law="chinchilla", resamples=100, delta=1e-3)
BY_CELL = Columns(arm="format")


def made(seeds: int = 1, sizes: int = 3, noise: float = 0.004) -> DataFrame:
    """Runs of a known law, whose format costs 0.02 nats; each seed has a noise of its own."""
    rng = np.random.default_rng(1)
    rows = []
    for size in (3e7, 1e8, 3e8, 1e9)[:sizes]:
        for ratio in (10, 30, 100, 300):
            for seed in range(seeds):
                base = 1.7 + 400 / size**0.34 + 1000 / (size * ratio) ** 0.33
                shared = 0.01 * rng.standard_normal()
                gap = 0.02 + noise * rng.standard_normal()
                rows.append((size, size * ratio, "BF16", seed, base + shared))
                rows.append((size, size * ratio, "fp4", seed, base + shared + gap))
    frame = DataFrame(rows, columns=["N", "D", "format", "seed", "loss"])
    frame["run"] = [f"{N:g} {seed}" for N, seed in zip(frame["N"], frame["seed"], strict=True)]
    frame.index = frame.index + 1
    return frame


def gaps(
    frame: DataFrame, columns: Columns = BY_CELL, *, level: float = 0.95, margin: float = 0.01
) -> FileGaps:
    rows = paired_rows(frame, columns, label="runs", baseline=None)
    return file_gaps(rows, QUICK, level=level, margin=margin)


def only(found: FileGaps) -> ArmGap:
    (arm,) = found.arms
    return arm


def by_pair(frame: DataFrame) -> DataFrame:
    key = ["N", "D", "seed"]
    wide = frame.pivot_table(index=key, columns="format", values="loss")
    return (wide["fp4"] - wide["BF16"]).unstack("seed")


def test_without_seeds_the_interval_is_the_t_interval_over_cells():
    frame = made()
    arm = only(gaps(frame, level=0.9, margin=0.03))
    values = by_pair(frame).to_numpy()[:, 0]
    assert arm.mean == pytest.approx(values.mean())
    sure = arm.certainty
    assert sure is not None
    assert (sure.basis, sure.df, arm.n_pairs, arm.n_cells) == (Basis.CELLS, 11, 12, 12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (sure.low, sure.high) == pytest.approx(tuple(expected))
    assert sure.equivalence.verdict is Verdict.EQUIVALENT
    base = frame[frame["format"] == "BF16"]["loss"].to_numpy()
    assert arm.relative == pytest.approx(np.mean(100 * values / base))
    shares = stats.ttest_1samp(100 * values / base, 0).confidence_interval(0.9)
    assert arm.relative_interval == pytest.approx(tuple(shares))
    assert arm.reason == "no column of seeds is named: the interval is over cells"


def test_repeated_seeds_give_an_interval_over_them_and_one_seed_gives_none():
    frame = made(seeds=3)
    arm = only(gaps(frame, replace(BY_CELL, seed="seed")))
    table = by_pair(frame).to_numpy()
    sure = arm.certainty
    assert sure is not None
    assert (sure.basis, sure.df, arm.n_pairs, arm.n_cells) == (Basis.SEEDS, 24, 36, 12)
    pooled = np.sqrt(table.var(axis=1, ddof=1).mean())
    assert sure.se == pytest.approx(pooled / np.sqrt(36))
    assert arm.over_cells is not None
    assert arm.over_cells.se == pytest.approx(stats.sem(table.mean(axis=1)))
    one = only(gaps(made(), replace(BY_CELL, seed="seed")))
    assert one.certainty is not None
    assert one.certainty.basis is Basis.CELLS
    assert one.reason == "too few repeated seeds for an interval over them: it is over cells"


def test_groups_are_what_the_interval_is_over():
    frame = made()
    arm = only(gaps(frame, replace(BY_CELL, group="run")))
    means = by_pair(frame)[0].groupby(level="N").mean()
    sure = arm.certainty
    assert sure is not None
    assert (sure.basis, sure.df) == (Basis.GROUPS, 2)
    # Groups of one size each: the jackknife over them is the s.e. of their means.
    assert sure.se == pytest.approx(stats.sem(means))


def test_a_multiplier_of_parameters_is_found_from_noise_free_runs():
    frame = made(sizes=4, noise=0.0)
    N = frame["N"].where(frame["format"] == "BF16", 0.6 * frame["N"])
    frame["loss"] = 1.7 + 400 / N**0.34 + 1000 / frame["D"] ** 0.33
    worth = only(gaps(frame)).effective
    assert worth is not None
    assert worth.eff_N.value == pytest.approx(0.6, rel=1e-5)
    assert worth.eff_D.value == pytest.approx(1, rel=1e-5)
    assert worth.break_even.value == pytest.approx(1 / 0.6, rel=1e-5)


def test_an_arm_without_a_pair_says_so_and_gives_no_number():
    frame = made()
    lone = frame[frame["format"] == "fp4"].assign(format="int4", N=5e9)
    frame = DataFrame({name: [*frame[name], *lone[name]] for name in frame.columns})
    arm = gaps(frame).arms[1]
    assert (arm.label, arm.n_pairs, arm.reason) == ("int4", 0, "no pair")
    assert (arm.mean, arm.certainty, arm.effective) == (None, None, None)
    assert len(arm.alone) == lone["D"].nunique()
    assert {one.reason for one in arm.alone} == {"no baseline"}


def test_one_cell_has_no_interval():
    arm = only(gaps(made().iloc[:2]))
    assert (arm.n_pairs, arm.certainty, arm.relative_interval) == (1, None, None)
    assert arm.reason == "no interval from one cell"


def test_a_level_and_a_margin_that_make_no_sense_are_refused():
    with pytest.raises(InputError, match="level = 95"):
        gaps(made(), level=95.0)
    with pytest.raises(InputError, match="margin = 0"):
        gaps(made(), margin=0.0)
