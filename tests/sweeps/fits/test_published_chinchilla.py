"""The Chinchilla runs as read off a figure: constants at two thresholds, and their bootstrap.

The reconstruction carries no licence, so it is not beside the other public data:
GRIDLAW_CHINCHILLA_CSV names a CSV of one's own with the columns N, C and loss. D is C / (6 N), and
the five highest losses are left out, as in the published replication.
"""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from sweeps.fits.bootstrap import bootstrap
from sweeps.fits.points import Points, make_points
from sweeps.fits.search import optimize
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from tests.sweeps.fits.public_data import column


@pytest.fixture(scope="module")
def points() -> Points:
    path = os.environ.get("GRIDLAW_CHINCHILLA_CSV")
    if not path:
        pytest.skip("GRIDLAW_CHINCHILLA_CSV names no file with columns N, C and loss")
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    N, C, losses = (column(rows, name) for name in ("N", "C", "loss"))
    kept = np.argsort(losses)[:-5]
    return make_points(N[kept], (C / (6 * N))[kept], losses[kept])


@pytest.mark.parametrize(
    ("delta", "E", "A", "B", "alpha", "beta"),
    [
        (1e-3, 1.817218, 477.828, 2143.413, 0.347311, 0.367172),
        (1e-6, 1.816844, 481.93, 2085.00, 0.347804, 0.365844),
        (np.inf, 1.864550, 593.32, 4875.6, 0.360253, 0.405883),
    ],
)
def test_the_replication_is_the_least_absolute_deviation(
    points: Points, delta: float, E: float, A: float, B: float, alpha: float, beta: float
) -> None:
    assert len(points) == 240
    law = Chinchilla.about(points.where)
    best = optimize(loss_target(law, points), law.starts(points.where, points.loss), delta=delta)
    found = law.constants(best.theta)
    assert found[[0, 3, 4]] == pytest.approx([E, alpha, beta], rel=1e-4)
    assert found[[1, 2]] == pytest.approx([A, B], rel=1e-3)


def test_the_bootstrap_has_the_published_spread(points: Points) -> None:
    law = Chinchilla.about(points.where)
    target = loss_target(law, points)
    best = optimize(target, law.starts(points.where, points.loss), delta=1e-3)
    assert best.objective == pytest.approx(0.0010182740178, rel=1e-8)
    draws = law.constants(bootstrap(target, points, best, resamples=4000, seed=0))
    assert draws.std(axis=0)[[0, 3, 4]] == pytest.approx([0.02516, 0.0148, 0.0202], rel=0.15)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    assert low[[0, 3, 4]] == pytest.approx([1.770, 0.317, 0.334], abs=0.004)
    assert high[[0, 3, 4]] == pytest.approx([1.868, 0.372, 0.414], abs=0.004)
