"""The laws against their formulas and their derivatives against differences."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, Law, at, log_residual, loss
from sweeps.laws.local_power import LocalPower

N = np.array([2e4, 8e4, 3e5, 3e5])
D = np.array([1e6, 4e6, 1e6, 3e7])
HERE = at(N, D)
CHINCHILLA = Chinchilla.about(HERE)
LOCAL = LocalPower.about(HERE)
THETA = {
    "chinchilla": np.array([1.35, -0.4, 0.1, 0.35, 0.37]),
    "local power": np.array([0.8, 0.05, 0.12]),
}


@pytest.mark.parametrize("law", [CHINCHILLA, LOCAL], ids=lambda law: law.name)
def test_the_jacobian_is_the_derivative_of_the_log_loss(law: Law) -> None:
    theta = THETA[law.name]
    numeric = approx_fprime(theta, lambda point: law.log_loss(point, HERE), 1e-7)
    assert law.jacobian(theta, HERE) == pytest.approx(numeric, abs=2e-6)


@pytest.mark.parametrize("law", [CHINCHILLA, LOCAL], ids=lambda law: law.name)
def test_a_batch_of_parameters_is_each_alone(law: Law) -> None:
    batch = THETA[law.name] * np.array([[1.0], [0.9], [1.2]])
    assert law.log_loss(batch, HERE).shape == (3, 4)
    for row, theta in enumerate(batch):
        np.testing.assert_array_equal(law.log_loss(batch, HERE)[row], law.log_loss(theta, HERE))
        np.testing.assert_array_equal(law.jacobian(batch, HERE)[row], law.jacobian(theta, HERE))
        np.testing.assert_array_equal(law.constants(batch)[row], law.constants(theta))


def test_the_constants_written_into_the_formula_give_the_same_loss() -> None:
    theta = THETA["chinchilla"]
    E, A, B, alpha, beta = CHINCHILLA.constants(theta)
    assert loss(CHINCHILLA, theta, HERE) == pytest.approx(E + A / N**alpha + B / D**beta)
    L0, a, b = LOCAL.constants(THETA["local power"])
    by_hand = L0 * (N / np.exp(LOCAL.x0)) ** -a * (D / np.exp(LOCAL.y0)) ** -b
    assert loss(LOCAL, THETA["local power"], HERE) == pytest.approx(by_hand)


def test_the_published_chinchilla_constants_give_the_published_kind_of_loss() -> None:
    law = Chinchilla(x0=0.0, y0=0.0)
    theta = np.array([1.69, np.log(406.4), np.log(410.7), 0.34, 0.28])
    predicted = loss(law, theta, at(70e9, 1.4e12))
    assert predicted == pytest.approx(1.69 + 406.4 / 70e9**0.34 + 410.7 / 1.4e12**0.28)
    assert law.constants(theta) == pytest.approx([1.69, 406.4, 410.7, 0.34, 0.28])


def test_a_residual_is_positive_where_the_law_predicts_too_much() -> None:
    theta = THETA["local power"]
    observed: Array = loss(LOCAL, theta, HERE) / np.array([1.1, 1.0, 0.9, 1.0])
    residuals = log_residual(LOCAL, theta, HERE, observed)
    assert residuals == pytest.approx(np.log([1.1, 1.0, 0.9, 1.0]), abs=1e-12)


def test_the_limits_of_a_search_stay_finite_over_fifteen_decades() -> None:
    theta = np.array([0.0, 10.0, -10.0, 3.0, 0.005])
    far = at(np.geomspace(1, 1e15, 4), np.geomspace(1e15, 1, 4))
    assert np.isfinite(CHINCHILLA.log_loss(theta, far)).all()
    assert np.isfinite(CHINCHILLA.jacobian(theta, far)).all()
