"""Published laws of a gap: their check values, and what they say nothing of."""

import numpy as np
import pytest

from kernels.blocks import ROW
from kernels.formats import E2M1, GRIDS, INT4, Grid, minifloat, uniform
from kernels.presets import PRESETS, compose
from sweeps.laws.published import bytedance, kumar, tencent, unified
from sweeps.laws.published.operands import bits, gaussian_mse, split

N, D = np.array([3e7, 1e8]), np.array([3e9, 1e10])


@pytest.mark.parametrize(
    ("grid", "block", "sqnr"),
    [
        ("e2m1", 16, 20.53),
        ("e2m1", 32, 19.90),
        ("int4", 16, 21.39),
        ("int4", 32, 20.26),
        ("e3m0", 16, 15.49),
    ],
)
def test_the_error_on_a_gaussian_is_the_simulated_one(grid: str, block: int, sqnr: float) -> None:
    assert -10 * np.log10(gaussian_mse(GRIDS[grid], block)) == pytest.approx(sqnr, abs=0.05)


@pytest.mark.parametrize("grid", [INT4, E2M1, uniform("u", 3)], ids=lambda grid: grid.name)
@pytest.mark.parametrize("block", [2, 16, 256])
def test_the_error_of_a_block_is_that_of_drawn_blocks(grid: Grid, block: int) -> None:
    x = np.random.default_rng(0).standard_normal((2_000_000 // block, block))
    scale = np.abs(x).max(axis=1, keepdims=True) / grid.maximum
    levels = np.array(grid.magnitudes)
    nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, np.abs(x) / scale)
    drawn = np.mean((levels[nearest] * scale - np.abs(x)) ** 2)
    assert gaussian_mse(grid, block) == pytest.approx(drawn, rel=1e-2)


@pytest.mark.parametrize("exponent", [2, 3, 4, 5])
@pytest.mark.parametrize("mantissa", [0, 1, 2, 3])
def test_a_small_float_is_split_as_it_was_made(exponent: int, mantissa: int) -> None:
    grid = minifloat("m", exponent, mantissa)
    assert split(grid) == (exponent, mantissa)
    assert bits(grid) == 1 + exponent + mantissa


@pytest.mark.parametrize(
    ("grid", "expected"),
    [(INT4, (1, 2)), (GRIDS["int8"], (1, 6)), (GRIDS["e4m3"], (4, 3)), (GRIDS["e5m2"], (5, 2))],
)
def test_integers_and_reserved_codes_are_split_by_what_is_left(
    grid: Grid, expected: tuple[int, int]
) -> None:
    assert split(grid) == expected


def test_kumars_factors_are_those_that_the_constants_give() -> None:
    assert kumar.WEIGHTS.kept(4) == pytest.approx(0.70, abs=0.005)
    assert kumar.ACTIVATIONS.kept(4) == pytest.approx(0.33, abs=0.005)
    assert kumar.ACTIVATIONS.kept(8) == pytest.approx(0.89, abs=0.005)
    assert kumar.effective_share(PRESETS["ufp4"]) == pytest.approx(0.23, abs=0.005)


def test_kumars_gap_is_a_difference_of_two_chinchilla_losses() -> None:
    recipe = PRESETS["ufp4"]
    f = kumar.effective_share(recipe)
    f16 = kumar.effective_share(PRESETS["bf16"])
    lost = [4299 * (share * N) ** -0.4965 for share in (f, f16)]
    found = kumar.gap(recipe, N, D)
    assert found == pytest.approx(lost[0] - lost[1])


def test_tencent_sees_the_uniform_grid_13_percent_behind_e2m1() -> None:
    assert tencent.scale(1, 2, 16) / tencent.scale(2, 1, 16) == pytest.approx(1.13, abs=0.002)
    uniform_gap = tencent.gap(PRESETS["ufp4"], N, D)
    e2m1_gap = tencent.gap(PRESETS["e2m1-ref"], N, D)
    assert not isinstance(uniform_gap, str)
    assert not isinstance(e2m1_gap, str)
    assert uniform_gap / e2m1_gap == pytest.approx([1.129, 1.129], abs=0.002)
    expected = D**0.5162 / N**0.2368 * 4 / (11334.5197 * 2.5**3.1926 * 1.5**2.9543)
    assert e2m1_gap == pytest.approx(expected)


def test_the_unified_law_orders_grids_by_their_error_and_ignores_rotations() -> None:
    order = ["e2m1-max2", "e2m1-max3", "e2m1-max4", "e2m1-ref", "ufp4"]
    found = [unified.capacity(PRESETS[name]) for name in order]
    assert found == sorted(found, key=float)
    assert unified.capacity(PRESETS["ufp4"]) == unified.capacity(PRESETS["ufp4-no-rht"])


def test_a_law_of_forward_operands_says_nothing_of_a_recipe_without_them() -> None:
    for law in (kumar.gap, tencent.gap):
        assert "forward operands" in str(law(PRESETS["bf16"], N, D))
    assert isinstance(unified.capacity(PRESETS["bf16"]), str)
    assert bytedance.silence(PRESETS["bf16"])
    assert bytedance.silence(PRESETS["mxfp8"])
    assert not bytedance.silence(PRESETS["nvfp4"])


def test_a_block_of_unknown_size_is_refused_by_the_laws_that_need_one() -> None:
    recipe = compose(E2M1, name="by-row", block=ROW)
    assert "block" in str(tencent.gap(recipe, N, D))
    assert "block" in str(unified.capacity(recipe))
    assert not isinstance(kumar.gap(recipe, N, D), str)
