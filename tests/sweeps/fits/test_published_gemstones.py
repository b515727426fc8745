"""The Chinchilla law against the published fits to the Gemstones, one of which is no optimum."""

import numpy as np
import pytest

from sweeps.fits.points import Points, make_points
from sweeps.fits.search import Optimum, optimize
from sweeps.fits.target import loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array
from tests.sweeps.fits.public_data import column, public_rows


def gemstones(phase: str) -> Points:
    """The checkpoints of one phase; those of one training run are one cluster."""
    rows = [row for row in public_rows("gemstones.csv") if row["phase"] == phase]
    return make_points(
        *(column(rows, name) for name in ("N", "D", "loss")),
        groups=[row["run_name"] for row in rows],
    )


def fitted(points: Points, delta: float) -> tuple[Chinchilla, Optimum]:
    law = Chinchilla.about(points.where)
    target = loss_target(law, points)
    return law, optimize(target, law.starts(points.where, points.loss), delta=delta)


@pytest.mark.parametrize(
    ("phase", "objective", "E", "alpha", "beta"),
    [
        ("cool_begin", 0.001951532467, 2.1756, 0.3118, 0.6799),
        ("cool_end", 0.001964086431, 2.0748, 0.3004, 0.5802),
        ("hot", 0.001981612809, 2.1432, 0.2929, 0.7130),
    ],
)
def test_at_delta_1e_3_the_published_optimum_is_found(
    phase: str, objective: float, E: float, alpha: float, beta: float
) -> None:
    law, best = fitted(gemstones(phase), 1e-3)
    assert best.objective == pytest.approx(objective, rel=1e-8)
    assert law.constants(best.theta)[[0, 3, 4]] == pytest.approx([E, alpha, beta], abs=2e-4)


@pytest.mark.parametrize(
    ("phase", "published", "reached", "constants"),
    [
        ("cool_end", 0.000205940562, 0.000204779068, (2.0799, 0.3006, 0.5860)),
        ("hot", 0.000207601768, 0.000207505156, (2.1494, 0.2928, 0.7289)),
    ],
)
def test_at_delta_1e_4_the_published_point_is_beaten(
    phase: str, published: float, reached: float, constants: tuple[float, ...]
) -> None:
    law, best = fitted(gemstones(phase), 1e-4)
    assert best.objective < published * (1 - 4e-4)
    assert best.objective == pytest.approx(reached, rel=1e-6)
    assert law.constants(best.theta)[[0, 3, 4]] == pytest.approx(constants, abs=2e-4)


def test_checkpoints_of_one_run_are_drawn_together() -> None:
    points = gemstones("cool_end")
    assert points.n_clusters < 30 < len(points)
    for cluster in range(points.n_clusters):
        assert len(np.unique(points.N[points.cluster == cluster])) == 1


def test_a_cooldown_lowers_the_loss_by_more_than_most_formats_raise_it() -> None:
    """The same checkpoints before and after a tenth more tokens: phases may not be mixed."""
    begin, end = (by_run(phase) for phase in ("cool_begin", "cool_end"))
    assert begin.keys() == end.keys()
    more = np.concatenate([end[run][:, 0] / begin[run][:, 0] for run in begin])
    assert more == pytest.approx(1.1, abs=1e-3)
    change = np.concatenate([end[run][:, 1] - begin[run][:, 1] for run in begin])
    assert change.mean() == pytest.approx(-0.0870, abs=5e-5)
    assert change.std(ddof=1) == pytest.approx(0.016, abs=5e-5)


def by_run(phase: str) -> dict[str, Array]:
    """Columns D and loss of each run, by D."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in public_rows("gemstones.csv"):
        if row["phase"] == phase:
            found.setdefault(row["run_name"], []).append((float(row["D"]), float(row["loss"])))
    return {run: np.array(sorted(rows)) for run, rows in found.items()}
