"""Shrinkage bias: the closed form against an integral, measured bins against published ones."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from kernels.bias import GridBias, bin_bias
from kernels.formats import E2M1, GRIDS, INT4, Grid
from kernels.surveys import grid_bias

SAMPLES = 1 << 20


def test_e2m1_shrinks_what_it_rounds_to_2_and_to_4() -> None:
    assert bin_bias(E2M1) == (None, 0, 0, 0, -0.125, 0, -0.25, None)


@pytest.mark.parametrize("name", ["int4", "int8", "e1m2"])
def test_uniform_grids_have_no_bias_inside(name: str) -> None:
    bias = bin_bias(GRIDS[name])
    assert set(bias[1:-1]) == {0.0}
    assert (bias[0], bias[-1]) == (None, None)


def test_a_grid_of_powers_of_two_shrinks_everywhere() -> None:
    assert bin_bias(GRIDS["e3m0"]) == (None, 0, -0.0625, -0.125, -0.25, -0.5, -1, None)


@given(st.lists(st.integers(1, 500), min_size=2, max_size=12, unique=True))
def test_the_closed_form_is_the_mean_error_of_a_constant_density(magnitudes: list[int]) -> None:
    q = [Fraction(magnitude) for magnitude in (0, *sorted(magnitudes))]
    bias = bin_bias(Grid("own", tuple(map(float, q))))
    for code in range(1, len(q) - 1):
        low, high = (q[code - 1] + q[code]) / 2, (q[code] + q[code + 1]) / 2
        # The integral of q - t over the bin, by its width.
        moved = (q[code] * (high - low) - (high**2 - low**2) / 2) / (high - low)
        assert bias[code] == float(moved)


@pytest.fixture(scope="module")
def e2m1() -> GridBias:
    return grid_bias(E2M1, SAMPLES)


def test_measured_bins_of_e2m1_are_the_published_ones(e2m1: GridBias) -> None:
    published = {
        0: (0.068, -0.125), 0.5: (0.134, 0.001), 1: (0.127, 0.003), 1.5: (0.117, 0.004),
        2: (0.152, -0.112), 3: (0.153, 0.030), 4: (0.138, -0.165), 6: (0.112, 0.238),
    }  # fmt: skip
    for level in e2m1.levels:
        occupancy, error = published[level.magnitude]
        assert level.occupancy == pytest.approx(occupancy, abs=1e-3)
        assert level.error == pytest.approx(error, abs=3e-3)


def test_shares_add_up_and_the_density_moves_the_bins_near_their_closed_form(
    e2m1: GridBias,
) -> None:
    assert sum(level.occupancy for level in e2m1.levels) == pytest.approx(1)
    for level in e2m1.levels[1:-1]:
        assert level.error == pytest.approx(level.bias, abs=0.1)


def test_the_zero_bin_of_the_uniform_grid_is_the_published_one() -> None:
    zero = grid_bias(INT4, SAMPLES).levels[0]
    assert zero.occupancy == pytest.approx(0.116, abs=1e-3)
    assert zero.error == pytest.approx(-0.249, abs=3e-3)


def test_a_level_that_nothing_falls_into_has_no_error() -> None:
    far = grid_bias(Grid("own", (0.0, 1e-6, 1.0, 1e9)), 1 << 16)
    assert far.levels[1].occupancy == 0
    assert far.levels[1].error is None
