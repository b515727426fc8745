"""Fits by least squares: what is independent decides the intervals, and one ratio is a ladder."""

import numpy as np
import pytest
from scipy import stats

from sweeps.fits.fit import fit
from sweeps.fits.identifiability import units
from sweeps.fits.points import Points, make_points
from sweeps.fits.result import Estimate, Fit, Status, curve
from sweeps.fits.settings import AUTO, Settings
from tests.sweeps.fits.given import given
from tests.sweeps.fits.made_points import grid, noisy, surface

TRUTH = {"L0": 2.5, "a": 0.08, "b": 0.05}
TRUNK_SHARE = 0.8


def named(result: Fit) -> dict[str, Estimate]:
    return {estimate.name: estimate for estimate in result.estimates}


def quick(points: Points, law: str = AUTO) -> Fit:
    return fit(points, label="ufp4", settings=Settings(resamples=300, law=law))


def ends(estimate: Estimate) -> tuple[float, float, float]:
    return given(estimate.value), given(estimate.low), given(estimate.high)


def by_runs(N: np.ndarray, D: np.ndarray, seed: int, sigma: float = 0.004) -> Points:
    """A plane in logarithms; the budgets of one size are one run, whose noise they share."""
    random = np.random.default_rng(seed)
    run = np.unique(N, return_inverse=True)[1]
    shared = np.sqrt(TRUNK_SHARE) * random.normal(size=run.max() + 1)[run]
    noise = sigma * (shared + np.sqrt(1 - TRUNK_SHARE) * random.normal(size=len(N)))
    x, y = np.log(N) - np.log(N).mean(), np.log(D) - np.log(D).mean()
    loss = TRUTH["L0"] * np.exp(-TRUTH["a"] * x - TRUTH["b"] * y + noise)
    return make_points(N, D, loss, groups=[str(index) for index in run])


def test_separate_cells_give_least_squares_with_t_intervals() -> None:
    # N and D are orthogonal here, so the slope over ln N is that of a regression on ln N alone,
    # with one more degree of freedom taken by ln D.
    points = noisy(4, 2, 0.01)
    y = np.log(points.loss)
    by_data = {D: y[D == points.D].mean() for D in np.unique(points.D)}
    flat = y - np.array([by_data[D] for D in points.D])
    oracle = stats.linregress(np.log(points.N), flat)
    half = stats.t.ppf(0.975, 5) * oracle.stderr * np.sqrt(6 / 5)
    expected = (-oracle.slope, -oracle.slope - half, -oracle.slope + half)
    assert ends(named(quick(points))["a"]) == pytest.approx(expected)


def test_budgets_of_one_run_leave_the_effect_of_size_to_the_means_of_the_sizes() -> None:
    points = by_runs(*grid(5, 3), seed=3)
    y = np.log(points.loss)
    sizes = np.unique(points.N)
    oracle = stats.linregress(np.log(sizes), [y[points.N == size].mean() for size in sizes])
    half = stats.t.ppf(0.975, 5 - 2) * oracle.stderr
    expected = (-oracle.slope, -oracle.slope - half, -oracle.slope + half)
    assert ends(named(quick(points, law="local power"))["a"]) == pytest.approx(expected)


def test_the_effect_of_data_is_judged_over_the_slopes_of_the_sizes() -> None:
    points = by_runs(*grid(5, 3), seed=3)
    slopes = [
        -stats.linregress(np.log(points.D[mine]), np.log(points.loss[mine])).slope
        for mine in (points.N == size for size in np.unique(points.N))
    ]
    low, high = stats.t.interval(0.95, 5 - 1, loc=np.mean(slopes), scale=stats.sem(slopes))
    expected = (np.mean(slopes), low, high)
    assert ends(named(quick(points, law="local power"))["b"]) == pytest.approx(expected)


def test_sharing_a_run_is_told_with_the_degrees_of_freedom_it_leaves() -> None:
    said = quick(by_runs(*grid(3, 2), seed=0)).verdict[1]
    assert "6 cells of 3 model sizes" in said
    assert "token counts of one run share its trunk" in said
    assert "(1 and 1 degrees of freedom)" in said
    assert "slopes (2)" in said


@pytest.mark.slow
@pytest.mark.parametrize("ratios", [(6.0, 17.0), (5.0, 20.0, 80.0)])
def test_intervals_hold_the_truth_when_budgets_share_their_runs(ratios: tuple[float, ...]) -> None:
    # Budgets in tokens per parameter: the means of ln D move with ln N, and a inherits the error
    # of b.
    N = np.repeat(np.geomspace(5e4, 2e5, 4), len(ratios))
    D = N * np.tile(ratios, 4)
    covered = []
    for seed in range(400):
        found = named(quick(by_runs(N, D, seed), law="local power"))
        covered.append(
            [
                given(found[name].low) <= value <= given(found[name].high)
                for name, value in TRUTH.items()
            ]
        )
    rates = np.mean(covered, axis=0)
    # 400 data sets at a true rate of 0.95 have a standard error of 0.011.
    assert ((rates >= 0.92) & (rates <= 0.99)).all(), rates


def test_repeated_seeds_do_not_narrow_an_interval_as_new_cells_would() -> None:
    once = noisy(3, 2, 0.01)
    thrice = make_points(*(np.repeat(a, 3) for a in (once.N, once.D, once.loss)))
    first, second = (ends(named(quick(points))["a"]) for points in (once, thrice))
    assert second == pytest.approx(first)


def test_seeds_of_one_model_hang_together_through_its_cells() -> None:
    N, D = [1.0, 1, 1, 1, 2, 2], [1.0, 2, 1, 2, 1, 2]
    runs = ["first", "first", "second", "second", "third", "third"]
    points = make_points(N, D, np.full(6, 2.0), groups=runs)
    assert points.n_clusters == 3
    assert units(points).tolist() == [0, 0, 1, 1]


def test_cells_of_their_own_runs_are_units_of_their_own() -> None:
    assert units(noisy(3, 4, 0.01)).tolist() == list(range(12))


def test_the_draws_have_the_stated_quantiles() -> None:
    for points in (noisy(4, 2, 0.01), by_runs(*grid(5, 3), seed=1)):
        settings = Settings(resamples=20000, seed=1, law="local power")
        result = fit(points, label="x", settings=settings)
        assert result.solution is not None
        for column, name in enumerate(("L0", "a", "b")):
            draws = result.solution.samples.array()[:, column]
            _, low, high = ends(named(result)[name])
            low, high = (np.log(low), np.log(high)) if name == "L0" else (low, high)
            assert np.quantile(draws, [0.025, 0.975]) == pytest.approx(
                [low, high], abs=0.03 * (high - low)
            )


def test_two_models_with_many_budgets_each_give_no_law() -> None:
    result = quick(by_runs(*grid(2, 8), seed=0))
    assert result.status is Status.NOT_IDENTIFIED
    assert "the runs of 2 model sizes, fewer than the 3" in result.verdict[0]


def test_a_cluster_over_several_sizes_gives_no_law() -> None:
    N, D = grid(3, 2)
    points = make_points(N, D, surface(N, D), groups=["one batch"] * 6)
    assert "spans several model sizes" in quick(points).verdict[0]


def test_one_ratio_refuses_the_constants_and_gives_loss_as_a_power_of_compute() -> None:
    N = np.geomspace(1e7, 1e9, 12)
    noise = np.random.default_rng(0).normal(0, 0.002, 12)
    points = make_points(N, 20 * N, surface(N, 20 * N) * np.exp(noise))
    result = quick(points)
    found = named(result)
    assert (result.status, result.law_name) == (Status.INSIDE_ONLY, "ladder")
    assert all(found[name].value is None for name in ("E", "A", "B", "alpha", "beta"))
    assert "one D/N" in result.verdict[0]
    oracle = stats.linregress(np.log(6 * points.N * points.D), np.log(points.loss))
    half = stats.t.ppf(0.975, 10) * oracle.stderr
    expected = (-oracle.slope, -oracle.slope - half, -oracle.slope + half)
    assert ends(found["c"]) == pytest.approx(expected)


def test_a_ladder_predicts_on_itself_and_nowhere_else() -> None:
    N = np.geomspace(5e7, 2e8, 12)
    result = quick(make_points(N, 20 * N, surface(N, 20 * N)))
    assert result.allows(1e8, 2e9)
    assert not result.allows(1e8, 4e9)
    assert not result.allows(2e9, 4e10)
    line = curve(result, 1e8, [1e9, 2e9, 4e9])
    assert line.tokens == (2e9,)
    assert line.loss == pytest.approx(surface(np.array([1e8]), np.array([2e9])), rel=0.005)


def test_a_short_ladder_gives_no_law() -> None:
    N = np.array([1e7, 3e7, 1e8])
    result = quick(make_points(N, 20 * N, surface(N, 20 * N)))
    assert (result.status, result.solution) == (Status.NOT_IDENTIFIED, None)
