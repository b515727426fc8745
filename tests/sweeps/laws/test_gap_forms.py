"""The forms of a gap: what they are equal to, and that their derivatives are derivatives."""

from collections.abc import Callable

import numpy as np
import pytest

from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gamma import Gamma
from sweeps.laws.gap_multipliers import GapMultipliers
from sweeps.laws.gap_power import GapPower
from sweeps.laws.law import Array, Law, at, loss

N = np.array([3e7, 1e8, 1e8, 4e8])
D = np.array([1e9, 1e9, 2e10, 8e9])
CENTER = (float(np.log(1e8)), float(np.log(4e9)))
CHINCHILLA = Chinchilla(x0=CENTER[0], y0=CENTER[1]), np.array([1.7, -0.3, -0.2, 0.33, 0.3])
GAMMA = Gamma(x0=CENTER[0], y0=CENTER[1]), np.array([1.3, 0.1, 0.2, 0.2, 0.15, -1.2])


def test_the_power_law_is_its_formula() -> None:
    law = GapPower.power(*CENTER)
    found = law.predict(np.array([0.05, -0.2, 0.1]), at(N, D))
    assert found == pytest.approx(0.05 * (N / 1e8) ** -0.2 * (D / 4e9) ** 0.1)


def test_the_ratio_law_follows_tokens_per_parameter_alone() -> None:
    law, theta = GapPower.ratio(*CENTER), np.array([0.05, 0.3])
    same = law.predict(theta, at(7 * N, 7 * D))
    assert law.predict(theta, at(N, D)) == pytest.approx(same)
    assert law.predict(theta, at(N, D)) == pytest.approx(0.05 * (D / N / 40) ** 0.3)


def test_the_constant_is_the_same_everywhere_and_may_be_negative() -> None:
    found = GapPower.constant(*CENTER).predict(np.array([-0.02]), at(N, D))
    assert found == pytest.approx(-0.02 * np.ones(4))


def test_exponents_are_those_of_N_and_D() -> None:
    ratio, power = GapPower.ratio(*CENTER), GapPower.power(*CENTER)
    assert [float(e) for e in ratio.exponents(np.array([1.0, 0.3]))] == [-0.3, 0.3]
    assert [float(e) for e in power.exponents(np.array([1.0, -0.2, 0.1]))] == [-0.2, 0.1]
    assert [float(e) for e in GapPower.constant(*CENTER).exponents(np.array([1.0]))] == [0, 0]


@pytest.mark.parametrize(("law", "base"), [CHINCHILLA, GAMMA], ids=["chinchilla", "gamma"])
def test_multipliers_move_the_law_that_they_are_of(law: Law, base: Array) -> None:
    both = GapMultipliers.both(law, base).predict(np.log([0.6, 0.8]), at(N, D))
    assert both == pytest.approx(loss(law, base, at(0.6 * N, 0.8 * D)) - loss(law, base, at(N, D)))
    as_one = GapMultipliers.compute(law, base).predict(np.log([0.7]), at(N, D))
    as_two = GapMultipliers.both(law, base).predict(np.log([0.7, 0.7]), at(N, D))
    assert as_one == pytest.approx(as_two)
    for one, at_two in (("parameters", [0.7, 1.0]), ("data", [1.0, 0.7])):
        single = getattr(GapMultipliers, one)(law, base).predict(np.log([0.7]), at(N, D))
        assert single == pytest.approx(
            GapMultipliers.both(law, base).predict(np.log(at_two), at(N, D))
        )


@pytest.mark.parametrize(
    ("model", "theta"),
    [
        (GapPower.constant(*CENTER), [0.03]),
        (GapPower.ratio(*CENTER), [0.03, 0.2]),
        (GapPower.power(*CENTER), [-0.03, 0.4, -0.2]),
        (GapMultipliers.compute(*CHINCHILLA), [-0.2]),
        (GapMultipliers.parameters(*GAMMA), [-0.5]),
        (GapMultipliers.data(*GAMMA), [0.1]),
        (GapMultipliers.both(*CHINCHILLA), [-0.3, -0.1]),
    ],
)
def test_jacobians_are_the_derivatives_of_predictions(
    model: GapPower | GapMultipliers, theta: list[float]
) -> None:
    where, point, step = at(N, D), np.array(theta), 1e-6
    for column in range(len(theta)):
        shift = step * (np.arange(len(theta)) == column)
        up, down = model.predict(point + shift, where), model.predict(point - shift, where)
        expected = (up - down) / (2 * step)
        assert model.jacobian(point, where)[:, column] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [GapPower.power, lambda *_: GapMultipliers.both(*GAMMA)],
    ids=["power", "multipliers"],
)
def test_a_batch_of_draws_is_one_call(
    make: Callable[[float, float], GapPower | GapMultipliers],
) -> None:
    model, where = make(*CENTER), at(N, D)
    random = np.random.default_rng(0)
    many = random.normal(-0.2, 0.1, (5, len(model.names)))
    for batch in (model.predict, model.jacobian):
        apart = np.stack([batch(theta, where) for theta in many])
        assert batch(many, where) == pytest.approx(apart)
