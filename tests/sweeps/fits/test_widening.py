"""The factor by which draws are widened, and when clusters count as holding several cells."""

import numpy as np
import pytest

from sweeps.fits.points import Points, make_points
from sweeps.fits.widening import widened, widening
from sweeps.laws.law import Bounds
from tests.sweeps.fits.made_points import grid, surface


def runs(sizes: int, budgets: int, seeds: int, *, trunks: bool) -> Points:
    """Seeds of a grid; the budgets of one size and seed share a run, or are runs of their own."""
    N, D = grid(sizes, budgets)
    rows = [
        (n, d, loss, f"{n} {'' if trunks else d} {seed}")
        for n, d, loss in zip(N, D, surface(N, D), strict=True)
        for seed in range(seeds)
    ]
    sizes_, tokens, losses, groups = zip(*rows, strict=True)
    return make_points(sizes_, tokens, losses, groups=groups)


@pytest.mark.parametrize(
    ("clusters", "spent", "grouped", "square"),
    [(12, 5, False, 12 / 9.5), (24, 6, False, 24 / 21), (12, 5, True, 12 / 8), (8, 5, True, 2)],
)
def test_the_square_is_clusters_over_clusters_less_what_is_made_good(
    clusters: int, spent: int, grouped: bool, square: float
) -> None:
    assert widening(clusters, spent, grouped=grouped) ** 2 == pytest.approx(square)


@pytest.mark.parametrize(("clusters", "spent", "grouped"), [(4, 5, True), (2, 5, False)])
def test_no_more_clusters_than_constants_to_make_good_is_infinite(
    clusters: int, spent: int, grouped: bool
) -> None:
    assert widening(clusters, spent, grouped=grouped) == float("inf")


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_runs_of_several_budgets_are_grouped_however_many_seeds_there_are(seeds: int) -> None:
    assert runs(4, 3, seeds, trunks=True).is_grouped
    assert not runs(4, 3, seeds, trunks=False).is_grouped


def test_draws_move_away_from_the_optimum_and_stop_at_the_bounds() -> None:
    bounds = Bounds(lower=np.array([-1.0, -1.0]), upper=np.array([1.0, 1.0]))
    draws = np.array([[0.2, 0.9], [-0.2, 0.1]])
    wide = widened(draws, np.array([0.0, 0.5]), bounds, 1.5)
    np.testing.assert_allclose(wide, [[0.3, 1.0], [-0.3, -0.1]])
