"""Points: order, arms, cells, clusters, and what is refused."""

import numpy as np
import pytest

from sweeps.errors import InputError
from sweeps.fits.points import make_points


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


def test_arms_share_the_cluster_of_their_cell() -> None:
    points = make_points([1, 1, 2, 2], [5, 5, 5, 5], [4, 3, 3, 2], arms=["b", "a", "a", "b"])
    assert points.arms == ("b", "a")
    assert points.arm.tolist() == [0, 1, 0, 1]
    assert points.cluster.tolist() == [0, 0, 1, 1]


def test_a_named_reference_comes_first_in_any_order_of_rows() -> None:
    N, names = [1, 2, 3, 4], ["c", "bf16", "a", "b"]
    turned = {
        make_points(N[::step], N[::step], N[::step], arms=names[::step], reference="bf16").digest
        for step in (1, -1)
    }
    points = make_points(N, N, N, arms=names, reference="bf16")
    assert points.arms == ("bf16", "a", "b", "c")
    assert [points.arms[index] for index in points.arm] == names
    assert turned == {points.digest}


def test_a_reference_without_rows_is_refused_with_the_arms_that_there_are() -> None:
    with pytest.raises(InputError, match="reference = bf16: no row is of this arm, only of a, b"):
        make_points([1, 2], [1, 2], [1, 2], arms=["a", "b"], reference="bf16")


@pytest.mark.parametrize("name", ["arms", "groups"])
def test_names_for_other_than_every_row_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} has 1 names for 2 losses"):
        make_points([1, 2], [1, 2], [1, 2], **{name: ["a"]})  # type: ignore[arg-type]


def test_a_row_remembers_its_place_in_the_columns() -> None:
    points = make_points([3, 1, 2], [1, 1, 1], [30, 10, 20])
    assert points.row.tolist() == [1, 2, 0]


def test_a_changed_loss_changes_the_digest() -> None:
    assert make_points([1], [1], [2.0]).digest != make_points([1], [1], [2.0000001]).digest


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["N", "D", "loss"])
def test_a_value_that_is_not_positive_and_finite_is_refused_by_name(name: str, bad: float) -> None:
    columns = {"N": [1.0, 2.0], "D": [1.0, 2.0], "loss": [1.0, 2.0]} | {name: [1.0, bad]}
    with pytest.raises(InputError, match=f"^{name} = {bad}"):
        make_points(columns["N"], columns["D"], columns["loss"])


@pytest.mark.parametrize("far", [1e-320, 1e-31, 1e31, 1e300])
@pytest.mark.parametrize("name", ["N", "D", "loss"])
def test_a_value_beyond_any_unit_is_refused_by_name(name: str, far: float) -> None:
    columns = {"N": [1.0, 2.0], "D": [1.0, 2.0], "loss": [1.0, 2.0]} | {name: [1.0, far]}
    with pytest.raises(InputError, match=f"^{name} = .*between 1e-30 and 1e\\+30"):
        make_points(columns["N"], columns["D"], columns["loss"])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(InputError, match="N has shape"):
        make_points([1, 2, 3], [1, 2], [1, 2])


def test_no_rows_are_no_points() -> None:
    points = make_points([], [], [])
    assert (len(points), points.n_cells, points.n_clusters, points.arms) == (0, 0, 0, ("",))
