"""Expected variances, against published designs and against scipy's own covariance."""

from collections.abc import Callable, Sequence
from math import hypot, log

import numpy as np
import pytest
from scipy.optimize import curve_fit

from sweeps.design.information import Assumed, Point, paired, variance
from sweeps.design.noise_level import NoiseLevel
from sweeps.design.wanted import Place
from sweeps.fits.target import LinearLoss
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gap_power import GapPower
from sweeps.laws.joint import Effect, by_arm, joint
from sweeps.laws.law import Array, At, Law, at

Cells = list[tuple[float, float]]

PLACE = Place(N=3e9, D=60e9)
X0, Y0 = log(3e8), log(1e10)
CHINCHILLA = (1.8172, log(482.01) - 0.3478 * X0, log(2085.43) - 0.3658 * Y0, 0.3478, 0.3658)
QUIET = NoiseLevel(sd=0.002 * 2**0.5, source="", rho=0.0, loss_bend=0.0, gap_bend=0.0, trunk=0.0)
COMPUTE = 2e20


def law() -> Law:
    return joint(Chinchilla(x0=X0, y0=Y0), by_arm(("bf16", "fp4")), (Effect.N,))


def assumed(noise: NoiseLevel = QUIET) -> Assumed:
    theta = np.array([*CHINCHILLA, log(0.65)])
    return Assumed(
        model=LinearLoss(law=law()), is_of_gaps=False, theta=theta, noise=noise, place=PLACE
    )


def both(seed: int, D: float) -> list[Point]:
    return [Point(0, seed, D), Point(1, seed, D)]


def deviations(cells: Cells) -> dict[str, float]:
    """Standard deviations that a design leaves, with both arms at every cell."""
    plan = assumed()
    told = sum((plan.of_model(N, both(0, D)) for N, D in cells), np.zeros((6, 6)))
    where = at(PLACE.N, PLACE.D, [0, 1])
    rows = plan.model.jacobian(plan.theta, where)
    unit = np.eye(6)
    gradients = {
        "E": unit[0],
        "alpha": unit[3],
        "beta": unit[4],
        "eff_N": 0.65 * unit[5],
        "loss": rows[0],
        "gap": rows[1] - rows[0],
    }
    return {name: variance(told, gradient) ** 0.5 for name, gradient in gradients.items()}


def of_equal_compute(shape: Callable[[float], Cells]) -> Cells:
    """The design whose two arms take 2e20 FLOPs, by its largest size."""
    low, high = 2e7, 1e11
    for _ in range(100):
        middle = (low * high) ** 0.5
        if sum(12 * N * D for N, D in shape(middle)) > COMPUTE:
            high = middle
        else:
            low = middle
    return shape(low)


def factorial(sizes: int, ratios: Sequence[float]) -> Callable[[float], Cells]:
    return lambda top: [(N, r * N) for N in np.geomspace(2e7, top, sizes) for r in ratios]


@pytest.mark.parametrize(
    ("sizes", "ratios", "published"),
    [
        (8, [20], {"E": 0.053, "beta": 0.46, "eff_N": 7.4, "loss": 0.0058, "gap": 0.00117}),
        (
            4,
            [20, 80],
            {"E": 0.0079, "beta": 0.0026, "eff_N": 0.002, "loss": 0.0031, "gap": 0.00063},
        ),
    ],
)
def test_designs_of_equal_compute_leave_the_deviations_known_for_them(
    sizes: int, ratios: list[float], published: dict[str, float]
) -> None:
    found = deviations(of_equal_compute(factorial(sizes, ratios)))
    for name, value in published.items():
        assert found[name] == pytest.approx(value, rel=0.12), name


def test_one_ratio_identifies_no_exponent_of_data_and_no_multiplier_and_two_ratios_do() -> None:
    one = deviations(of_equal_compute(factorial(8, [20])))
    two = deviations(of_equal_compute(factorial(4, [20, 80])))
    many = deviations(of_equal_compute(factorial(4, [10, 20, 40, 80, 160, 320])))
    assert one["beta"] > 0.366
    assert one["eff_N"] > 0.65
    assert two["beta"] < 0.01 < one["beta"]
    assert two["eff_N"] < 0.01 < one["eff_N"]
    assert many["gap"] < two["gap"] < one["gap"]
    assert many["beta"] < two["beta"]


def test_the_covariance_is_that_of_generalised_least_squares() -> None:
    noise = NoiseLevel(sd=0.004, source="", rho=0.6, loss_bend=0.01, trunk=0.3)
    plan = assumed(noise)
    sizes = (3e7, 1e8, 4e8)
    rows = [
        (N, Point(arm, seed, ratio * N))
        for N in sizes
        for arm in (0, 1)
        for seed in (0, 1)
        for ratio in (10, 40, 160)
    ]
    single = 0.004**2 / (2 * (1 - 0.6))
    V = np.zeros((len(rows), len(rows)))
    for i, (N, p) in enumerate(rows):
        for j, (M, q) in enumerate(rows):
            if N != M:
                continue
            if p.seed == q.seed:
                arms = 1.0 if p.arm == q.arm else 0.6
                V[i, j] += single * arms * (1.0 if p.D == q.D else 0.3)
            if p.D == q.D:
                far = hypot(log(N / PLACE.N), log(p.D / PLACE.D))
                V[i, j] += (0.01 * far) ** 2 * (2 if p.arm == q.arm == 1 else 1)
    where = at([N for N, _ in rows], [p.D for _, p in rows], [p.arm for _, p in rows])

    def predict(_: Array, *theta: float) -> Array:
        return plan.model.predict(np.array(theta), where)

    exact = predict(np.zeros(0), *plan.theta)
    _, covariance = curve_fit(
        predict,
        np.zeros(len(rows)),
        exact,
        p0=plan.theta,
        sigma=V,
        absolute_sigma=True,
        jac=lambda _, *theta: plan.model.jacobian(np.array(theta), where),
    )
    told = sum((plan.of_model(N, [p for M, p in rows if M == N]) for N in sizes), np.zeros((6, 6)))
    for gradient in np.eye(6):
        expected = float(gradient @ covariance @ gradient)
        assert variance(told, gradient) == pytest.approx(expected, rel=1e-4)


def test_gaps_count_pairs_alone_with_the_noise_of_a_pair() -> None:
    place = Place(N=1e8, D=1e9)
    noise = NoiseLevel(sd=0.01, source="", gap_bend=0.0)
    plan = Assumed(
        model=GapPower.constant(log(1e8), log(1e9)),
        is_of_gaps=True,
        theta=np.array([0.02]),
        noise=noise,
        place=place,
    )
    pairs = [point for seed in range(4) for point in both(seed, 1e9)]
    lone = [Point(1, 9, 1e9), Point(0, 8, 1e9)]
    told = plan.of_model(1e8, [*pairs, *lone])
    assert variance(told, np.ones(1)) == pytest.approx(0.01**2 / 4, rel=1e-12)
    assert paired([*pairs, *lone]) == {point for point in pairs if point.arm == 1}


def test_repeats_wear_noise_down_but_never_what_a_law_misses() -> None:
    bent = NoiseLevel(sd=0.01, source="", gap_bend=0.005)
    plan = Assumed(
        model=GapPower.constant(log(1e8), log(1e9)),
        is_of_gaps=True,
        theta=np.array([0.02]),
        noise=bent,
        place=Place(N=1e8, D=1e9 * np.e),
    )
    left = [
        variance(plan.of_model(1e8, [p for s in range(k) for p in both(s, 1e9)]), np.ones(1))
        for k in (1, 100)
    ]
    assert left[0] == pytest.approx(0.01**2 + 0.005**2, rel=1e-9)
    assert left[1] == pytest.approx(0.01**2 / 100 + 0.005**2, rel=1e-9)


def test_a_design_that_leaves_a_direction_open_has_an_infinite_variance() -> None:
    plan = assumed()
    told = plan.of_model(1e8, both(0, 2e9))
    assert variance(told, np.eye(6)[5]) == float("inf")


def test_the_order_and_repetition_of_endpoints_do_not_matter() -> None:
    plan = assumed(NoiseLevel(sd=0.004, source=""))
    points = [p for seed in (2, 0) for D in (4e9, 1e9) for p in both(seed, D)]
    told = plan.of_model(1e8, points)
    assert np.array_equal(told, plan.of_model(1e8, [*reversed(points), *points]))


def test_places_are_evaluated_where_they_lie() -> None:
    where: At = at(PLACE.N, PLACE.D, [0, 1])
    reference, quantized = assumed().model.predict(assumed().theta, where)
    expected = 1.8172 + 482.01 / PLACE.N**0.3478 + 2085.43 / PLACE.D**0.3658
    assert reference == pytest.approx(expected, rel=1e-12)
    assert quantized - reference == pytest.approx(
        482.01 / (0.65 * PLACE.N) ** 0.3478 - 482.01 / PLACE.N**0.3478, rel=1e-9
    )
