"""The over-training law against the fits and held-out errors of Gadre et al. 2024."""

import numpy as np
import pytest

from sweeps.fits.points import Points, make_points
from sweeps.fits.search import Optimum, optimize
from sweeps.fits.target import Residual, loss_target
from sweeps.laws.law import at, loss
from sweeps.laws.overtraining import Overtraining
from tests.sweeps.fits.public_data import column, public_rows

Row = dict[str, str]

HELD_OUT = {"1.4B x16": ("open_lm_1b", 16.0), "1.4B x32": ("open_lm_1b", 32.0)}
HELD_OUT |= {"7B x1": ("open_lm_7b", 1.0)}


def runs(train_set: str) -> list[Row]:
    return [r for r in public_rows("openlm_overtrain.csv") if r["train_set"] == train_set]


def fitted_runs(rows: list[Row]) -> list[Row]:
    """The published choice: four smallest models at 20 tokens per parameter, smallest at 320."""
    sizes = sorted({int(row["N"]) for row in rows})[:4]
    asked = {*((size, 1.0) for size in sizes), (sizes[0], 16.0)}
    return [row for row in rows if (int(row["N"]), float(row["cc_mult"])) in asked]


def points_of(rows: list[Row]) -> Points:
    return make_points(*(column(rows, name) for name in ("N", "D", "loss_c4_val")))


def least_squares(points: Points) -> tuple[Overtraining, Optimum]:
    law = Overtraining.about(points.where)
    target = loss_target(law, points, Residual.LINEAR)
    starts = law.starts(points.where, points.loss)
    return law, optimize(target, starts, delta=np.inf)


@pytest.mark.parametrize(
    ("train_set", "published"),
    [
        ("c4_original", (1.5083, 141.28, 189.52, 0.1212)),
        ("rpj", (1.8366, 212.24, 366.69, 0.1364)),
        ("rw_original", (1.7345, 157.12, 246.21, 0.1272)),
    ],
)
def test_five_runs_give_the_published_constants(
    train_set: str, published: tuple[float, ...]
) -> None:
    rows = fitted_runs(runs(train_set))
    assert len(rows) == 5
    law, best = least_squares(points_of(rows))
    E, a, b, eta = law.constants(best.theta)
    assert (E, eta) == pytest.approx((published[0], published[3]), abs=2e-4)
    assert (a, b) == pytest.approx(published[1:3], abs=0.05)
    assert max(best.objectives) == pytest.approx(best.objective, rel=1e-9)


@pytest.mark.parametrize(
    ("train_set", "held_out", "percent"),
    [
        ("c4_original", "7B x1", 4.2952),
        ("rpj", "1.4B x32", 0.7103),
        ("rpj", "7B x1", 0.7320),
        ("rw_original", "1.4B x16", 0.0052),
        ("rw_original", "7B x1", 1.6193),
    ],
)
def test_the_held_out_runs_are_missed_by_as_much_as_published(
    train_set: str, held_out: str, percent: float
) -> None:
    rows = runs(train_set)
    law, best = least_squares(points_of(fitted_runs(rows)))
    model, multiple = HELD_OUT[held_out]
    (row,) = [r for r in rows if (r["model"], float(r["cc_mult"])) == (model, multiple)]
    predicted = loss(law, best.theta, at(float(row["N"]), float(row["D"]))).item()
    error = 100 * abs(predicted / float(row["loss_c4_val"]) - 1)
    assert error == pytest.approx(percent, abs=1e-3)


def test_relative_residuals_are_another_fit() -> None:
    points = points_of(fitted_runs(runs("rpj")))
    law, linear = least_squares(points)
    target = loss_target(law, points, Residual.LOG)
    relative = optimize(target, law.starts(points.where, points.loss), delta=np.inf)
    assert abs(law.constants(relative.theta)[0] - law.constants(linear.theta)[0]) > 1e-3
