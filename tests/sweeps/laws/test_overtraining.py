"""The over-training law against its formula and against the Chinchilla law that it is."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sweeps.fits.points import make_points
from sweeps.fits.search import optimize
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import at, loss
from sweeps.laws.overtraining import Overtraining

N = np.repeat(np.geomspace(1e7, 1e9, 4), 3)
M = np.tile([5.0, 20.0, 320.0], 4)
D = M * N
HERE = at(N, D)
LAW = Overtraining.about(HERE)
THETA = np.array([1.6, -0.3, 0.2, 0.28])


def test_the_constants_written_into_the_published_formula_give_the_same_loss() -> None:
    E, a, b, eta = LAW.constants(THETA)
    by_hand = E + (a * M**eta + b * M**-eta) * (6 * N * D) ** -eta
    assert loss(LAW, THETA, HERE) == pytest.approx(by_hand, rel=1e-12)


def test_it_is_the_chinchilla_law_with_one_exponent() -> None:
    E, a, b, eta = LAW.constants(THETA)
    chinchilla = Chinchilla(x0=0.0, y0=0.0)
    theta = np.array([E, np.log(a * 6**-eta), np.log(b * 6**-eta), 2 * eta, 2 * eta])
    assert loss(chinchilla, theta, HERE) == pytest.approx(loss(LAW, THETA, HERE), rel=1e-12)


def test_derivatives_are_those_of_differences() -> None:
    numeric = approx_fprime(THETA, lambda point: LAW.log_loss(point, HERE), 1e-7)
    assert LAW.jacobian(THETA, HERE) == pytest.approx(numeric, abs=2e-6)
    by_size, by_data = LAW.slopes(THETA, HERE)
    step = 1e-6
    larger, longer = at(N * np.exp(step), D), at(N, D * np.exp(step))
    here = LAW.log_loss(THETA, HERE)
    assert by_size == pytest.approx((LAW.log_loss(THETA, larger) - here) / step, abs=1e-6)
    assert by_data == pytest.approx((LAW.log_loss(THETA, longer) - here) / step, abs=1e-6)


def test_a_batch_of_parameters_is_each_alone() -> None:
    batch = THETA * np.array([[1.0], [0.9], [1.2]])
    for row, theta in enumerate(batch):
        np.testing.assert_array_equal(LAW.log_loss(batch, HERE)[row], LAW.log_loss(theta, HERE))
        np.testing.assert_array_equal(LAW.jacobian(batch, HERE)[row], LAW.jacobian(theta, HERE))
        np.testing.assert_array_equal(LAW.constants(batch)[row], LAW.constants(theta))


@pytest.mark.parametrize("eta", [0.06, 0.13, 0.3])
def test_losses_without_noise_are_recovered_to_1e_6(eta: float) -> None:
    truth = np.array([1.7, 0.4 * 2e8**eta, 0.7 * 2e8**eta, eta])
    E, a, b, _ = truth
    points = make_points(N, D, E + (a * M**eta + b * M**-eta) * (6 * N * D) ** -eta)
    law = Overtraining.about(points.where)
    best = optimize(loss_target(law, points), law.starts(points.where, points.loss))
    assert law.constants(best.theta) == pytest.approx(truth, rel=1e-6)
    assert not loss_target(law, points).bounds.hit(best.theta).any()
