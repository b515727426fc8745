"""Rows of cells: every planned cell once, seeds averaged, and why some have no loss or gap."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from sweeps.gaps.cell_rows import CellRow, cell_rows
from sweeps.gaps.pair import pair
from sweeps.records import Outcome, RunRecord
from tests.sweeps.made_runs import made_grid, made_run, made_spec


def rows_of(runs: list[RunRecord]) -> tuple[CellRow, ...]:
    return cell_rows(runs, pair(runs))


def noisy() -> Callable[[], float]:
    random = np.random.default_rng(0)
    return lambda: float(random.normal(0, 0.01))


def test_every_planned_cell_of_every_recipe_is_one_row_with_bf16_first() -> None:
    runs = made_grid({"ufp4": 0.02, "bf16": 0.0, "e2m1-ref": 0.03}, seeds=(0, 1), noise=noisy())
    rows = rows_of(runs)
    assert len(rows) == 3 * 2 * 3
    assert [row.recipe for row in rows[:6]] == ["bf16", "ufp4", "e2m1-ref"] * 2
    assert {(row.n_planned, row.n_measured, row.note) for row in rows} == {(2, 2, "")}
    assert sum(row.n_planned for row in rows) == sum(len(run.horizons) for run in runs)


def test_losses_and_gaps_are_means_over_the_seeds_of_the_cell() -> None:
    runs = made_grid({"bf16": 0.0, "ufp4": 0.02}, widths=(32,), seeds=(0, 1, 2), noise=noisy())
    bf16, ufp4, *_ = rows_of(runs)
    losses = {
        name: [run.endpoints[0].loss for run in runs if run.spec.recipe.name == name]
        for name in ("bf16", "ufp4")
    }
    assert bf16.loss == pytest.approx(np.mean(losses["bf16"]))
    assert bf16.gap is None
    assert ufp4.gap is not None
    assert ufp4.gap.mean == pytest.approx(np.mean(losses["ufp4"]) - np.mean(losses["bf16"]))


@pytest.mark.parametrize(
    ("outcomes", "note"),
    [
        ([Outcome.DIVERGED] * 3, "diverged"),
        ([Outcome.SUCCEEDED, Outcome.DIVERGED, Outcome.DIVERGED], "2 diverged"),
        ([Outcome.WAITING, Outcome.DIVERGED, Outcome.FAILED], "1 diverged, 1 failed, 1 unfinished"),
        ([Outcome.SUCCEEDED] * 3, ""),
    ],
)
def test_the_note_counts_the_seeds_that_are_missing_by_their_reason(
    outcomes: list[Outcome], note: str
) -> None:
    runs = made_grid({"bf16": 0.0, "ufp4": 0.1}, widths=(32,), budgets=(1000,), seeds=(0, 1, 2))
    for place, outcome in enumerate(outcomes, start=3):
        if outcome is not Outcome.SUCCEEDED:
            runs[place] = replace(runs[place], outcome=outcome, endpoints=())
    assert [row.note for row in rows_of(runs)] == ["", note]


def test_a_measured_cell_without_a_baseline_says_that() -> None:
    (row,) = rows_of([made_run(made_spec("ufp4"), {1000: 2.0})])
    assert (row.loss, row.gap, row.note) == (2.0, None, "no baseline")


def test_runs_that_differ_in_more_than_seeds_are_not_averaged() -> None:
    spec = made_spec("ufp4")
    tuned = replace(spec, training=replace(spec.training, learning_rate=2e-3), apart="lr 0.002")
    rows = rows_of([made_run(spec, {1000: 2.0}), made_run(tuned, {1000: 3.0})])
    assert sorted((row.model, row.loss) for row in rows) == [("w64", 2.0), ("w64 lr 0.002", 3.0)]


def test_nothing_planned_is_no_row() -> None:
    assert rows_of([]) == ()
