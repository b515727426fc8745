"""The public QuEST runs: 21 constants of 17 formats, whose optimum lies on the bound E = 0."""

from dataclasses import replace

import numpy as np
import pytest

from sweeps.fits.points import Points, make_points
from sweeps.fits.search import Optimum, optimize
from sweeps.fits.target import Target, huber, loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.joint import Effect, Joint, by_arm, joint
from sweeps.laws.law import Bounds
from tests.sweeps.fits.public_data import column, public_rows

PUBLISHED_COST = 7.38431448e-10
"""Half the sum of squared log residuals, each multiplied by 1e-3."""

EFFECTIVE = {
    "1": 0.021,
    "2": 0.152,
    "3": 0.433,
    "4": 0.692,
    "8": 1.016,
    "fp4": 0.630,
    "1WO": 0.138,
    "2WO": 0.414,
    "3WO": 0.653,
    "4WO": 0.840,
}


@pytest.fixture(scope="module")
def fitted() -> tuple[Joint, Target, Points, Optimum]:
    rows = public_rows("quest_bits.csv")
    points = make_points(
        *(column(rows, name) for name in ("N", "D", "loss")),
        arms=[row["fit_key"] for row in rows],
        reference="16",
    )
    law = joint(Chinchilla.about(points.where), by_arm(points.arms), (Effect.N,))
    target = loss_target(law, points)
    return (
        law,
        target,
        points,
        optimize(target, law.starts(points.where, points.loss), delta=np.inf),
    )


def test_every_start_ends_below_the_published_point(
    fitted: tuple[Joint, Target, Points, Optimum],
) -> None:
    law, _, points, best = fitted
    assert (len(points), len(law.parameters)) == (104, 21)
    assert best.objective * 1e-6 == pytest.approx(7.380535e-10, rel=1e-6)
    assert max(best.objectives) * 1e-6 < PUBLISHED_COST
    assert max(best.objectives) <= best.objective * (1 + 1e-6)


def test_the_published_point_costs_what_was_published(
    fitted: tuple[Joint, Target, Points, Optimum],
) -> None:
    law, target, _, best = fitted
    # Published with four digits of the multipliers; scales and other multipliers are profiled.
    theta = best.theta.copy()
    theta[[0, 3, 4]] = 0.0014233, 0.0627265, 0.2412884
    lower, upper = target.bounds.lower.copy(), target.bounds.upper.copy()
    lower[[0, 3, 4]] = upper[[0, 3, 4]] = theta[[0, 3, 4]]
    held = replace(target, bounds=Bounds(lower=lower, upper=upper))
    profiled = optimize(held, theta[None], delta=np.inf)
    cost = float(huber(target.residuals(profiled.theta), np.inf).sum()) * 1e-6
    assert 7.380535e-10 < cost <= PUBLISHED_COST * (1 + 1e-6)
    assert law.constants(profiled.theta)[0] == pytest.approx(0.0014233)


def test_the_floor_is_told_to_lie_on_its_bound(
    fitted: tuple[Joint, Target, Points, Optimum],
) -> None:
    law, target, _, best = fitted
    hit = target.bounds.hit(best.theta)
    assert [name for name, on in zip(law.parameters, hit, strict=True) if on] == ["E"]
    assert best.theta[0] == 0.0


def test_exponents_and_multipliers_are_the_published_ones(
    fitted: tuple[Joint, Target, Points, Optimum],
) -> None:
    law, _, _, best = fitted
    found = dict(zip(law.parameters, law.constants(best.theta), strict=True))
    assert found["alpha"] == pytest.approx(0.0626949, abs=1e-6)
    assert found["alpha"] == pytest.approx(0.0627265, abs=1e-4)
    assert found["beta"] == pytest.approx(0.2413086, abs=1e-6)
    assert found["beta"] == pytest.approx(0.2412884, abs=1e-4)
    for key, value in EFFECTIVE.items():
        assert found[f"eff_N[{key}]"] == pytest.approx(value, abs=0.002)


def test_multipliers_hardly_move_with_a_floor_that_changes_the_exponent_by_half(
    fitted: tuple[Joint, Target, Points, Optimum],
) -> None:
    law, target, points, best = fitted
    lower, upper = target.bounds.lower.copy(), target.bounds.upper.copy()
    lower[0] = upper[0] = 1.0
    held = replace(target, bounds=Bounds(lower=lower, upper=upper))
    raised = optimize(held, law.starts(points.where, points.loss), delta=np.inf)
    free, bound = (
        dict(zip(law.parameters, law.constants(each.theta), strict=True)) for each in (best, raised)
    )
    assert bound["E"] == 1.0
    assert bound["alpha"] > 1.5 * free["alpha"]
    for key in ("4", "fp4", "4WO"):
        assert bound[f"eff_N[{key}]"] == pytest.approx(free[f"eff_N[{key}]"], rel=0.08)
