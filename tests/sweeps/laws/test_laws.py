"""Every law of the registry against differences of itself, and each against its formula."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gamma import Gamma
from sweeps.laws.law import Array, At, Law, at, loss
from sweeps.laws.local_power import LocalPower
from sweeps.laws.registry import LAWS
from sweeps.laws.tied import Tied

N = np.array([2e4, 8e4, 3e5, 3e5, 8e4, 9e5])
D = np.array([1e6, 4e6, 1e6, 3e7, 2e7, 9e6])
HERE = at(N, D)
LOSS: Array = 1.4 + 9 / N**0.25 + 90 / D**0.35
EVERY_LAW = pytest.mark.parametrize("law", [make(HERE) for make in LAWS.values()], ids=list(LAWS))


def inside(law: Law) -> Array:
    """Some theta between the limits, where no term vanishes."""
    theta = law.starts(HERE, LOSS)[0] * 1.01 + 0.01
    box = law.bounds(HERE, LOSS)
    found: Array = np.clip(theta, box.lower, box.upper)
    return found


@EVERY_LAW
def test_the_jacobian_is_the_derivative_of_the_log_loss(law: Law) -> None:
    theta = inside(law)
    numeric = approx_fprime(theta, lambda point: law.log_loss(point, HERE), 1e-7)
    assert law.jacobian(theta, HERE).shape == (6, len(law.parameters))
    assert law.jacobian(theta, HERE) == pytest.approx(numeric, abs=2e-6)


@EVERY_LAW
def test_the_slopes_are_the_derivatives_by_ln_n_and_ln_d(law: Law) -> None:
    theta, step = inside(law), 1e-6
    by_N, by_D = law.slopes(theta, HERE)
    here, up = law.log_loss(theta, HERE), np.exp(step)
    assert by_N == pytest.approx((law.log_loss(theta, at(N * up, D)) - here) / step, abs=2e-6)
    assert by_D == pytest.approx((law.log_loss(theta, at(N, D * up)) - here) / step, abs=2e-6)


@EVERY_LAW
def test_a_batch_of_parameters_is_each_alone(law: Law) -> None:
    batch = inside(law) * np.array([[1.0], [0.9], [1.1]])
    assert law.log_loss(batch, HERE).shape == (3, 6)
    for row, theta in enumerate(batch):
        assert_same(law.log_loss(batch, HERE)[row], law.log_loss(theta, HERE))
        assert_same(law.jacobian(batch, HERE)[row], law.jacobian(theta, HERE))
        assert_same(law.constants(batch)[row], law.constants(theta))


@EVERY_LAW
def test_a_batch_may_have_places_of_its_own_for_each_row(law: Law) -> None:
    batch = inside(law) * np.array([[1.0], [0.9]])
    moved = At(N=np.stack([N, 2 * N]), D=np.stack([D, D / 3]), arm=HERE.arm)
    for row, where in enumerate((at(N, D), at(2 * N, D / 3))):
        theta = batch[row]
        assert_same(law.log_loss(batch, moved)[row], law.log_loss(theta, where))
        assert_same(law.jacobian(batch, moved)[row], law.jacobian(theta, where))
        for both, one in zip(law.slopes(batch, moved), law.slopes(theta, where), strict=True):
            assert_same(both[row], one)


def assert_same(first: Array, second: Array) -> None:
    """Equal but for the last bits: a power of one number is not computed as that of a column."""
    np.testing.assert_allclose(first, second, rtol=1e-13)


@pytest.mark.parametrize(
    "law",
    [law for make in LAWS.values() if np.isfinite((law := make(HERE)).bounds(HERE, LOSS).upper[0])],
    ids=lambda law: law.name,
)
def test_every_corner_of_a_bounded_search_stays_finite_over_fifteen_decades(law: Law) -> None:
    box = law.bounds(HERE, LOSS)
    choices = np.array(np.meshgrid(*[(0, 1)] * len(box.lower))).reshape(len(box.lower), -1).T
    corners = np.where(choices, box.upper, box.lower)
    corners[:, 0] = box.upper[0]  # with E = 0 and no other term there is no loss to speak of
    far = at(np.geomspace(1e2, 1e13, 4), np.geomspace(1e15, 1, 4))
    assert np.isfinite(law.log_loss(corners, far)).all()
    assert np.isfinite(law.jacobian(corners, far)).all()


@EVERY_LAW
def test_starts_lie_apart_and_follow_from_the_data_alone(law: Law) -> None:
    first, again = law.starts(HERE, LOSS), law.starts(HERE, LOSS.copy())
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first, axis=0)) == len(first)


@EVERY_LAW
def test_every_start_is_nearer_to_the_data_than_a_constant(law: Law) -> None:
    off = np.sqrt(np.mean((law.log_loss(law.starts(HERE, LOSS), HERE) - np.log(LOSS)) ** 2, axis=1))
    assert (off < np.std(np.log(LOSS))).all()


@EVERY_LAW
def test_what_a_prediction_needs_is_among_the_constants(law: Law) -> None:
    assert set(law.shape) <= set(law.parameters)
    assert all(name in law.formula for name in law.parameters)


CONSTANTS = {
    "chinchilla": (1.35, 7.0, 60.0, 0.2, 0.31),
    "tied": (1.35, 7.0, 60.0, 0.25),
    "gamma": (1.35, 900.0, 5000.0, 0.55, 0.5, 0.3),
    "local power": (2.5, 0.05, 0.12),
}
"""Of each law, to be written into its formula."""


def by_formula(name: str, constants: tuple[float, ...]) -> Array:
    match name, constants:
        case "chinchilla", (E, A, B, alpha, beta):
            value = E + A / N**alpha + B / D**beta
        case "tied", (E, A, B, alpha):
            value = E + A / N**alpha + B / D**alpha
        case "gamma", (E, A, B, alpha, beta, gamma):
            value = E + (A / N**alpha + B / D**beta) ** gamma
        case "local power", (L0, a, b):
            N0, D0 = (np.exp(np.log(axis).mean()) for axis in (N, D))
            value = L0 * (N / N0) ** -a * (D / D0) ** -b
        case _:
            raise AssertionError(name)
    return np.asarray(value)


@pytest.mark.parametrize("name", list(CONSTANTS))
def test_a_theta_is_its_constants_written_into_the_formula(name: str) -> None:
    law = LAWS[name](HERE)
    theta = theta_of(law, CONSTANTS[name])
    assert law.constants(theta) == pytest.approx(CONSTANTS[name])
    assert loss(law, theta, HERE) == pytest.approx(by_formula(name, CONSTANTS[name]))


def theta_of(law: Law, constants: tuple[float, ...]) -> Array:
    """Theta from the formulas at the head of each law."""
    x0, y0 = law.x0, law.y0
    match law, constants:
        case Chinchilla(), (E, A, B, alpha, beta):
            return np.array([E, np.log(A) - alpha * x0, np.log(B) - beta * y0, alpha, beta])
        case Tied(), (E, A, B, alpha):
            return np.array([E, np.log(A) - alpha * x0, np.log(B) - alpha * y0, alpha])
        case Gamma(), (E, A, B, alpha, beta, gamma):
            u, v = gamma * np.log(A) - gamma * alpha * x0, gamma * np.log(B) - gamma * beta * y0
            return np.array([E, u, v, gamma * alpha, gamma * beta, np.log(gamma)])
        case LocalPower(), (L0, a, b):
            return np.array([np.log(L0), a, b])
        case _:
            raise AssertionError(law.name)


def test_the_published_chinchilla_constants_give_the_published_kind_of_loss() -> None:
    law = Chinchilla(x0=0.0, y0=0.0)
    theta = np.array([1.69, np.log(406.4), np.log(410.7), 0.34, 0.28])
    predicted = loss(law, theta, at(70e9, 1.4e12))
    assert predicted == pytest.approx(1.69 + 406.4 / 70e9**0.34 + 410.7 / 1.4e12**0.28)
    assert law.constants(theta) == pytest.approx([1.69, 406.4, 410.7, 0.34, 0.28])


def test_gamma_of_one_is_the_chinchilla_law() -> None:
    straight, bent = Chinchilla.about(HERE), Gamma.about(HERE)
    theta = np.array([1.35, -0.4, 0.1, 0.35, 0.37])
    both = np.append(theta, 0.0)
    assert bent.log_loss(both, HERE) == pytest.approx(straight.log_loss(theta, HERE), rel=1e-14)
    assert bent.constants(both)[:5] == pytest.approx(straight.constants(theta))


def test_a_small_gamma_leaves_the_larger_term_alone() -> None:
    law = Gamma.about(HERE)
    theta = np.array([1.35, 0.1, -0.2, 0.3, 0.2, np.log(0.02)])
    x, y = np.log(N) - law.x0, np.log(D) - law.y0
    larger = np.maximum(np.exp(0.1 - 0.3 * x), np.exp(-0.2 - 0.2 * y))
    assert loss(law, theta, HERE) == pytest.approx(1.35 + larger, rel=0.01)


def test_every_start_of_the_gamma_law_has_the_loss_of_a_chinchilla_start_at_the_centre() -> None:
    bent, straight = Gamma.about(HERE), Chinchilla.about(HERE)
    center = at(np.exp(bent.x0), np.exp(bent.y0))
    own = loss(straight, straight.starts(HERE, LOSS), center)
    found = loss(bent, bent.starts(HERE, LOSS), center)
    assert found.ravel() == pytest.approx(np.tile(own.ravel(), 4))
