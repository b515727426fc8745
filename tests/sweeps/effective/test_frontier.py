"""Worth of compute on the frontier, and critical tokens, where both are known in closed form."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from sweeps.effective.frontier import (
    GapSurface,
    LawSurface,
    best_size,
    critical_tokens,
    least_loss,
    log_compute_multiplier,
)
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gamma import Gamma
from sweeps.laws.gap_power import GapPower
from sweeps.laws.joint import Effect, joint
from sweeps.laws.law import Array, Law, at, loss

X0, Y0 = float(np.log(1e8)), float(np.log(4e9))
CHINCHILLA = Chinchilla(x0=X0, y0=Y0), np.array([1.8, -0.5, -0.7, 0.35, 0.37])
GAMMA = Gamma(x0=X0, y0=Y0), np.array([1.3, 0.1, 0.2, 0.2, 0.15, -1.2])


def test_the_best_size_of_chinchilla_is_the_closed_form() -> None:
    law, theta = CHINCHILLA
    _, A, B, alpha, beta = law.constants(theta)
    C = np.array([1e18, 1e20, 1e22])
    found = np.exp(best_size(LawSurface(law=law, theta=np.tile(theta, (3, 1))), C))
    G = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    expected = G * (C / 6) ** (beta / (alpha + beta))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("law", "theta"), [CHINCHILLA, GAMMA], ids=["chinchilla", "gamma"])
def test_the_least_loss_is_that_of_a_direct_search(law: Law, theta: Array) -> None:
    C = 3e19

    def value(ln_N: float) -> float:
        return float(loss(law, theta, at(np.exp(ln_N), C / 6 / np.exp(ln_N)))[0])

    expected = minimize_scalar(value, bounds=(12, 28), method="bounded").fun
    found = least_loss(LawSurface(law=law, theta=theta[None]), np.array([C]))
    assert found[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("law", "theta"), [CHINCHILLA, GAMMA], ids=["chinchilla", "gamma"])
@pytest.mark.parametrize("C", [1e17, 1e19, 1e21])
def test_multipliers_of_N_and_D_are_worth_their_product_at_every_budget(
    law: Law, theta: Array, C: float
) -> None:
    random = np.random.default_rng(0)
    effects = np.log(random.uniform(0.4, 1.3, (20, 2)))
    draws = np.concatenate([np.tile(theta, (20, 1)), effects], axis=1)
    both = joint(law, {"fp4": (0, 1)})
    bf16, fp4 = (LawSurface(law=both, theta=draws, arm=arm) for arm in (0, 1))
    found = log_compute_multiplier(bf16, fp4, C)
    assert found == pytest.approx(effects.sum(axis=1), abs=1e-9)


def test_a_higher_floor_is_worth_less_the_larger_the_budget() -> None:
    law, theta = CHINCHILLA
    own = joint(law, {"fp4": (0, 1)}, (Effect.E,))
    draws = np.append(theta, theta[0] + 0.03)[None]
    bf16, fp4 = (LawSurface(law=own, theta=draws, arm=arm) for arm in (0, 1))
    found = [log_compute_multiplier(bf16, fp4, C)[0] for C in (1e18, 1e20, 1e22)]
    assert found[2] < found[1] < found[0] < 0


def test_a_gap_law_is_worth_what_a_direct_search_says() -> None:
    law, theta = CHINCHILLA
    gap = GapPower.power(X0, Y0)
    draws = np.array([[0.06, -0.1, 0.1], [0.02, 0.0, -0.1], [-0.01, 0.0, 0.0]])
    bf16 = LawSurface(law=law, theta=np.tile(theta, (3, 1)))
    fp4 = GapSurface(base=LawSurface(law=law, theta=theta[None]), gap=gap, gap_theta=draws)
    C = 1e19

    def frontier(flops: float, row: Array | None) -> float:
        def value(ln_N: float) -> float:
            where = at(np.exp(ln_N), flops / 6 / np.exp(ln_N))
            added = 0.0 if row is None else float(gap.predict(row, where)[0])
            return float(loss(law, theta, where)[0]) + added

        return float(minimize_scalar(value, bounds=(14, 26), method="bounded").fun)

    def worth(goal: float) -> float:
        return float(brentq(lambda ln_m: frontier(C * np.exp(ln_m), None) - goal, -5, 5))

    expected = [worth(frontier(C, row)) for row in draws]
    assert log_compute_multiplier(bf16, fp4, C) == pytest.approx(expected, abs=1e-5)


def test_a_gap_below_the_floor_of_bf16_is_worth_nothing_that_could_be_said() -> None:
    law, theta = CHINCHILLA
    gap = GapPower.constant(X0, Y0)
    bf16 = LawSurface(law=law, theta=theta[None])
    found = log_compute_multiplier(
        bf16, GapSurface(base=bf16, gap=gap, gap_theta=np.array([[-1.0]])), 1e21
    )
    assert np.isnan(found).all()


def test_critical_tokens_are_where_the_gap_grows_as_fast_as_the_loss_falls() -> None:
    law, theta = CHINCHILLA
    _, _, B, _, beta = law.constants(theta)
    c, b, N = 0.05, 0.5, 1e8
    surface = GapSurface(
        base=LawSurface(law=law, theta=theta[None]),
        gap=GapPower.power(X0, Y0),
        gap_theta=np.array([[c, -0.2, b]]),
    )
    # beta B D^-beta = b c (D / D0)^b at N = N0
    expected = (beta * B * np.exp(b * Y0) / (b * c)) ** (1 / (b + beta))
    assert critical_tokens(surface, N, (1e9, 4e10))[0] == pytest.approx(expected, rel=1e-6)
    assert np.isnan(critical_tokens(surface, N, (1e9, expected / 11))[0])


def test_a_gap_that_fades_has_no_critical_tokens() -> None:
    law, theta = CHINCHILLA
    surface = GapSurface(
        base=LawSurface(law=law, theta=theta[None]),
        gap=GapPower.power(X0, Y0),
        gap_theta=np.array([[0.05, -0.2, -0.1]]),
    )
    assert np.isnan(critical_tokens(surface, 1e8, (1e9, 4e10))[0])
