"""The optimum against published fits, another optimizer, and surfaces with a known answer."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sweeps.fits.points import Points, make_points
from sweeps.fits.search import HOFFMANN_DELTA, MIN_DELTA, Optimum, optimize, polish, robust_delta
from sweeps.fits.target import Target, huber, loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, at, loss
from tests.sweeps.fits.made_points import columns, grid, noisy, surface
from tests.sweeps.fits.public_data import column, public_rows


def centred(points: Points) -> Chinchilla:
    return Chinchilla.about(points.where)


def aimed(points: Points) -> Target:
    return loss_target(centred(points), points)


def searched(points: Points, delta: float | None = None) -> Optimum:
    starts = centred(points).starts(points.where, points.loss)
    return optimize(aimed(points), starts, delta=delta)


def constants(points: Points, delta: float | None = None) -> Array:
    return centred(points).constants(searched(points, delta).theta)


def test_the_olmo_ladder_predicts_its_13b_model_as_published() -> None:
    rows = public_rows("olmo_ladder_losses.csv")
    runs = {f"{size}-{c}xC" for size in ("190M", "370M", "760M", "1B") for c in (1, 2, 5, 10)}
    ladder = [row for row in rows if row["run"] in runs]
    (target,) = [row for row in rows if row["role"] == "target" and row["size"] == "13B"]
    assert len(ladder) == 16
    points = make_points(*(column(ladder, name) for name in ("N", "D", "c4_en_ma5")))
    law = centred(points)
    best = searched(points, HOFFMANN_DELTA)
    predicted = loss(law, best.theta, at(column([target], "N"), column([target], "D")))
    assert predicted == pytest.approx(2.344387, abs=1e-5)
    assert best.objective == pytest.approx(3.299861e-05, rel=1e-6)
    E, A, B, alpha, beta = law.constants(best.theta)
    assert (E, alpha, beta) == pytest.approx((0.93438, 0.103603, 0.161969), abs=1e-4)
    assert (A, B) == pytest.approx((12.4828, 33.4768), rel=1e-4)


@pytest.mark.parametrize(
    ("phase", "objective", "E", "alpha", "beta"),
    [
        ("cool_begin", 0.001951532467, 2.1756, 0.3118, 0.6799),
        ("cool_end", 0.001964086431, 2.0748, 0.3004, 0.5802),
        ("hot", 0.001981612809, 2.1432, 0.2929, 0.7130),
    ],
)
def test_gemstones_at_delta_1e_3_give_the_published_optimum(
    phase: str, objective: float, E: float, alpha: float, beta: float
) -> None:
    points = gemstones(phase)
    law = centred(points)
    best = searched(points, 1e-3)
    found = law.constants(best.theta)
    assert best.objective == pytest.approx(objective, rel=1e-8)
    assert found[[0, 3, 4]] == pytest.approx([E, alpha, beta], abs=2e-4)


@pytest.mark.parametrize(
    ("phase", "published"), [("cool_end", 0.000205940562), ("hot", 0.000207601768)]
)
def test_gemstones_at_delta_1e_4_are_beaten_where_the_published_point_is_no_optimum(
    phase: str, published: float
) -> None:
    points = gemstones(phase)
    assert searched(points, 1e-4).objective < published * (1 - 4e-4)


def gemstones(phase: str) -> Points:
    rows = [row for row in public_rows("gemstones.csv") if row["phase"] == phase]
    return make_points(
        *(column(rows, name) for name in ("N", "D", "loss")),
        groups=[row["run_name"] for row in rows],
    )


@pytest.mark.parametrize("ratio", [1.0, 3.0, 9.0])
def test_a_surface_without_noise_is_recovered_to_1e_6(ratio: float) -> None:
    N, D = grid(5, 5)
    beta = 0.1
    truth = {"E": 1.7, "alpha": ratio * beta, "beta": beta}
    truth |= {"A": 0.8 * 2e8 ** truth["alpha"], "B": 0.6 * 5e9**beta}
    expected = [truth[name] for name in Chinchilla.parameters]
    assert constants(make_points(N, D, surface(N, D, truth))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-3, 3e-3, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_quasi_newton_search_ends_lower(delta: float, seed: int) -> None:
    points = noisy(4, 5, 0.004, seed)
    law = centred(points)
    best = searched(points, delta)
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
            best.theta + random.normal(0, 0.3, 5),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(box.lower, box.upper, strict=True)),
            options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20000},
        ).fun
        for _ in range(6)
    ]
    assert best.objective / delta**2 <= min(reached) * (1 + 1e-7)


def test_scaling_the_objective_leaves_the_optimum_where_it_is() -> None:
    points = noisy(4, 6, 0.004)
    start = np.array([[1.6, -0.5, -0.5, 0.3, 0.3]])
    ends = [polish(aimed(points), start, np.full((1, 24), scale), 1e-3)[0] for scale in (1.0, 1e-9)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)


def test_row_order_changes_not_one_bit() -> None:
    points = noisy(4, 5, 0.004)
    shuffled = make_points(*columns(points, np.random.default_rng(3).permutation(20).tolist()))
    np.testing.assert_array_equal(constants(points), constants(shuffled))


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


def test_huber_is_a_parabola_inside_and_a_line_outside() -> None:
    residuals = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])
    assert huber(residuals, 1.0) == pytest.approx([2.5, 0.125, 0, 0.125, 2.5])
    assert huber(residuals, np.inf) == pytest.approx(residuals**2 / 2)
