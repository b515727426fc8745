"""The fits of a sweep: every planned endpoint once, clusters by run, nothing left unsaid."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweeps.fits.result import Fit, Status
from sweeps.fits.settings import Diverged, Settings
from sweeps.gaps.paired import Missing
from sweeps.measured import distinct
from sweeps.recipe_fits import observations, recipe_fits, recipe_samples
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import Evaluation
from tests.sweeps.made_runs import made_grid, made_run, made_spec

QUICK = Settings(resamples=100)


def grid(**changes: Any) -> list[RunRecord]:
    random = np.random.default_rng(0)
    return made_grid(
        {"ufp4": 0.02, "bf16": 0.0}, noise=lambda: float(random.normal(0, 1e-3)), **changes
    )


def test_bf16_comes_first_and_every_planned_endpoint_is_there_once():
    runs = grid(seeds=(0, 1))
    rows = observations([*runs, *runs])
    assert [row.recipe for row in rows] == ["bf16"] * 12 + ["ufp4"] * 12
    assert len({(row.run_id, row.tokens) for row in rows}) == 24
    assert [sample.label for sample in recipe_samples(runs)] == ["bf16", "ufp4"]


def test_the_horizons_of_one_run_are_one_cluster():
    for sample in recipe_samples(grid(seeds=(0, 1))):
        assert sample.points.n_cells == 6
        assert sample.points.n_clusters == 6
        for cluster in range(6):
            assert len(set(sample.points.N[sample.points.cluster == cluster])) == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.WAITING, Missing.UNFINISHED),
        (Outcome.DIVERGED, Missing.DIVERGED),
        (Outcome.FAILED, Missing.FAILED),
        (Outcome.CANCELLED, Missing.CANCELLED),
        (Outcome.SUCCEEDED, Missing.ENDPOINT_MISSING),
    ],
)
def test_an_endpoint_without_a_loss_is_listed_with_its_reason(outcome, reason):
    lacking = made_run(made_spec("ufp4"), {1024: 3.0}, horizons=(1024, 2048), outcome=outcome)
    (sample,) = recipe_samples([lacking])
    assert len(sample.points) == 1
    assert [(item.tokens, item.reason) for item in sample.excluded] == [(2048.0, reason)]


def test_a_loss_that_is_not_finite_is_a_diverged_run():
    (sample,) = recipe_samples([made_run(made_spec("ufp4"), {1024: float("nan"), 2048: 3.0})])
    assert [item.reason for item in sample.excluded] == [Missing.DIVERGED]
    assert sample.points.loss.tolist() == [3.0]


def diverging(policy: Diverged) -> dict[str, Fit]:
    runs = grid(widths=(32, 48, 64, 96), budgets=(10**6, 3 * 10**6, 10**7))
    lost = [
        replace(run, outcome=Outcome.DIVERGED, endpoints=run.endpoints[:-1])
        if run.spec.recipe.name == "ufp4" and run.spec.model.width == 48
        else run
        for run in runs
    ]
    fits = recipe_fits(lost, replace(QUICK, diverged=policy))
    return {fit.label: fit for fit in fits}


def test_what_a_diverged_run_does_is_what_the_settings_say():
    left_out = diverging(Diverged.LEAVE_OUT)
    assert (left_out["bf16"].n_cells, left_out["ufp4"].n_cells) == (12, 11)
    dropped = diverging(Diverged.DROP_CELL)
    assert (dropped["bf16"].n_cells, dropped["ufp4"].n_cells) == (11, 11)
    refused = diverging(Diverged.REFUSE)
    assert refused["ufp4"].status is Status.NOT_IDENTIFIED
    assert refused["bf16"].n_cells == 12
    assert refused["bf16"].solution is not None


def test_runs_on_two_held_out_sets_get_no_fit_and_a_sentence():
    runs = grid()
    moved = replace(runs[0].spec, evaluation=Evaluation(held_out=0.1, tokens=8192))
    mixed = recipe_fits([replace(runs[0], spec=moved), *runs[1:]], QUICK)
    fits = {fit.label: fit for fit in mixed}
    assert fits["ufp4"].solution is None
    assert "2 different texts, tokenizers or held-out sets" in fits["ufp4"].verdict[0]
    assert fits["bf16"].solution is not None


def test_the_same_records_in_any_order_give_the_same_fits():
    runs = grid()
    assert recipe_fits(runs, QUICK) == recipe_fits(distinct(runs[::-1]), QUICK)
