"""Points: order, cells, what is refused, what is taken from records."""

import numpy as np
import pytest

from sweeps.errors import InputError
from sweeps.fits.points import make_points, recipe_points
from sweeps.records import Outcome
from tests.sweeps.made_runs import made_grid, made_run, made_spec


def test_rows_in_any_order_are_the_same_points() -> None:
    N, D, L = np.array([2.0, 1, 2, 1]), np.array([5.0, 7, 5, 6]), np.array([3.0, 4, 2, 5])
    first, second = make_points(N, D, L), make_points(N[::-1], D[::-1], L[::-1])
    assert first.digest == second.digest
    assert first.N.tolist() == [1, 1, 2, 2]
    assert first.cell.tolist() == [0, 1, 2, 2]
    assert first.n_cells == first.n_clusters == 3


def test_groups_join_rows_that_the_bootstrap_draws_whole() -> None:
    points = make_points([1, 1, 2, 2], [1, 2, 1, 2], [4, 3, 3, 2], groups=["a", "a", "b", "b"])
    assert points.cluster.tolist() == [0, 0, 1, 1]
    assert (points.n_cells, points.n_clusters) == (4, 2)


def test_a_changed_loss_changes_the_digest() -> None:
    assert make_points([1], [1], [2.0]).digest != make_points([1], [1], [2.0000001]).digest


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["N", "D", "loss"])
def test_a_value_that_is_not_positive_and_finite_is_refused_by_name(name: str, bad: float) -> None:
    columns = {"N": [1.0, 2.0], "D": [1.0, 2.0], "loss": [1.0, 2.0]} | {name: [1.0, bad]}
    with pytest.raises(InputError, match=f"^{name} = {bad}"):
        make_points(columns["N"], columns["D"], columns["loss"])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(InputError, match="N has shape"):
        make_points([1, 2, 3], [1, 2], [1, 2])


def test_only_measured_endpoints_of_the_recipe_are_points() -> None:
    runs = [
        *made_grid({"bf16": 0.0, "ufp4": 0.1}, widths=(32,)),
        made_run(made_spec("ufp4", width=64), {1000: float("nan")}, outcome=Outcome.DIVERGED),
        made_run(made_spec("ufp4", width=112), {1000: 2.0}, horizons=(4000,)),
    ]
    points = recipe_points(runs, "ufp4")
    assert points.N.tolist() == [20480, 20480]
    assert points.D.tolist() == [1e6, 4e6]


def test_no_records_are_no_points() -> None:
    assert len(recipe_points([], "bf16")) == 0
