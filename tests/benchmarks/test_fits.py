"""Ways of fitting that are timed side by side: they lower one objective, and parts are scaled."""

import numpy as np
import pytest
import torch

from benchmarks.fit_ways import TRUTH, Way, bootstraps, fits, made_points, objective, our_fit
from benchmarks.fits import row_of
from benchmarks.results import Setting
from benchmarks.timing import Comparison
from sweeps.fits.search import HOFFMANN_DELTA

POINTS = made_points(48)
SETTING = Setting(device=torch.device("cpu"), threads=(1,), quick=True)


def test_the_objective_is_the_huber_sum_of_log_residuals() -> None:
    size = TRUTH["A"] / POINTS.N ** TRUTH["alpha"]
    data = TRUTH["B"] / POINTS.D ** TRUTH["beta"]
    residuals = np.abs(np.log(TRUTH["E"] + size + data) - np.log(POINTS.loss))
    by_hand = np.where(
        residuals <= HOFFMANN_DELTA,
        residuals**2 / 2,
        HOFFMANN_DELTA * (residuals - HOFFMANN_DELTA / 2),
    )
    constants = np.array([list(TRUTH.values())])
    assert objective(POINTS, constants) == pytest.approx([by_hand.sum()])
    weights = np.arange(48.0)[None]
    assert objective(POINTS, constants, weights) == pytest.approx(weights @ by_hand)


def test_constants_that_give_no_loss_are_as_bad_as_can_be() -> None:
    assert objective(POINTS, np.array([[np.nan, 1, 1, 1, 1]])).tolist() == [np.inf]


def test_scipy_from_one_start_ends_at_our_optimum() -> None:
    ours, grid, one = fits(POINTS, grid_part=3)
    best = our_fit(POINTS).objective
    assert objective(POINTS, ours.call()) == pytest.approx([best], rel=1e-9)
    assert objective(POINTS, one.call()) == pytest.approx([best], rel=1e-6)
    assert (objective(POINTS, grid.call()) >= best * (1 - 1e-9)).all()
    assert (grid.part, grid.whole) == (3, 4500)


def test_resamples_are_refitted_to_the_same_weights_by_both() -> None:
    weights = np.random.default_rng(0).multinomial(48, np.full(48, 1 / 48), size=4).astype(float)
    ours, scipy = bootstraps(POINTS, weights, resamples=100)
    found = scipy.call()
    assert (len(ours.call()), scipy.part, scipy.whole) == (100, 4, 100)
    start = our_fit(POINTS)
    law_best = fits(POINTS, grid_part=1)[0].call()
    assert start.objective > 0
    lowered = objective(POINTS, found, weights)
    kept = objective(POINTS, np.tile(law_best, (4, 1)), weights)
    assert (lowered < kept).all()


def test_the_time_of_a_part_is_scaled_to_all_searches() -> None:
    way = Way(name="slow", call=lambda: np.zeros((2, 5)), part=2, whole=10)
    timed = Comparison(
        baseline="ours",
        by_round={"ours": (1.0, 2.0, 1.0), "slow": (3.0, 6.0, 3.0)},
        calls={"ours": 1, "slow": 1},
    )
    row = row_of(way, POINTS, timed, excess=-1e-15, hit=0.5)
    assert row["seconds"]["median"] == 15.0
    assert row["times"]["median"] == 15.0
    assert (row["timed"], row["searches"], row["rows"]) == (2, 10, 48)
    assert (row["excess"], row["hit"]) == (0.0, 0.5)
