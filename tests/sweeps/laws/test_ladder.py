"""The ladder law: a power of C, its slopes and its constants."""

import numpy as np
import pytest

from sweeps.laws.ladder import Ladder
from sweeps.laws.law import at, loss

WHERE = at([1e7, 3e7, 1e8], [2e8, 6e8, 2e9])


def test_loss_falls_with_the_stated_power_of_compute() -> None:
    law = Ladder.about(WHERE)
    theta = np.array([np.log(3.0), 0.05])
    values = loss(law, theta, WHERE)
    C = 6 * WHERE.N * WHERE.D
    C0 = np.exp(law.x0 + law.y0 + np.log(6))
    assert values == pytest.approx(3.0 * (C / C0) ** -0.05)
    assert law.constants(theta).tolist() == pytest.approx([3.0, 0.05])


def test_derivatives_are_those_of_finite_differences() -> None:
    law = Ladder.about(WHERE)
    theta = np.array([[1.0, 0.04], [0.7, 0.2]])
    step = 1e-6
    for column in range(2):
        moved = np.eye(2)[column] * step
        expected = (law.log_loss(theta + moved, WHERE) - law.log_loss(theta - moved, WHERE)) / (
            2 * step
        )
        assert law.jacobian(theta, WHERE)[..., column] == pytest.approx(expected)
    wider = at(WHERE.N * np.exp(step), WHERE.D)
    expected = (law.log_loss(theta, wider) - law.log_loss(theta, WHERE)) / step
    by_N, by_D = law.slopes(theta, WHERE)
    assert by_N == pytest.approx(expected, rel=1e-4)
    assert by_D == pytest.approx(by_N)


def test_the_start_is_the_line_through_exact_losses() -> None:
    law = Ladder.about(WHERE)
    theta = np.array([0.9, 0.11])
    found = law.starts(WHERE, loss(law, theta, WHERE))
    assert found == pytest.approx(theta[None])
    assert not law.bounds(WHERE, np.ones(3)).held.any()
