"""The Chinchilla law against the prediction that the OLMo ladder published for its 13B model."""

import numpy as np
import pytest

from sweeps.fits.points import make_points
from sweeps.fits.search import HOFFMANN_DELTA, Optimum, optimize
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import at, loss
from tests.sweeps.fits.public_data import column, public_rows

Row = dict[str, str]

LADDER = {f"{size}-{c}xC" for size in ("190M", "370M", "760M", "1B") for c in (1, 2, 5, 10)}


def fitted(rows: list[Row], delta: float = HOFFMANN_DELTA) -> tuple[Chinchilla, Optimum]:
    points = make_points(*(column(rows, name) for name in ("N", "D", "c4_en_ma5")))
    law = Chinchilla.about(points.where)
    target = loss_target(law, points)
    return law, optimize(target, law.starts(points.where, points.loss), delta=delta)


def ladder() -> list[Row]:
    return [row for row in public_rows("olmo_ladder_losses.csv") if row["run"] in LADDER]


def largest() -> Row:
    rows = public_rows("olmo_ladder_losses.csv")
    (target,) = [row for row in rows if row["role"] == "target" and row["size"] == "13B"]
    return target


def error_at_13b(rows: list[Row], delta: float = HOFFMANN_DELTA) -> float:
    """Predicted over measured less 1."""
    law, best = fitted(rows, delta)
    target = largest()
    predicted = loss(law, best.theta, at(float(target["N"]), float(target["D"]))).item()
    return predicted / float(target["c4_en_ma5"]) - 1


def test_sixteen_runs_predict_the_13b_model_as_published() -> None:
    rows = ladder()
    assert len(rows) == 16
    law, best = fitted(rows)
    target = largest()
    predicted = loss(law, best.theta, at(float(target["N"]), float(target["D"]))).item()
    assert predicted == pytest.approx(2.344387, abs=1e-5)
    assert float(target["c4_en_ma5"]) == pytest.approx(2.437876, abs=1e-5)
    assert best.objective == pytest.approx(3.299861e-05, rel=1e-6)
    E, A, B, alpha, beta = law.constants(best.theta)
    assert (E, alpha, beta) == pytest.approx((0.93438, 0.103603, 0.161969), abs=1e-4)
    assert (A, B) == pytest.approx((12.4828, 33.4768), rel=1e-4)


def test_the_mean_error_of_the_fit_is_the_published_one() -> None:
    rows = ladder()
    law, best = fitted(rows)
    observed = column(rows, "c4_en_ma5")
    predicted = loss(law, best.theta, at(column(rows, "N"), column(rows, "D")))
    assert np.abs(predicted / observed - 1).mean() == pytest.approx(0.00247308, abs=1e-7)


def test_the_choice_of_residual_moves_the_prediction_more_than_noise_does() -> None:
    """Between Huber and least squares the 13B model moves by a percent: form, not noise."""
    huber, squares = error_at_13b(ladder()), error_at_13b(ladder(), np.inf)
    assert huber == pytest.approx(-0.038, abs=5e-4)
    assert squares == pytest.approx(-0.026, abs=5e-4)


def test_the_whole_ladder_comes_closer_to_the_13b_model() -> None:
    rows = [r for r in public_rows("olmo_ladder_losses.csv") if r["role"] == "ladder"]
    assert error_at_13b(rows) == pytest.approx(-0.006, abs=1e-3)
