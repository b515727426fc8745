"""The joint law: what each effect does to an arm, its derivatives, and what is refused."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sweeps.errors import InputError
from sweeps.fits.points import make_points
from sweeps.fits.search import optimize
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gamma import Gamma
from sweeps.laws.joint import Effect, Joint, by_arm, by_factor, joint
from sweeps.laws.law import Array, Law, at, loss
from sweeps.laws.local_power import LocalPower
from sweeps.laws.registry import LAWS

ARMS = ("bf16", "forward", "backward", "both")
FACTORS = by_factor(ARMS, {"fwd": {"forward", "both"}, "bwd": {"backward", "both"}})
BASES = [name for name in LAWS if name not in {"ladder", "frontier"}]
"""Laws that know N and D apart."""

SIZES, DATA = np.meshgrid(np.geomspace(3e7, 1e9, 4), np.geomspace(1e9, 3e10, 4))
N, D = SIZES.ravel(), DATA.ravel()
ALL = at(np.tile(N, 4), np.tile(D, 4), np.repeat(np.arange(4), len(N)))
LOSS: Array = np.tile(1.4 + 40 / N**0.2 + 900 / D**0.35, 4)


def some(law: Joint) -> Array:
    """Some theta with effects of many sizes."""
    base = law.base.starts(ALL, LOSS)[0] * 1.01 + 0.01
    effects = [
        1.6 if each.effect is Effect.E else -0.1 * (1 + i) for i, each in enumerate(law.changes)
    ]
    return np.concatenate([base, effects])


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("effects", ["N", "D", "C", "ND"])
def test_derivatives_are_those_of_differences(name: str, effects: str) -> None:
    law = joint(LAWS[name](ALL), FACTORS, [Effect(each) for each in effects])
    assert_derivatives(law)


@pytest.mark.parametrize("name", ["chinchilla", "tied", "gamma"])
def test_derivatives_with_a_floor_of_its_own_are_those_of_differences(name: str) -> None:
    effects = {"fwd": [Effect.N, Effect.E], "bwd": [Effect.D]}
    assert_derivatives(joint(LAWS[name](ALL), FACTORS, effects))


def assert_derivatives(law: Joint) -> None:
    theta, step = some(law), 1e-6
    numeric = approx_fprime(theta, lambda point: law.log_loss(point, ALL), 1e-7)
    assert law.jacobian(theta, ALL) == pytest.approx(numeric, abs=3e-6)
    here, up = law.log_loss(theta, ALL), np.exp(step)
    by_N, by_D = law.slopes(theta, ALL)
    assert by_N == pytest.approx(
        (law.log_loss(theta, at(ALL.N * up, ALL.D, ALL.arm)) - here) / step, abs=3e-6
    )
    assert by_D == pytest.approx(
        (law.log_loss(theta, at(ALL.N, ALL.D * up, ALL.arm)) - here) / step, abs=3e-6
    )


@pytest.mark.parametrize("effects", ["ND", "C", "NE"])
def test_a_batch_of_parameters_is_each_alone(effects: str) -> None:
    law = joint(Gamma.about(ALL), by_arm(ARMS), [Effect(each) for each in effects])
    batch = some(law) * np.array([[1.0], [0.9], [1.1]])
    for row, theta in enumerate(batch):
        assert law.log_loss(batch, ALL)[row] == pytest.approx(law.log_loss(theta, ALL), rel=1e-12)
        assert law.jacobian(batch, ALL)[row] == pytest.approx(law.jacobian(theta, ALL), rel=1e-12)


def test_an_arm_is_the_reference_at_its_effective_size_and_data() -> None:
    base = Chinchilla.about(ALL)
    law = joint(base, FACTORS)
    theta = some(law)
    constants = dict(zip(law.parameters, law.constants(theta), strict=True))
    m_N = constants["eff_N[fwd]"] * constants["eff_N[bwd]"]
    m_D = constants["eff_D[fwd]"] * constants["eff_D[bwd]"]
    both = loss(law, theta, at(N, D, 3))
    assert both == pytest.approx(loss(base, theta[:5], at(m_N * N, m_D * D)), rel=1e-12)
    assert loss(law, theta, at(N, D, 0)) == pytest.approx(loss(base, theta[:5], at(N, D)))


def test_a_floor_of_its_own_moves_the_loss_by_the_difference_of_the_floors() -> None:
    base = Chinchilla.about(ALL)
    law = joint(base, by_arm(("bf16", "fp4")), (Effect.E,))
    theta = np.array([1.35, -0.4, 0.1, 0.35, 0.37, 1.5])
    assert law.parameters[-1] == "E[fp4]"
    gap = loss(law, theta, at(N, D, 1)) - loss(law, theta, at(N, D, 0))
    assert gap == pytest.approx(np.full(len(N), 0.15))


def test_eff_c_is_one_multiplier_of_both() -> None:
    base, theta = Chinchilla.about(ALL), np.array([1.35, -0.4, 0.1, 0.35, 0.37])
    one = joint(base, by_arm(("bf16", "fp4")), (Effect.C,))
    two = joint(base, by_arm(("bf16", "fp4")))
    where = at(N, D, 1)
    assert loss(one, np.append(theta, -0.2), where) == pytest.approx(
        loss(two, np.append(theta, [-0.2, -0.2]), where)
    )


@pytest.mark.parametrize(
    "base", [Chinchilla.about(ALL), Gamma.about(ALL)], ids=lambda law: law.name
)
@pytest.mark.parametrize("ratio", [1.0, 3.0, 9.0])
def test_arms_without_noise_are_recovered_to_1e_6(base: Law, ratio: float) -> None:
    law = joint(base, FACTORS)
    bend = [np.log(0.5)] if base.name == "gamma" else []
    truth = np.array([1.7, -0.2, -0.5, 0.1 * ratio, 0.1, *bend, *np.log([0.6, 0.9, 0.97, 0.85])])
    places = at(np.tile(N, 4), np.tile(D, 4), np.repeat(np.arange(4), len(N)))
    points = make_points(
        places.N, places.D, loss(law, truth, places), arms=[ARMS[each] for each in places.arm]
    )
    best = optimize(loss_target(law, points), law.starts(points.where, points.loss))
    assert law.constants(best.theta) == pytest.approx(law.constants(truth), rel=1e-6)


def test_a_held_base_stays_where_it_is_and_effects_are_still_found() -> None:
    base, theta = Chinchilla.about(ALL), np.array([1.7, -0.2, -0.5, 0.3, 0.25])
    law = joint(base, by_arm(("bf16", "fp4")), held=theta.tolist())
    free = joint(base, by_arm(("bf16", "fp4")))
    truth = np.append(theta, np.log([0.7, 0.9]))
    points = make_points(N, D, loss(free, truth, at(N, D, 1)), arms=["fp4"] * len(N))
    alone = joint(base, {"fp4": (1.0,)}, held=theta.tolist())
    best = optimize(loss_target(alone, points), alone.starts(points.where, points.loss))
    np.testing.assert_array_equal(best.theta[:5], theta)
    assert alone.constants(best.theta)[5:] == pytest.approx([0.7, 0.9], rel=1e-6)
    assert law.bounds(ALL, LOSS).held.tolist() == [True] * 5 + [False] * 2


def test_searches_begin_from_all_rows_where_the_reference_has_too_few_cells() -> None:
    law = joint(Chinchilla.about(ALL), by_arm(("bf16", "fp4")))
    few = at(N, D, (np.arange(len(N)) >= 3).astype(int))
    starts = law.starts(few, LOSS[: len(N)])
    assert starts.shape == (9, 7)
    own = Chinchilla.about(ALL).starts(few, LOSS[: len(N)])
    np.testing.assert_array_equal(np.unique(starts[:, :5], axis=0), np.unique(own, axis=0))


def test_names_say_the_effect_and_the_factor() -> None:
    law = joint(Chinchilla.about(ALL), FACTORS, {"fwd": [Effect.N], "bwd": [Effect.D]})
    assert law.parameters == ("E", "A", "B", "alpha", "beta", "eff_N[fwd]", "eff_D[bwd]")
    assert law.shape == ("E", "alpha", "beta", "eff_N[fwd]", "eff_D[bwd]")
    assert law.name == "joint chinchilla"
    assert law.formula == f"{Chinchilla.formula}; in each arm N -> eff_N N, D -> eff_D D"


def test_a_multiplier_of_both_beside_each_alone_is_refused() -> None:
    with pytest.raises(InputError, match="fwd: eff_C cannot be told from eff_N and eff_D"):
        joint(Chinchilla.about(ALL), FACTORS, (Effect.N, Effect.D, Effect.C))


def test_two_floors_in_one_arm_are_refused() -> None:
    with pytest.raises(InputError, match="one E of its own"):
        joint(Chinchilla.about(ALL), FACTORS, (Effect.E,))


def test_a_floor_for_a_law_without_one_is_refused() -> None:
    with pytest.raises(InputError, match="local power has no E"):
        joint(LocalPower.about(ALL), by_arm(ARMS), (Effect.E,))


def test_a_factor_of_an_arm_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="fwd: there is no arm fp4, only bf16, ufp4"):
        by_factor(("bf16", "ufp4"), {"fwd": {"fp4"}})
