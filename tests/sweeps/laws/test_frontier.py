"""The frontier law against its formula and against the optimum of a Chinchilla surface."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sweeps.fits.points import make_points
from sweeps.fits.search import optimize
from sweeps.fits.target import loss_target
from sweeps.laws.frontier import Frontier
from sweeps.laws.law import at, loss

N = np.geomspace(3e6, 3e8, 6)
D = 20 * N
HERE = at(N, D)
LAW = Frontier.about(HERE)
THETA = np.array([1.4, 0.1, 0.15])


def test_the_constants_written_into_the_formula_give_the_same_loss() -> None:
    E, K, alpha_C = LAW.constants(THETA)
    by_hand = E + K / (6 * N * D) ** alpha_C
    assert loss(LAW, THETA, HERE) == pytest.approx(by_hand, rel=1e-12)


def test_derivatives_are_those_of_differences() -> None:
    numeric = approx_fprime(THETA, lambda point: LAW.log_loss(point, HERE), 1e-7)
    assert LAW.jacobian(THETA, HERE) == pytest.approx(numeric, abs=2e-6)
    step = 1e-6
    moved = LAW.log_loss(THETA, at(N * np.exp(step), D)) - LAW.log_loss(THETA, HERE)
    by_size, by_data = LAW.slopes(THETA, HERE)
    assert by_size == pytest.approx(moved / step, abs=1e-6)
    np.testing.assert_array_equal(by_size, by_data)


def test_a_batch_of_parameters_is_each_alone() -> None:
    batch = THETA * np.array([[1.0], [0.9], [1.2]])
    for row, theta in enumerate(batch):
        np.testing.assert_array_equal(LAW.log_loss(batch, HERE)[row], LAW.log_loss(theta, HERE))
        np.testing.assert_array_equal(LAW.jacobian(batch, HERE)[row], LAW.jacobian(theta, HERE))
        np.testing.assert_array_equal(LAW.constants(batch)[row], LAW.constants(theta))


def test_losses_without_noise_are_recovered_to_1e_6() -> None:
    truth = np.array([1.6, 40.0, 0.1])
    points = make_points(N, D, truth[0] + truth[1] / (6 * N * D) ** truth[2])
    law = Frontier.about(points.where)
    best = optimize(loss_target(law, points), law.starts(points.where, points.loss))
    assert law.constants(best.theta) == pytest.approx(truth, rel=1e-6)


def test_on_the_optimum_of_a_surface_the_exponent_is_the_harmonic_one() -> None:
    """On it alpha A / N^alpha = beta B / D^beta, so L - E falls as C^-(1 / (1/alpha + 1/beta))."""
    E, A, B, alpha, beta = 1.8, 480.0, 2100.0, 0.35, 0.28
    sizes = np.geomspace(1e7, 1e9, 6)
    data = (beta * B / (alpha * A) * sizes**alpha) ** (1 / beta)
    points = make_points(sizes, data, E + A / sizes**alpha + B / data**beta)
    law = Frontier.about(points.where)
    best = optimize(loss_target(law, points), law.starts(points.where, points.loss))
    found = law.constants(best.theta)
    assert found[[0, 2]] == pytest.approx([E, alpha * beta / (alpha + beta)], rel=1e-6)
