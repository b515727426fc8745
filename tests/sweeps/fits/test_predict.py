"""Predictions: three bands that answer three questions, and where nothing is said."""

import numpy as np
import pytest

from sweeps.errors import InputError
from sweeps.fits.fit import fit
from sweeps.fits.points import make_points
from sweeps.fits.predict import decades, predict
from sweeps.fits.result import Fit, Status
from sweeps.fits.settings import Settings
from sweeps.fits.target import Residual
from sweeps.laws.law import at, loss
from tests.sweeps.fits.given import given
from tests.sweeps.fits.made_points import grid, noisy, surface

SIGMA = 0.002


@pytest.fixture(scope="module")
def known() -> Fit:
    settings = Settings(law="chinchilla", resamples=1000)
    return fit(noisy(6, 8, SIGMA, seed=4), label="x", settings=settings)


def test_the_mean_is_the_law_at_the_optimum_inside_the_band_of_the_draws(known: Fit) -> None:
    found = predict(known, 3e9, 1e11)
    assert known.solution is not None
    where = at(3e9, 1e11)
    (best,) = loss(known.solution.law, np.array(known.solution.theta), where)
    draws = loss(known.solution.law, known.solution.samples.array(), where)[:, 0]
    assert found.loss == pytest.approx(best)
    assert (found.low, found.high) == pytest.approx(np.quantile(draws, [0.025, 0.975]))
    assert given(found.low) < surface(np.array(3e9), np.array(1e11)) < given(found.high)


def test_one_more_run_scatters_by_the_noise_of_the_residuals(known: Fit) -> None:
    # Well inside the data the mean is known far better than a run.
    found = predict(known, 1.7e8, 5e9)
    low, high, best = given(found.new_low), given(found.new_high), given(found.loss)
    half = np.array([best - low, high - best]) / best
    assert half == pytest.approx(1.96 * SIGMA, rel=0.3)
    assert low <= given(found.low) <= given(found.high) <= high


def test_new_runs_land_in_their_band_as_often_as_it_says(known: Fit) -> None:
    N, D = np.full(400, 1.7e8), np.full(400, 5e9)
    runs = surface(N, D) * np.exp(np.random.default_rng(9).normal(0, SIGMA, 400))
    found = predict(known, 1.7e8, 5e9)
    inside = np.mean((runs >= given(found.new_low)) & (runs <= given(found.new_high)))
    assert 0.9 <= inside <= 0.99


def test_the_form_band_spans_other_forms_and_the_fit_without_the_largest_size(known: Fit) -> None:
    assert [one.what for one in known.alternatives] == [
        *("the tied law", "the gamma law", "without the largest size"),
    ]
    found = predict(known, 3e9, 1e11)
    where = at(3e9, 1e11)
    values = [found.loss, *(loss(o.law, np.array(o.theta), where)[0] for o in known.alternatives)]
    assert (found.form_low, found.form_high) == pytest.approx((min(values), max(values)))
    assert found.n_forms == 4


def test_the_form_band_widens_away_from_the_data(known: Fit) -> None:
    widths = [
        given(found.form_high) - given(found.form_low)
        for found in (predict(known, 1.7e8, 5e9), predict(known, 1e11, 1e13))
    ]
    assert widths[1] > 5 * widths[0]


def test_distance_is_counted_in_decades_beyond_the_nearest_end(known: Fit) -> None:
    found = predict(known, 1e10, 1e8)
    assert (found.decades_N, found.decades_D) == pytest.approx((1.0, 1.0))
    assert decades(5e8, known.N_range) == 0.0


def test_a_local_law_says_nothing_outside_and_why() -> None:
    N, D = grid(3, 2)
    known = fit(make_points(N, D, surface(N, D)), label="x", settings=Settings(resamples=100))
    inside, outside = predict(known, 1e8, 5e9), predict(known, 1e8, 5e11)
    assert inside.allowed
    assert inside.loss is not None
    assert (outside.allowed, outside.loss, outside.new_low, outside.form_low) == (
        False,
        *[None] * 3,
    )
    assert "outside the data" in outside.reason
    assert outside.decades_D > 0


def test_inside_the_box_of_n_and_d_but_beyond_every_ratio_is_outside() -> None:
    N = np.repeat(np.geomspace(1e7, 1e9, 4), 2)
    data = N * np.tile([10.0, 20.0], 4)
    known = fit(make_points(N, data, surface(N, data)), label="x", settings=Settings(resamples=100))
    assert known.status is Status.INSIDE_ONLY
    assert predict(known, 1e8, 1.5e9).allowed
    assert not predict(known, 1e8, 4e9).allowed


def test_without_a_law_the_reason_is_that_of_the_fit() -> None:
    none = fit(make_points([1e7], [2e8], [3.0]), label="x")
    found = predict(none, 1e7, 2e8)
    assert (found.allowed, found.loss) == (False, None)
    assert found.reason == none.verdict[0]


def test_each_arm_has_its_own_prediction() -> None:
    N, D = grid(4, 5)
    both = np.tile(N, 2), np.tile(D, 2)
    noise = np.random.default_rng(0).normal(0, 0.001, 40)
    losses = np.concatenate([surface(N, D), surface(0.6 * N, D)]) * np.exp(noise)
    points = make_points(*both, losses, arms=["bf16"] * 20 + ["fp4"] * 20, reference="bf16")
    known = fit(points, label="x", settings=Settings(law="chinchilla", resamples=100))
    assert predict(known, 1e8, 5e9).arm == "bf16"
    found = predict(known, 1e8, 5e9, arm="fp4")
    assert found.loss == pytest.approx(surface(np.array(6e7), np.array(5e9)), rel=0.003)
    with pytest.raises(InputError, match=r"arm = 'int4': the fit holds 'bf16' and 'fp4'"):
        predict(known, 1e8, 5e9, arm="int4")


def test_linear_residuals_scatter_in_nats() -> None:
    N, D = grid(6, 8)
    losses = surface(N, D) + np.random.default_rng(0).normal(0, 0.01, 48)
    settings = Settings(law="chinchilla", residual=Residual.LINEAR, resamples=1000)
    known = fit(make_points(N, D, losses), label="x", settings=settings)
    found = predict(known, 1.7e8, 5e9)
    half = (given(found.new_high) - given(found.new_low)) / 2
    assert half == pytest.approx(0.0196, rel=0.35)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_a_place_that_is_none_is_refused_by_name(known: Fit, bad: float) -> None:
    with pytest.raises(InputError, match=r"^N = "):
        predict(known, bad, 1e9)
    with pytest.raises(InputError, match=r"^D = "):
        predict(known, 1e9, bad)
