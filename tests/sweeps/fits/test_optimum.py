"""The best size for a budget, against the closed form and against a direct search."""

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sweeps.errors import InputError
from sweeps.fits.fit import fit
from sweeps.fits.optimum import optimal
from sweeps.fits.points import make_points
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.laws.law import Array, at
from tests.sweeps.fits.given import band, given
from tests.sweeps.fits.made_points import TRUTH, grid, noisy, surface

BUDGETS = [1e19, 1e21, 1e24]


@pytest.fixture(scope="module")
def known() -> Fit:
    settings = Settings(law="chinchilla", resamples=500)
    return fit(noisy(6, 8, 0.001, seed=4), label="x", settings=settings)


def closed_form(flops: float, constants: Mapping[str, float] = TRUTH) -> float:
    A, B, alpha, beta = (constants[name] for name in ("A", "B", "alpha", "beta"))
    scale = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    return float(scale * (flops / 6) ** (beta / (alpha + beta)))


@pytest.mark.parametrize("flops", BUDGETS)
def test_the_best_values_are_the_closed_form_at_the_fitted_constants(
    known: Fit, flops: float
) -> None:
    constants = {one.name: one.value for one in known.estimates if one.value is not None}
    N = closed_form(flops, constants)
    (found,) = optimal(known, [flops])
    assert found.N == pytest.approx(N, rel=1e-3)
    assert found.D == pytest.approx(flops / (6 * N), rel=1e-3)
    assert found.ratio == pytest.approx(flops / (6 * N**2), rel=2e-3)
    least = surface(np.array(N), np.array(flops / (6 * N)), constants)
    assert found.loss == pytest.approx(float(least), rel=1e-6)


def test_the_bands_hold_the_truth_and_the_best_values(known: Fit) -> None:
    for found in optimal(known, BUDGETS):
        N = closed_form(found.flops)
        pairs = [
            (found.N, found.N_band, N),
            (found.D, found.D_band, found.flops / (6 * N)),
            (found.ratio, found.ratio_band, found.flops / (6 * N**2)),
            (
                found.loss,
                found.loss_band,
                float(surface(np.array(N), np.array(found.flops / (6 * N)))),
            ),
        ]
        for value, ends, truth in pairs:
            low, high = band(ends)
            assert low <= given(value) <= high
            assert low <= truth <= high


def test_bands_widen_with_the_budget(known: Fit) -> None:
    first, _, last = (np.log(band(one.N_band)) for one in optimal(known, BUDGETS))
    assert np.diff(last) > 1.5 * np.diff(first)


def test_other_flops_per_token_move_the_optimum_as_a_direct_search_has_it(known: Fit) -> None:
    def with_head(N: Array) -> Array:
        return 6 * N + 40 * N**0.75

    (found,) = optimal(known, [1e20], flops_per_token=with_head)
    assert known.solution is not None
    law, theta = known.solution.law, np.array(known.solution.theta)

    def height(log_size: float) -> float:
        N = np.exp([log_size])
        return float(law.log_loss(theta, at(N, 1e20 / with_head(N)))[0])

    best = minimize_scalar(height, bounds=(15, 28), method="bounded", options={"xatol": 1e-9})
    assert found.N == pytest.approx(np.exp(best.x), rel=1e-3)
    (plain,) = optimal(known, [1e20])
    assert given(found.N) < given(plain.N)


def test_distance_from_the_data_is_told(known: Fit) -> None:
    near, _, far = optimal(known, BUDGETS)
    assert near.decades_N == 0
    assert far.decades_N == pytest.approx(np.log10(given(far.N) / 1e9))


def test_a_fit_that_identifies_no_law_has_no_optimum() -> None:
    N, D = grid(3, 2)
    local = fit(make_points(N, D, surface(N, D)), label="x", settings=Settings(resamples=100))
    for found in optimal(local, [1e20, 1e21]):
        assert (found.N, found.loss_band) == (None, None)
        assert "does not identify the law" in found.reason


def test_a_law_of_compute_alone_has_no_best_size() -> None:
    N, D = grid(4, 4)
    losses = 1.5 + 30 * (6 * N * D) ** -0.08
    settings = Settings(law="frontier", resamples=100)
    found = fit(
        make_points(N, D, losses * (1 + 1e-5 * np.cos(np.arange(16)))), label="x", settings=settings
    )
    (best,) = optimal(found, [1e20])
    assert best.N is None
    assert best.reason


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_a_budget_that_is_none_is_refused(known: Fit, bad: float) -> None:
    with pytest.raises(InputError, match=r"^flops = "):
        optimal(known, [1e20, bad])
