"""Pairs of rows of a file: equal N, D and seed, and what has no partner."""

import numpy as np
import pytest
from pandas import DataFrame

from sweeps.errors import InputError
from sweeps.fits.differences import differences
from sweeps.tables.paired_rows import PairedRows, alone_of, lacking, paired_rows, points_of
from sweeps.tables.run_columns import Columns

ROWS = [
    # N, D, format, seed, loss, out
    (1e6, 1e7, "bf16", 0, 3.00, ""),
    (1e6, 1e7, "bf16", 1, 3.20, ""),
    (1e6, 2e7, "bf16", 0, 2.80, ""),
    (2e6, 1e7, "bf16", 0, 2.70, ""),
    (2e6, 2e7, "bf16", 0, 2.60, "diverged"),
    (1e6, 1e7, "fp4", 1, 3.25, ""),
    (1e6, 1e7, "fp4", 2, 9.00, ""),
    (1e6, 2e7, "fp4", 0, 2.83, ""),
    (2e6, 2e7, "fp4", 0, 2.65, ""),
    (4e6, 2e7, "fp4", 0, 2.55, ""),
    (4e6, 4e7, "fp4", 0, np.nan, "diverged"),
]
SEEDED = Columns(arm="format", seed="seed", excluded="out")


def frame(rows: list[tuple[float, float, str, int, float, str]] = ROWS) -> DataFrame:
    made = DataFrame(rows, columns=["N", "D", "format", "seed", "loss", "out"])
    made.index = made.index + 1
    return made


def paired(columns: Columns = SEEDED, baseline: str | None = None) -> PairedRows:
    return paired_rows(frame(), columns, label="runs", baseline=baseline)


def test_a_pair_shares_its_seed_and_other_seeds_do_not_move_it():
    found = differences(points_of(paired(), "fp4"), "fp4")
    assert found.gap == pytest.approx([3.25 - 3.20, 2.83 - 2.80])
    without = differences(points_of(paired(Columns(arm="format", excluded="out")), "fp4"), "fp4")
    assert without.gap == pytest.approx([(3.25 + 9) / 2 - 3.1, 2.83 - 2.80])


def test_the_baseline_stays_where_the_arm_was_not_run():
    points = points_of(paired(), "fp4")
    base = points.arm == 0
    assert sorted(points.loss[base]) == [2.70, 2.80, 3.20]


def test_what_has_no_pair_is_listed_with_the_reason():
    said = [(one.N, one.D, one.seed, one.reason) for one in alone_of(paired(), "fp4")]
    assert said == [
        (1e6, 1e7, "2", "the baseline has no row of its seed there"),
        (2e6, 2e7, "0", "baseline diverged"),
        (4e6, 2e7, "0", "no baseline"),
        (4e6, 4e7, "", "diverged (row 11)"),
    ]
    assert lacking(paired(), "fp4") == ((2e6, 1e7),)


def test_a_baseline_of_two_columns_may_be_written_with_a_comma():
    both = frame()
    both["backward"] = "bf16"
    columns = Columns(arm="format,backward", excluded="out")
    for baseline in ("fp4/bf16", "fp4,bf16", "fp4, bf16", None):
        found = paired_rows(both, columns, label="runs", baseline=baseline)
        assert found.baseline == ("bf16/bf16" if baseline is None else "fp4/bf16")


def test_runs_of_one_arm_each_are_joined_with_their_partners():
    made = frame()
    runs = ["a0", "a1", "a0", "c0", "c0", "b1", "b2", "b0", "d0", "e0", "e0"]
    columns = Columns(arm="format", seed="seed", excluded="out", group="run")
    found = paired_rows(made.assign(run=runs), columns, label="runs", baseline=None)
    assert differences(points_of(found, "fp4"), "fp4").gap == pytest.approx([0.05, 0.03])
    assert points_of(found, "fp4").n_clusters == 3
    group = found.rows["group"]
    assert group[1] == group[3] == group[8]
    assert group[2] == group[6]
    assert len({group[1], group[2], group[4], group[7], group[9], group[10]}) == 6


@pytest.mark.parametrize(
    ("change", "columns", "baseline", "said"),
    [
        ({}, SEEDED, "fp5", "baseline = fp5: no row is of this arm, did you mean fp4?"),
        ({"format": "fp4"}, SEEDED, None, "no row is of an arm bf16; name the arm to compare"),
        ({"format": "bf16"}, SEEDED, None, "arm-col = format: every row is of bf16"),
        ({"loss": -1.0}, SEEDED, None, "loss-col = loss: the value in row 1 is -1.0"),
        ({"seed": None}, SEEDED, None, "seed-col = seed: row 1 is empty"),
        (
            {},
            Columns(arm="format", seed="sed", excluded="out"),
            None,
            "seed-col = sed: the file has no such",
        ),
        (
            {"phase": ["hot"] * 5 + ["cool"] * 6},
            Columns(arm="format", phase="phase", excluded="out"),
            None,
            "phase-col = phase: runs holds 2 values",
        ),
        (
            {"out": ["diverged"] * 5 + [""] * 6, "loss": 1.0},
            SEEDED,
            None,
            "baseline = bf16: every row of it is taken out",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(change, columns, baseline, said):
    with pytest.raises(InputError) as error:
        paired_rows(frame().assign(**change), columns, label="runs", baseline=baseline)
    assert said in str(error.value)
