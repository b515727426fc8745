"""Paired differences: what is paired with what, and what is left alone."""

import numpy as np
import pytest

from sweeps.fits.differences import differences
from sweeps.fits.points import make_points


def test_a_pair_is_made_inside_one_cell_and_cluster() -> None:
    points = make_points(
        N=[1e7] * 4 + [2e7] * 2,
        D=[1e9] * 4 + [1e9] * 2,
        loss=[3.0, 3.1, 3.25, 3.30, 2.8, 2.9],
        arms=["bf16", "bf16", "fp4", "fp4", "bf16", "fp4"],
        groups=["s0", "s1", "s1", "s0", "s0", "s0"],
    )
    found = differences(points, "fp4")
    by_group = dict(zip(found.origin.tolist(), found.gap.tolist(), strict=True))
    assert sorted(found.gap.tolist()) == pytest.approx([0.1, 0.15, 0.3])
    assert found.N.tolist() == [1e7, 1e7, 2e7]
    assert len(by_group) == found.n_clusters == 2
    assert found.n_cells == 2


def test_seeds_of_one_cell_are_averaged_where_the_cell_is_the_cluster() -> None:
    points = make_points(
        [1e7] * 4, [1e9] * 4, [3.0, 3.2, 3.3, 3.4], arms=["bf16", "bf16", "fp4", "fp4"]
    )
    assert differences(points, "fp4").gap.tolist() == pytest.approx([0.25])


def test_what_has_no_reference_beside_it_is_counted_and_left_out() -> None:
    points = make_points(
        [1e7, 1e7, 2e7],
        [1e9] * 3,
        [3.0, 3.2, 2.9],
        arms=["bf16", "fp4", "fp4"],
    )
    found = differences(points, "fp4")
    assert (len(found), found.n_alone) == (1, 1)
    alone = make_points([1e7, 2e7], [1e9] * 2, [3.0, 2.9], arms=["bf16", "fp4"])
    assert (len(differences(alone, "fp4")), differences(alone, "fp4").n_alone) == (0, 1)


def test_rows_in_another_order_give_the_same_differences() -> None:
    random = np.random.default_rng(1)
    N, D = np.repeat([1e7, 2e7, 4e7], 8), np.tile(np.repeat([1e9, 2e9], 4), 3)
    arms = np.tile(["bf16", "bf16", "fp4", "fp4"], 6)
    groups = np.tile(["a", "b"], 12)
    loss = random.normal(3, 0.1, 24)
    order = random.permutation(24)
    # The reference is the arm that appears first.
    order = order[np.argsort(arms[order] != "bf16", kind="stable")]
    straight = differences(
        make_points(N, D, loss, arms=arms.tolist(), groups=groups.tolist()), "fp4"
    )
    shuffled = differences(
        make_points(
            N[order],
            D[order],
            loss[order],
            arms=arms[order].tolist(),
            groups=groups[order].tolist(),
        ),
        "fp4",
    )
    assert sorted(straight.gap.tolist()) == pytest.approx(sorted(shuffled.gap.tolist()))
    assert straight.N.tolist() == shuffled.N.tolist()
    assert straight.D.tolist() == shuffled.D.tolist()


def test_some_of_the_pairs_keep_their_clusters_apart() -> None:
    points = make_points(
        np.repeat([1e7, 2e7, 4e7], 2),
        [1e9] * 6,
        [3.0, 3.1, 2.9, 3.05, 2.8, 2.9],
        arms=["bf16", "fp4"] * 3,
    )
    chosen = differences(points, "fp4").chosen(np.array([True, False, True]))
    assert chosen.gap.tolist() == pytest.approx([0.1, 0.1])
    assert chosen.cluster.tolist() == [0, 1]
    assert chosen.origin.tolist() == [0, 2]
