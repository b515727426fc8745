"""Fits: which law is reported, which constants stand, and what may be read off."""

import numpy as np
import pytest

from sweeps.errors import InputError
from sweeps.fits.fit import fit
from sweeps.fits.points import Points, make_points
from sweeps.fits.result import Estimate, Fit, Method, Samples, Status, curve
from sweeps.fits.settings import AUTO, Settings
from sweeps.laws.chinchilla import Chinchilla
from tests.sweeps.fits.made_points import TRUTH, columns, grid, noisy, surface
from tests.sweeps.fits.public_data import column, public_rows


def named(result: Fit) -> dict[str, Estimate]:
    return {estimate.name: estimate for estimate in result.estimates}


def quick(points: Points, seed: int = 0, law: str = AUTO) -> Fit:
    return fit(points, label="ufp4", settings=Settings(resamples=300, seed=seed, law=law))


def test_a_good_design_gives_five_constants_with_intervals_around_them() -> None:
    result = quick(noisy(6, 8, 0.001), law="chinchilla")
    assert (result.status, result.law_name) == (Status.IDENTIFIED, "chinchilla")
    assert (result.n_points, result.n_cells) == (48, 48)
    for name, estimate in named(result).items():
        assert estimate.identified
        assert estimate.value is not None
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.value == pytest.approx(TRUTH[name], rel=0.3)


def test_the_search_reports_agreement_condition_and_where_the_draws_come_from() -> None:
    solution = quick(noisy(6, 8, 0.001), law="chinchilla").solution
    assert solution is not None
    assert (solution.starts, solution.starts_agreeing, solution.basin_ratio) == (3, 3, None)
    assert solution.bounds_hit == ()
    assert 1 < solution.condition < 1e4
    assert solution.method is Method.BOOTSTRAP
    assert solution.samples.rows == 300
    assert np.array(solution.covariance).shape == (5, 5)
    assert solution.rms == pytest.approx(0.001, rel=0.3)
    assert solution.noise == pytest.approx(0.001, rel=0.4)
    assert solution.gradient < 1e-6


def test_the_same_points_and_seed_give_an_equal_fit() -> None:
    points = noisy(4, 5, 0.003)
    shuffled = make_points(*columns(points, list(range(20))[::-1]))
    assert quick(points) == quick(shuffled)
    assert quick(points) != quick(points, seed=1)


@pytest.mark.parametrize("form", ["grid", "ratios"])
def test_six_points_do_not_identify_the_constants(form: str) -> None:
    N, D = grid(3, 2)
    data = D if form == "grid" else N * np.tile([10.0, 40.0], 3)
    result = quick(make_points(N, data, surface(N, data)))
    estimates = named(result)
    assert (result.status, result.law_name) == (Status.INSIDE_ONLY, "local power")
    for name in Chinchilla.parameters:
        assert not estimates[name].identified
        assert (estimates[name].value, estimates[name].low) == (None, None)
        assert "6 cells" in estimates[name].reason
    assert all(estimates[name].identified for name in ("L0", "a", "b"))
    assert "not identified" in result.verdict[0]


def test_six_points_still_predict_inside_their_range_and_nothing_beyond() -> None:
    N, D = grid(3, 2)
    result = quick(make_points(N, D, surface(N, D)))
    tokens = [D.min() / 2, D.min(), np.sqrt(D.min() * D.max()), D.max(), 2 * D.max()]
    line = curve(result, float(N[2]), tokens)
    assert line.tokens == pytest.approx(tokens[1:4])
    low, high = np.array(line.low), np.array(line.high)
    truth = surface(np.full(3, N[2]), np.array(line.tokens))
    at_cells = [0, 2]
    assert (low[at_cells] <= truth[at_cells]).all()
    assert (truth[at_cells] <= high[at_cells]).all()
    assert "With two token counts nothing checks the power law between them." in result.verdict
    assert curve(result, float(N.max()) * 1.01, tokens).tokens == ()


def test_an_identified_fit_also_speaks_outside_its_data() -> None:
    result = quick(noisy(6, 8, 0.0005))
    line = curve(result, 1e10, [1e12, 1e11])
    assert line.tokens == (1e12, 1e11)
    truth = surface(np.array([1e10, 1e10]), np.array([1e12, 1e11]))
    assert line.loss == pytest.approx(truth, rel=0.01)
    assert np.all(np.array(line.low) < line.loss)
    assert np.all(np.array(line.loss) < line.high)


def test_bands_widen_away_from_the_data() -> None:
    line = curve(quick(noisy(6, 8, 0.002)), 2e8, [5e9, 1e13])
    widths = np.subtract(line.high, line.low)
    assert widths[1] > 2 * widths[0]


@pytest.mark.parametrize("sizes", [0, 1])
def test_no_point_or_one_point_gives_no_law_and_says_so(sizes: int) -> None:
    result = quick(make_points([1e6] * sizes, [1e7] * sizes, [2.0] * sizes))
    assert result.status is Status.NOT_IDENTIFIED
    assert result.verdict[0].startswith("No law is fitted")


def test_losses_without_any_effect_identify_nothing_apart_but_predict_themselves() -> None:
    N, D = grid(4, 4)
    result = quick(make_points(N, D, np.full(16, 2.0)))
    assert result.status is Status.INSIDE_ONLY
    assert not any(estimate.identified for estimate in result.estimates)
    assert result.solution is not None
    assert result.solution.bounds_hit
    assert curve(result, 1e8, [1e10]).loss == pytest.approx([2.0], rel=1e-4)


def test_losses_without_noise_are_not_said_to_be_a_search_that_failed() -> None:
    N, D = grid(4, 4)
    found = fit(make_points(N, D, surface(N, D)), label="bf16", settings=Settings(resamples=200))
    assert found.solution is not None
    assert found.solution.rms < 1e-9
    assert not [line for line in found.verdict if "converge" in line or "starts reached" in line]


@pytest.mark.parametrize(("seed", "law", "is_best"), [(5, "chinchilla", True), (11, "tied", False)])
def test_a_form_that_does_not_predict_best_is_reported_with_the_reason(
    seed: int, law: str, is_best: bool
) -> None:
    N, D = grid(4, 4)
    noise = 0.001 * np.random.default_rng(seed).normal(size=16)
    found = quick(make_points(N, D, surface(N, D) * np.exp(noise)))
    assert found.criteria is not None
    assert found.criteria.law == law
    errors = [one.held_out for one in (found.criteria, *found.rivals) if one.held_out is not None]
    assert (found.criteria.held_out == min(errors)) == is_best
    assert ("fewest constants" not in " ".join(found.verdict)) == is_best


def test_equal_losses_in_a_small_design_have_zero_slopes() -> None:
    N, D = grid(3, 2)
    estimates = named(quick(make_points(N, D, np.full(6, 2.0))))
    assert estimates["L0"].value == pytest.approx(2.0)
    assert estimates["a"].value == pytest.approx(0.0, abs=1e-12)


def test_a_floor_whose_interval_reaches_zero_is_not_a_floor() -> None:
    rows = [
        row
        for row in public_rows("olmo_ladder_losses.csv")
        if row["role"] == "ladder" and row["size"] != "3B" and "0.5xC" not in row["run"]
    ]
    points = make_points(*(column(rows, name) for name in ("N", "D", "c4_en_ma5")))
    result = fit(points, label="bf16", settings=Settings(delta=1e-3, resamples=400))
    assert result.n_points == 16
    assert not named(result)["E"].identified
    assert result.status is Status.INSIDE_ONLY
    assert any(line.startswith("E is not identified") for line in result.verdict)


@pytest.mark.parametrize(("cells", "said"), [((3, 4), True), ((4, 4), False)])
def test_few_cells_are_told_to_cover_less(cells: tuple[int, int], said: bool) -> None:
    verdict = quick(noisy(*cells, 0.001)).verdict
    assert any("fewer than 15" in line for line in verdict) is said


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_a_threshold_that_is_not_positive_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta"):
        Settings(delta=delta)


def test_too_few_draws_for_an_interval_are_refused() -> None:
    with pytest.raises(InputError, match="resamples = 10"):
        Settings(resamples=10)


def test_samples_keep_their_shape_and_single_precision() -> None:
    draws = np.random.default_rng(0).normal(size=(7, 5))
    samples = Samples.of(draws)
    assert (samples.rows, len(samples.data)) == (7, 7 * 5 * 4)
    assert samples.array() == pytest.approx(draws, rel=1e-6)
