"""From records of a sweep to all that is said of its formats."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.effective.arms import arm_points
from sweeps.effective.sweep import formats
from sweeps.fits.differences import differences
from sweeps.fits.fit import fit
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.gaps.pair import pair
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import Evaluation
from tests.sweeps.made_runs import made_grid, made_run, made_spec

BUDGETS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
QUICK = Settings(law="chinchilla", resamples=100)


def bf16_fit(records: list[RunRecord]) -> Fit:
    """What is fitted to the BF16 runs, or to none."""
    runs = [run for run in records if run.spec.recipe.is_bf16]
    return fit(arm_points(runs), label="bf16", settings=QUICK)


def test_arms_of_a_sweep_are_paired_by_seed_and_clustered_by_model_and_seed() -> None:
    random = np.random.default_rng(0)
    records = made_grid(
        {"bf16": 0.0, "ufp4": 0.03, "mxfp8": 0.002},
        budgets=BUDGETS,
        seeds=(0, 1, 2),
        noise=lambda: float(random.normal(0, 0.001)),
    )
    points = arm_points(records)
    assert points.arms == ("bf16", "ufp4", "mxfp8")
    assert len(points) == 3 * 3 * 4 * 3
    assert points.n_clusters == 9
    table = {(gap.N, gap.tokens, gap.gap) for gap in pair(records).gaps if gap.recipe == "ufp4"}
    found = differences(points, "ufp4")
    rows = zip(found.N.tolist(), found.D.tolist(), found.gap.tolist(), strict=True)
    for (N, D, gap), (n, d, expected) in zip(sorted(rows), sorted(table), strict=True):
        assert (N, D) == (n, d)
        assert gap == pytest.approx(expected)


def test_what_has_no_partner_is_no_point_and_bf16_alone_is() -> None:
    lonely = made_run(made_spec("ufp4", seed=7), {1_000_000: 2.0})
    unfinished = made_run(
        made_spec("bf16", seed=7), {}, horizons=(1_000_000,), outcome=Outcome.WAITING
    )
    extra = made_run(made_spec("bf16", seed=8), {1_000_000: 2.0})
    points = arm_points([lonely, unfinished, extra])
    assert points.arms == ("bf16",)
    assert len(points) == 1
    assert len(arm_points([lonely])) == 0


def test_a_grid_of_constant_gaps_is_told_in_full() -> None:
    random = np.random.default_rng(0)
    records = made_grid(
        {"bf16": 0.0, "ufp4": 0.03, "e2m1-ref": 0.04, "e2m1-max3": 0.07},
        widths=(32, 48, 64, 112),
        budgets=BUDGETS,
        seeds=(0, 1),
        noise=lambda: float(random.normal(0, 0.0005)),
    )
    found = formats(records, bf16_fit(records), QUICK)
    assert [one.label for one in found.effective] == ["ufp4", "e2m1-ref", "e2m1-max3"]
    for one, gap in zip(found.effective, (0.03, 0.04, 0.07), strict=True):
        assert one.n_cells == 16
        assert one.gap is not None
        assert one.gap.fit.n_pairs == 32
        assert np.mean([cell.gap for cell in one.cells]) == pytest.approx(gap, abs=0.001)
        assert one.C_mult.value is not None
        assert one.C_mult.value < 1
    worth = [one.C_mult.value or 0.0 for one in found.effective]
    assert worth == sorted(worth, reverse=True)
    assert found.additivity == ()
    assert {one.law for one in found.predicted} == {
        "Kumar et al. 2024",
        "Sun et al. 2025 (Tencent)",
    }
    ranks = {one.law: one.rank for one in found.orders}
    assert ranks["Panferov et al. 2025"] == pytest.approx(1)
    assert [one.recipe for one in found.signs] == ["ufp4", "e2m1-ref", "e2m1-max3"]


def test_a_sweep_without_bf16_or_without_a_format_says_nothing() -> None:
    only = made_grid({"bf16": 0.0}, budgets=BUDGETS)
    found = formats(only, bf16_fit(only), QUICK)
    assert (found.effective, found.predicted, found.orders, found.signs) == ((), (), (), ())
    lonely = made_grid({"ufp4": 0.03}, budgets=BUDGETS)
    assert formats(lonely, bf16_fit(lonely), QUICK).effective == ()


def test_two_held_out_sets_in_one_sweep_give_gaps_and_no_effective_number() -> None:
    records = made_grid({"bf16": 0.0, "ufp4": 0.03}, budgets=BUDGETS)
    other = Evaluation(held_out=0.2, tokens=4096)
    mixed = [
        replace(run, spec=replace(run.spec, evaluation=other)) if run.N > 50_000 else run
        for run in records
    ]
    (one,) = formats(mixed, bf16_fit(mixed), QUICK).effective
    assert one.C_mult.value is None
    assert "2 different texts" in one.C_mult.reason
    assert one.n_cells == 12
