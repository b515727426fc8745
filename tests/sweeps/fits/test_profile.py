"""Profile intervals against the cases where they are known."""

import numpy as np
import pytest
from scipy import stats

from sweeps.fits.compare import search
from sweeps.fits.fit import fit
from sweeps.fits.points import Points, make_points
from sweeps.fits.profile import profiles
from sweeps.fits.result import Estimate
from sweeps.fits.settings import Settings
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.ladder import Ladder
from tests.sweeps.fits.given import given
from tests.sweeps.fits.made_points import TRUTH, noisy

SQUARES = Settings(delta=float("inf"), resamples=100)


def named(found: tuple[Estimate, ...]) -> dict[str, Estimate]:
    return {one.name: one for one in found}


def width(one: Estimate) -> float:
    return given(one.high) - given(one.low)


def line(groups: list[str] | None = None) -> Points:
    """A ladder in which neighbours share their noise."""
    N = np.geomspace(1e7, 1e9, 14)
    noise = np.random.default_rng(5).normal(0, 0.01, 7).repeat(2)
    return make_points(N, 20 * N, 4 * N**-0.05 * np.exp(noise), groups=groups)


def test_of_a_straight_line_it_is_the_t_interval_of_the_sandwich() -> None:
    # The classical interval with the sandwich in the place of the residual variance.
    points = line()
    found = named(profiles(search(Ladder.about(points.where), points, SQUARES), points))["c"]
    x, y = np.log(6 * points.N * points.D), np.log(points.loss)
    oracle = stats.linregress(x, y)
    residuals = y - oracle.intercept - oracle.slope * x
    inner = x - x.mean()
    sandwich = np.sqrt(14 / 12 * (inner**2 * residuals**2).sum()) / (inner**2).sum()
    half = stats.t.ppf(0.975, 12) * sandwich
    assert found.value == pytest.approx(-oracle.slope)
    assert (found.low, found.high) == pytest.approx(
        (-oracle.slope - half, -oracle.slope + half), rel=1e-3
    )


def test_rows_that_share_a_cluster_widen_it() -> None:
    pairs = [str(row // 2) for row in range(14)]
    alone, paired = (
        named(profiles(search(Ladder.about(points.where), points, SQUARES), points))["c"]
        for points in (line(), line(pairs))
    )
    x = np.log(6 * line().N * line().D)
    y = np.log(line().loss)
    oracle = stats.linregress(x, y)
    scores = ((y - oracle.intercept - oracle.slope * x) * (x - x.mean())).reshape(7, 2).sum(axis=1)
    sandwich = np.sqrt(7 / 5 * (scores**2).sum()) / ((x - x.mean()) ** 2).sum()
    half = stats.t.ppf(0.975, 5) * sandwich
    assert paired.high == pytest.approx(-oracle.slope + half, rel=1e-3)
    assert width(paired) > 1.2 * width(alone)


def test_the_ends_are_where_the_best_fit_of_the_rest_is_worse_by_what_is_allowed() -> None:
    points = noisy(3, 4, 0.003, seed=1)
    found = search(Chinchilla.about(points.where), points, SQUARES)
    for one in profiles(found, points):
        low, value, high = given(one.low), given(one.value), given(one.high)
        assert low < value < high
        assert low < TRUTH[one.name] < high
        # The valley is no parabola.
        assert high - value != pytest.approx(value - low, rel=1e-3)


def test_only_constants_that_the_search_moves_have_one() -> None:
    points = noisy(3, 4, 0.003, seed=1)
    found = profiles(search(Chinchilla.about(points.where), points, SQUARES), points)
    assert [one.name for one in found] == ["E", "alpha", "beta"]


def test_a_floor_that_may_be_zero_has_no_profile_and_says_why() -> None:
    points = noisy(3, 4, 0.05, seed=3)
    found = named(profiles(search(Chinchilla.about(points.where), points, SQUARES), points))["E"]
    assert found.value is None
    assert "to the end of the search" in found.reason


@pytest.mark.parametrize(("cells", "given"), [((3, 4), True), ((4, 4), False)])
def test_few_cells_are_given_one_beside_the_bootstrap(cells: tuple[int, int], given: bool) -> None:
    settings = Settings(law="chinchilla", resamples=100)
    found = fit(noisy(*cells, 0.003, seed=1), label="x", settings=settings)
    assert bool(found.profiles) is given
    assert any("profile-likelihood intervals" in line for line in found.verdict) is given


def test_exact_losses_need_none() -> None:
    points = noisy(3, 4, 0.0)
    law = Chinchilla.about(points.where)
    found = search(law, points, SQUARES)
    exact = found.optimum.objective < 1e-20
    assert exact
    for one in profiles(found, points):
        assert one.value is None or width(one) < 1e-6
