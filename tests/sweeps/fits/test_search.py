"""The optimum: known answers, another optimizer, every start, and what must change nothing."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from sweeps.fits.points import Points, make_points
from sweeps.fits.search import MIN_DELTA, Optimum, optimize, polish, robust_delta
from sweeps.fits.target import Residual, Target, huber, loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gamma import Gamma
from sweeps.laws.law import Array, Bounds, Law, loss
from sweeps.laws.registry import LAWS
from tests.sweeps.fits.made_points import columns, grid, noisy, surface

SURFACES = ("chinchilla", "gamma", "tied")


def centred(points: Points, name: str = "chinchilla") -> Law:
    return LAWS[name](points.where)


def aimed(points: Points, name: str = "chinchilla") -> Target:
    return loss_target(centred(points, name), points)


def searched(points: Points, delta: float | None = None, name: str = "chinchilla") -> Optimum:
    starts = centred(points, name).starts(points.where, points.loss)
    return optimize(aimed(points, name), starts, delta=delta)


def constants(points: Points, delta: float | None = None, name: str = "chinchilla") -> Array:
    return centred(points, name).constants(searched(points, delta, name).theta)


@pytest.mark.parametrize("residual", list(Residual))
@pytest.mark.parametrize("ratio", [1.0, 3.0, 9.0])
@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_without_noise_is_recovered_to_1e_6(
    name: str, ratio: float, residual: Residual
) -> None:
    N, D = grid(5, 5)
    law = LAWS[name](make_points(N, D, np.ones(25)).where)
    exponents = [0.1 * ratio] if name == "tied" else [0.1 * ratio, 0.1]
    truth = np.array([1.7, -0.2, -0.5, *exponents, *[np.log(0.4)] * (name == "gamma")])
    points = make_points(N, D, loss(law, truth, make_points(N, D, np.ones(25)).where))
    target = loss_target(law, points, residual)
    best = optimize(target, law.starts(points.where, points.loss))
    assert law.constants(best.theta) == pytest.approx(law.constants(truth), rel=1e-6)


def wide_starts(law: Law, losses: Array, count: int, seed: int) -> Array:
    """Starts without a plan: any floor, any split of what is above it, any exponents."""
    random = np.random.default_rng(seed)
    E = random.uniform(0.3, 0.98, count) * losses.min()
    excess, split = np.median(losses) - E, random.uniform(0.05, 0.95, count)
    scales = np.log(excess * split), np.log(excess * (1 - split))
    exponents = random.uniform(0.1, 0.8, (count, 1 if law.name == "tied" else 2))
    bend = random.uniform(np.log(0.1), np.log(3), (count, int(isinstance(law, Gamma))))
    return np.column_stack([E, *scales, exponents, bend])


@pytest.mark.parametrize(("delta", "noise"), [(1e-4, 1e-3), (1e-3, 4e-3), (np.inf, 4e-3)])
@pytest.mark.parametrize(("name", "share"), [("chinchilla", 1.0), ("tied", 1.0), ("gamma", 0.8)])
def test_searches_from_hundreds_of_wide_starts_end_at_one_optimum(
    name: str, share: float, delta: float, noise: float
) -> None:
    points = noisy(4, 6, noise)
    law = centred(points, name)
    best = searched(points, delta, name)
    starts = wide_starts(law, points.loss, 250, seed=1)
    _, reached = polish(aimed(points, name), starts, np.ones((250, 24)), delta)
    assert reached.min() >= best.objective * (1 - 1e-9)
    assert np.mean(reached <= best.objective * (1 + 1e-6)) >= share


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SURFACES)
def test_the_starts_of_a_law_all_end_at_its_optimum(name: str, seed: int) -> None:
    best = searched(noisy(5, 6, 0.002, seed), None, name)
    assert len(best.objectives) >= 3
    assert max(best.objectives) <= best.objective * (1 + 1e-6)


@pytest.mark.parametrize("delta", [1e-3, 3e-3, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", SURFACES)
def test_no_quasi_newton_search_ends_lower(name: str, delta: float, seed: int) -> None:
    points = noisy(4, 5, 0.004, seed)
    law = centred(points, name)
    best = searched(points, delta, name)
    observed = np.log(points.loss)

    def value(theta: Array) -> tuple[float, Array]:
        residuals = law.log_loss(theta, points.where) - observed
        slope = np.clip(residuals, -delta, delta) @ law.jacobian(theta, points.where)
        return float(huber(residuals, delta).sum()) / delta**2, slope / delta**2

    box = law.bounds(points.where, points.loss)
    random = np.random.default_rng(seed)
    reached = [
        minimize(
            value,
            np.clip(best.theta + random.normal(0, 0.3, len(best.theta)), box.lower, box.upper),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(box.lower, box.upper, strict=True)),
            options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20000},
        ).fun
        for _ in range(6)
    ]
    assert best.objective / delta**2 <= min(reached) * (1 + 1e-7)


@pytest.mark.parametrize("name", SURFACES)
def test_a_mean_or_any_scale_of_the_objective_has_the_optimum_of_the_sum(name: str) -> None:
    points = noisy(4, 6, 0.004)
    law = centred(points, name)
    starts = law.starts(points.where, points.loss)
    ends = []
    for scale in (1.0, 1 / 24, 1e-9):
        theta, values = polish(aimed(points, name), starts, np.full((len(starts), 24), scale), 1e-3)
        ends.append(law.constants(theta[np.argmin(values)]))
        assert values.min() == pytest.approx(scale * searched(points, 1e-3, name).objective)
    assert ends[1] == pytest.approx(ends[0], rel=1e-5)
    assert ends[2] == pytest.approx(ends[0], rel=1e-5)


@pytest.mark.parametrize("name", SURFACES)
def test_row_order_changes_not_one_bit(name: str) -> None:
    points = noisy(4, 5, 0.004)
    shuffled = make_points(*columns(points, np.random.default_rng(3).permutation(20).tolist()))
    np.testing.assert_array_equal(constants(points, name=name), constants(shuffled, name=name))


def test_the_type_of_the_columns_changes_not_one_bit() -> None:
    points = noisy(4, 5, 0.004)
    N, D = np.round(points.N), np.round(points.D)
    single = points.loss.astype(np.float32)
    doubles = make_points(N, D, single.astype(np.float64))
    others = make_points(N.astype(np.int64), D.astype(int).tolist(), single)
    np.testing.assert_array_equal(constants(doubles), constants(others))


def test_counting_in_millions_changes_only_the_scales() -> None:
    points = noisy(4, 5, 0.004)
    E, A, B, alpha, beta = constants(points)
    millions = constants(make_points(points.N / 1e6, points.D / 1e6, points.loss))
    expected = [E, A * 1e6**-alpha, B * 1e6**-beta, alpha, beta]
    assert millions == pytest.approx(expected, rel=1e-5)


def test_repeated_rows_weigh_as_much_as_a_weight() -> None:
    points = noisy(3, 4, 0.004)
    doubled = make_points(*columns(points, [*range(12), *range(6)]))
    rows = loss_target(centred(points), doubled)
    start = searched(points, 1e-3).theta[None]
    weights = np.where(np.arange(12) < 6, 2.0, 1.0)[None]
    by_weight, value = polish(aimed(points), start, weights, 1e-3)
    by_rows, same = polish(rows, start, np.ones((1, 18)), 1e-3)
    assert value == pytest.approx(same)
    assert by_weight == pytest.approx(by_rows, rel=1e-4)


def test_an_outlier_pulls_the_huber_fit_less_than_least_squares() -> None:
    clean = noisy(4, 6, 0.001)
    spoilt = clean.loss.copy()
    spoilt[13] *= 1.1
    spoilt_points = make_points(clean.N, clean.D, spoilt)
    shift = [
        abs(constants(spoilt_points, delta)[0] - constants(clean, delta)[0])
        for delta in (1e-3, np.inf)
    ]
    assert shift[0] < shift[1] / 5


def test_delta_follows_the_noise_and_never_falls_below_its_floor() -> None:
    exact = make_points(*grid(4, 6), surface(*grid(4, 6)))
    assert searched(exact).delta == MIN_DELTA
    deltas = [searched(p).delta for p in (noisy(8, 12, 0.002), noisy(8, 12, 0.02))]
    assert deltas == pytest.approx([1.345 * 0.002, 1.345 * 0.02], rel=0.3)


def test_the_robust_delta_is_the_scaled_median() -> None:
    points = noisy(4, 6, 0.01)
    theta = searched(points).theta
    residuals = centred(points).log_loss(theta, points.where) - np.log(points.loss)
    size = np.abs(residuals)
    expected = 1.345 * 1.4826 * np.median(size) * np.sqrt(24 / 19)
    assert robust_delta(residuals, 5) == pytest.approx(expected)


def test_losses_that_do_not_fall_end_on_a_bound() -> None:
    N, D = grid(4, 4)
    points = make_points(N, D, np.full(16, 2.0))
    assert aimed(points).bounds.hit(searched(points).theta).any()


def test_a_held_parameter_does_not_move() -> None:
    points = noisy(4, 6, 0.004)
    law = Chinchilla.about(points.where)
    free = aimed(points)
    lower, upper = free.bounds.lower.copy(), free.bounds.upper.copy()
    lower[0] = upper[0] = 1.5
    held = replace(free, bounds=Bounds(lower=lower, upper=upper))
    best = optimize(held, law.starts(points.where, points.loss), delta=1e-3)
    assert best.theta[0] == 1.5
    assert best.objective > searched(points, 1e-3).objective
    assert not held.bounds.hit(best.theta).any()


def test_huber_is_a_parabola_inside_and_a_line_outside() -> None:
    residuals = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    assert huber(residuals, 1.0) == pytest.approx([2.5, 0.125, 0, 0.125, 2.5])
    assert huber(residuals, np.inf) == pytest.approx(residuals**2 / 2)
