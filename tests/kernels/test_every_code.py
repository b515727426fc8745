"""Every code, every tie and every BF16 number of every grid, against independent libraries."""

from collections.abc import Callable

import gfloat
import ml_dtypes
import numpy as np
import pytest
import torch
from gfloat.formats import (
    format_info_bfloat16,
    format_info_binary16,
    format_info_ocp_e2m1,
    format_info_ocp_e2m3,
    format_info_ocp_e3m2,
    format_info_ocp_e4m3,
    format_info_ocp_e5m2,
)
from numpy.typing import NDArray

from kernels.blocks import TENSOR
from kernels.formats import GRIDS, Grid, minifloat
from kernels.operands import Operand, Rounding, Scale
from kernels.reference import FakeQuantized
from kernels.rounding import round_nearest_

FP32 = NDArray[np.float32]
FakeQuantize = Callable[..., FakeQuantized]

EVERY = {
    **GRIDS,
    # Adding a grid is one line: the same checks then hold for it.
    "user": Grid("user", (0.0, 0.1, 0.3, 1.0, 2.5, 2.7)),
    "e4m1": minifloat("e4m1", 4, 1),
}
GRID = pytest.mark.parametrize("grid", EVERY.values(), ids=EVERY)

TIES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "e2m1": ((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5), (0, 1, 1, 2, 2, 4, 4)),
    "int4": ((0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5), (0, 2, 2, 4, 4, 6, 6)),
    "e3m0": ((0.125, 0.375, 0.75, 1.5, 3, 6, 12), (0, 0.5, 0.5, 2, 2, 8, 8)),
}
"""Half-way points, and what they round to."""


def magnitudes(grid: Grid) -> FP32:
    return np.array(grid.magnitudes, np.float32)


def rounded(quantize: FakeQuantize, grid: Grid, x: FP32, operand: Operand | None = None) -> FP32:
    """Numbers up to the grid's maximum, rounded under a block scale of exactly 1."""
    operand = Operand(grid=grid) if operand is None else operand
    maximum = magnitudes(grid)[-1]
    lanes = np.concatenate([x, np.zeros(-len(x) % 15, np.float32)]).reshape(-1, 15)
    blocks = np.concatenate([np.full((len(lanes), 1), maximum), lanes], axis=1)
    values = quantize(torch.from_numpy(blocks), operand, key=11).values.numpy()
    assert (values[:, 0] == maximum).all()
    return values[:, 1:].ravel()[: len(x)]


def clipped(quantize: FakeQuantize, grid: Grid, x: FP32) -> FP32:
    """Numbers of the maximum's binade, under a power of two for all of them that is exactly 1."""
    operand = Operand(grid=grid, scale=Scale.E8M0_FLOOR, block=TENSOR)
    lanes = np.concatenate([x, np.zeros(-len(x) % 16, np.float32)])
    lanes = np.append(lanes, [2.0**grid.exponent] * 16).astype(np.float32)
    found = quantize(torch.from_numpy(lanes.reshape(-1, 16)), operand, key=0)
    return found.values.numpy().ravel()[: len(x)]


def assert_same_bits(found: FP32, expected: FP32, x: FP32) -> None:
    wrong = np.flatnonzero(found.view(np.int32) != expected.astype(np.float32).view(np.int32))
    assert not len(wrong), [(x[i], found[i], expected[i]) for i in wrong[:4]]


def both_signs(x: FP32) -> FP32:
    return np.concatenate([x, -x])


def every_bf16(least: float, most: float) -> FP32:
    """All BF16 numbers whose magnitude is from `least` to `most`, zeros of both signs included."""
    x = (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)
    return x[(np.abs(x) >= least) & (np.abs(x) <= most)]


@pytest.mark.parametrize("rounding", [Rounding.RTNE, Rounding.SR])
@GRID
def test_every_code_comes_back_as_itself(
    grid: Grid, rounding: Rounding, quantize: FakeQuantize
) -> None:
    x = both_signs(magnitudes(grid))
    for bits in (8, 24):
        operand = Operand(grid=grid, rounding=rounding, random_bits=bits)
        assert_same_bits(rounded(quantize, grid, x, operand), x, x)


@GRID
def test_every_tie_goes_to_the_even_code_and_its_neighbours_to_the_nearest(
    grid: Grid, quantize: FakeQuantize
) -> None:
    lo, hi = magnitudes(grid)[:-1], magnitudes(grid)[1:]
    half_way = (lo.astype(np.float64) + hi.astype(np.float64)) / 2
    even = np.where(np.arange(len(lo)) % 2 == 0, lo, hi)
    at = half_way.astype(np.float32)
    for x in (at, np.nextafter(at, np.float32(0)), np.nextafter(at, np.float32(np.inf))):
        expected = np.where(x < half_way, lo, np.where(x > half_way, hi, even))
        x, expected = both_signs(x), both_signs(expected)
        assert_same_bits(rounded(quantize, grid, x), expected, x)


@pytest.mark.parametrize("name", TIES)
def test_the_ties_are_those_of_the_published_table(name: str, quantize: FakeQuantize) -> None:
    x, expected = (both_signs(np.array(side, np.float32)) for side in TIES[name])
    assert_same_bits(rounded(quantize, GRIDS[name], x), expected, x)


def as_minifloat(exponent_bits: int, mantissa_bits: int) -> gfloat.FormatInfo:
    """A small float without NaN and Inf, whose bias is that of `kernels.formats.minifloat`."""
    return gfloat.FormatInfo(
        f"e{exponent_bits}m{mantissa_bits}",
        1 + exponent_bits + mantissa_bits,
        mantissa_bits + 1,
        bias=max(1, 2 ** (exponent_bits - 1) - 1),
        is_signed=True,
        domain=gfloat.Domain.Finite,
        has_nz=True,
        num_high_nans=0,
        has_subnormals=True,
        is_twos_complement=False,
    )


def by_ml_dtypes(dtype: type, most: float) -> Callable[[FP32], FP32]:
    """Its cast, of numbers that are clipped first: beyond the maximum its types disagree."""
    return lambda x: np.clip(x, -most, most).astype(dtype).astype(np.float32)


def by_gfloat(info: gfloat.FormatInfo, step: float = 1) -> Callable[[FP32], FP32]:
    """Its rounding of x / step, times the step, a power of two."""

    def rounded_by_gfloat(x: FP32) -> FP32:
        exact: FP32 = gfloat.round_ndarray(info, x.astype(np.float64) / step, sat=True)
        return (exact * step).astype(np.float32)

    return rounded_by_gfloat


def by_rint(levels: int) -> Callable[[FP32], FP32]:
    return lambda x: np.clip(np.rint(x), -levels, levels)


E2M1 = ml_dtypes.float4_e2m1fn
LIBRARIES: dict[str, tuple[Callable[[FP32], FP32], ...]] = {
    "e2m1": (by_ml_dtypes(E2M1, 6), by_gfloat(format_info_ocp_e2m1)),
    "e2m1-max2": (by_ml_dtypes(E2M1, 2),),
    "e2m1-max3": (by_ml_dtypes(E2M1, 3),),
    "e2m1-max4": (by_ml_dtypes(E2M1, 4),),
    # Quarters up to 1.75 are 0 to 7 once a block scale is free.
    "e1m2": (by_gfloat(as_minifloat(1, 2), 4), by_rint(7)),
    "int4": (by_gfloat(as_minifloat(1, 2), 4), by_rint(7)),
    "int8": (by_rint(127),),
    "e3m0": (by_gfloat(as_minifloat(3, 0)),),
    "e2m3": (by_ml_dtypes(ml_dtypes.float6_e2m3fn, 7.5), by_gfloat(format_info_ocp_e2m3)),
    "e3m2": (by_ml_dtypes(ml_dtypes.float6_e3m2fn, 28), by_gfloat(format_info_ocp_e3m2)),
    "e4m3": (by_ml_dtypes(ml_dtypes.float8_e4m3fn, 448), by_gfloat(format_info_ocp_e4m3)),
    "e5m2": (by_ml_dtypes(ml_dtypes.float8_e5m2, 57344), by_gfloat(format_info_ocp_e5m2)),
    "fp16": (by_ml_dtypes(np.float16, 65504), by_gfloat(format_info_binary16)),
    "bf16": (
        by_ml_dtypes(ml_dtypes.bfloat16, GRIDS["bf16"].maximum),
        by_gfloat(format_info_bfloat16),
    ),
    "e4m1": (by_gfloat(as_minifloat(4, 1)),),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_bf16_number_up_to_the_maximum_is_what_libraries_make_of_it(
    name: str, quantize: FakeQuantize
) -> None:
    grid = EVERY[name]
    x = every_bf16(0, grid.maximum)
    found = rounded(quantize, grid, x)
    for library in LIBRARIES[name]:
        assert_same_bits(found, library(x), x)


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "bf16"])
def test_every_bf16_number_just_beyond_is_clipped(name: str, quantize: FakeQuantize) -> None:
    grid = EVERY[name]
    x = every_bf16(grid.maximum, np.nextafter(np.float32(2.0 ** (grid.exponent + 1)), 0))
    assert_same_bits(clipped(quantize, grid, x), np.copysign(magnitudes(grid)[-1], x), x)


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_rounding_of_all_bf16_numbers_without_a_scale_is_that_of_libraries(name: str) -> None:
    grid = EVERY[name]
    x = every_bf16(0, np.inf)
    assert len(x) == 2**16 - 2 * 127
    q = torch.from_numpy(x.copy())
    found = round_nearest_(q, torch.empty_like(q), grid).numpy()
    finite = np.clip(x, -np.finfo(np.float32).max, np.finfo(np.float32).max)
    for library in LIBRARIES[name]:
        assert np.array_equal(found, library(finite))
    assert (np.abs(found[np.isinf(x)]) == grid.maximum).all()
