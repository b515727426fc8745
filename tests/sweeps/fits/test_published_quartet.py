"""The public Quartet runs: published constants of the gamma law, multipliers, and all arms."""

from collections.abc import Sequence

import numpy as np
import pytest

from sweeps.fits.bootstrap import bootstrap
from sweeps.fits.points import Points, make_points
from sweeps.fits.search import Optimum, optimize
from sweeps.fits.target import loss_target
from sweeps.laws.gamma import Gamma
from sweeps.laws.joint import Effect, by_arm, by_factor, joint
from sweeps.laws.law import Law
from sweeps.laws.registry import LAWS
from tests.sweeps.fits.public_data import column, public_rows

DELTA = 1e-4
STOCHASTIC = "AlbertTsengQuantizer"
FORMATS = {
    "bf16": ("BF16", "BF16"),
    "forward": ("QuEST", "BF16"),
    "backward": ("BF16", STOCHASTIC),
    "both": ("QuEST", STOCHASTIC),
    "stochastic": (STOCHASTIC, "BF16"),
}


def runs(*, first_revision: bool, arms: Sequence[str] = ("bf16",)) -> Points:
    """Public runs of these formats; the published constants of a revision are of its own rows."""
    rows = public_rows("quartet_formats.csv")
    found = [
        (arm, row)
        for arm in arms
        for row in rows
        if (row["fwd_format"], row["bwd_format"]) == FORMATS[arm]
        and (row["in_first_rev"] == "1" or not first_revision)
    ]
    kept = [row for _, row in found]
    return make_points(
        *(column(kept, name) for name in ("N", "D", "loss")), arms=[arm for arm, _ in found]
    )


def searched(law: Law, points: Points, delta: float = DELTA) -> Optimum:
    starts = law.starts(points.where, points.loss)
    best = optimize(loss_target(law, points), starts, delta=delta)
    assert max(best.objectives) <= best.objective * (1 + 1e-6)
    return best


@pytest.mark.parametrize(
    ("first_revision", "rows", "cost", "published"),
    [
        (
            True,
            23,
            1.876208544909919e-06,
            (1.3481410, 152374.779, 525458.931, 0.5885759, 0.5440388, 0.2739285),
        ),
        (
            False,
            24,
            2.1292178288767157e-06,
            (1.3408461, 127444.685, 465834.312, 0.5785201, 0.5388769, 0.2764157),
        ),
    ],
)
def test_bf16_has_the_published_constants(
    first_revision: bool, rows: int, cost: float, published: tuple[float, ...]
) -> None:
    points = runs(first_revision=first_revision)
    assert len(points) == rows
    law = Gamma.about(points.where)
    best = searched(law, points)
    found = law.constants(best.theta)
    assert best.objective == pytest.approx(cost, rel=1e-6)
    assert found[[0, 3, 4, 5]] == pytest.approx([published[i] for i in (0, 3, 4, 5)], abs=1e-5)
    assert found[[1, 2]] == pytest.approx(published[1:3], rel=1e-4)


def test_the_chinchilla_law_costs_three_and_a_half_times_as_much() -> None:
    points = runs(first_revision=True)
    best = searched(LAWS["chinchilla"](points.where), points)
    assert best.objective == pytest.approx(6.7695e-06, rel=1e-4)


@pytest.mark.parametrize(
    ("first_revision", "arm", "effect", "rows", "published"),
    [
        (True, "backward", Effect.D, 21, 0.8917646),
        (True, "forward", Effect.N, 21, 0.6478133),
        (False, "backward", Effect.D, 22, 0.8934685),
        (False, "forward", Effect.N, 21, 0.6451631),
    ],
)
def test_a_format_on_the_held_base_has_the_published_multiplier(
    first_revision: bool, arm: str, effect: Effect, rows: int, published: float
) -> None:
    reference = runs(first_revision=first_revision)
    base = Gamma.about(reference.where)
    held = searched(base, reference).theta.tolist()
    points = runs(first_revision=first_revision, arms=[arm])
    assert len(points) == rows
    law = joint(base, {arm: (1.0,)}, (effect,), held=held)
    (*_, multiplier) = law.constants(searched(law, points).theta)
    assert multiplier == pytest.approx(published, abs=1e-5)


def test_four_arms_with_one_floor_have_forward_and_backward_factors_that_multiply() -> None:
    points = runs(first_revision=False, arms=["bf16", "forward", "backward", "both"])
    assert (len(points), len(points.arms)) == (88, 4)
    factors = by_factor(points.arms, {"fwd": {"forward", "both"}, "bwd": {"backward", "both"}})
    law = joint(Gamma.about(points.where), factors)
    target = loss_target(law, points)
    best = searched(law, points, 1e-3)
    found = dict(zip(law.parameters, law.constants(best.theta), strict=True))
    expected = {
        "eff_N[fwd]": (0.664, 0.640, 0.681),
        "eff_D[fwd]": (0.902, 0.850, 1.006),
        "eff_N[bwd]": (0.979, 0.970, 0.985),
        "eff_D[bwd]": (0.919, 0.905, 0.936),
    }
    draws = bootstrap(target, points, best, resamples=1000, seed=0)
    lows, highs = np.quantile(law.constants(draws), [0.025, 0.975], axis=0)
    for place, name in enumerate(law.parameters):
        if name in expected:
            value, low, high = expected[name]
            assert found[name] == pytest.approx(value, abs=0.001)
            assert (lows[place], highs[place]) == pytest.approx((low, high), abs=0.02)
    assert found["E"] == pytest.approx(1.19, abs=0.01)
    assert (lows[0], highs[0]) == pytest.approx((0.85, 1.46), abs=0.1)
    logs = np.corrcoef(draws[:, 6], draws[:, 7])
    assert logs[0, 1] == pytest.approx(-0.90, abs=0.05)


def test_the_point_above_its_own_shorter_run_stands_apart() -> None:
    points = runs(first_revision=False, arms=["bf16", "stochastic"])
    law = joint(Gamma.about(points.where), by_arm(points.arms), (Effect.N,))
    residuals = loss_target(law, points).residuals(searched(law, points, 1e-3).theta)
    deviations = np.abs(residuals) / (1.4826 * np.median(np.abs(residuals)))
    assert points.loss[np.argmax(deviations)] == 3.38471
    assert deviations.max() > 4
