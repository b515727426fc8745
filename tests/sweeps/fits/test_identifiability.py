"""What designs can carry, decided before anything is fitted."""

import numpy as np
import pytest

from sweeps.fits.identifiability import Support, examine
from sweeps.fits.points import Points, make_points
from tests.sweeps.fits.made_points import noisy
from tests.sweeps.fits.public_data import column, public_rows


def design(N: list[float], D: list[float]) -> Points:
    return make_points(N, D, np.full(len(N), 2.0))


@pytest.mark.parametrize(
    ("sizes", "budgets", "support"),
    [
        (4, 6, Support.FULL),
        (3, 4, Support.FULL),
        (3, 3, Support.LOCAL),
        (3, 2, Support.LOCAL),
        (2, 8, Support.LOCAL),
        (8, 2, Support.LOCAL),
        (2, 2, Support.NONE),
        (1, 9, Support.NONE),
        (9, 1, Support.NONE),
    ],
)
def test_a_full_grid_carries_what_its_levels_and_cells_allow(
    sizes: int, budgets: int, support: Support
) -> None:
    assert examine(noisy(sizes, budgets, 0.001)).support is support


def test_one_ratio_is_refused_however_many_sizes_it_has() -> None:
    N = np.geomspace(1e7, 1e10, 20)
    jitter = np.random.default_rng(0).normal(0, 0.005, 20)
    found = examine(make_points(N, 20 * N * np.exp(jitter), 3 * N**-0.05))
    assert found.support is Support.LADDER
    assert "one D/N" in found.reasons[0]


def test_two_ratios_far_apart_are_enough_to_tell_directions_apart() -> None:
    N = np.repeat(np.geomspace(1e7, 1e9, 5), 2)
    found = examine(make_points(N, N * np.tile([10, 40], 5), np.full(10, 2.0)))
    assert (found.support, found.n_ratios) == (Support.FULL, 2)


def test_repeated_seeds_are_points_but_no_new_cells() -> None:
    N, D = [1e6, 2e6, 4e6] * 4, [1e7, 1e7, 3e7] * 4
    found = examine(design(N, D))
    assert (found.n_points, found.n_cells, found.support) == (12, 3, Support.NONE)


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_point_carries_no_law(rows: int) -> None:
    found = examine(design([1e6] * rows, [1e7] * rows))
    assert found.support is Support.NONE
    assert found.reasons


def test_every_refusal_counts_what_is_lacking() -> None:
    found = examine(noisy(3, 2, 0.001))
    assert any("2 token counts" in reason for reason in found.reasons)
    assert any("6 cells" in reason for reason in found.reasons)


def test_public_runs_at_one_ratio_carry_a_ladder_alone() -> None:
    rows = [row for row in public_rows("quest_bits.csv") if row["fit_key"] == "16"]
    points = make_points(column(rows, "N"), column(rows, "D"), column(rows, "loss"))
    assert examine(points).support is Support.LADDER
