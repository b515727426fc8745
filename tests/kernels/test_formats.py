"""Grids: their magnitudes against two libraries, their properties, and what is refused."""

from fractions import Fraction
from math import inf, nan

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest

from kernels.formats import (
    E2M1,
    E4M3,
    E5M2,
    GRIDS,
    INT4,
    INT8,
    Grid,
    minifloat,
    restricted,
    uniform,
)


@pytest.mark.parametrize(
    ("name", "magnitudes"),
    [
        ("e2m1", (0, 0.5, 1, 1.5, 2, 3, 4, 6)),
        ("int4", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("e1m2", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("e3m0", (0, 0.25, 0.5, 1, 2, 4, 8, 16)),
        ("e2m1-max2", (0, 0.5, 1, 1.5, 2)),
        ("e2m1-max3", (0, 0.5, 1, 1.5, 2, 3)),
        ("e2m1-max4", (0, 0.5, 1, 1.5, 2, 3, 4)),
        ("int8", tuple(range(128))),
    ],
)
def test_small_grids_are_as_published(name: str, magnitudes: tuple[float, ...]) -> None:
    assert GRIDS[name].magnitudes == magnitudes


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("e2m1", ml_dtypes.float4_e2m1fn),
        ("e2m3", ml_dtypes.float6_e2m3fn),
        ("e3m2", ml_dtypes.float6_e3m2fn),
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("fp16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
    ],
)
def test_codes_are_those_of_ml_dtypes_and_numpy(name: str, dtype: type) -> None:
    magnitudes = np.array(GRIDS[name].magnitudes)
    codes = np.arange(len(magnitudes), dtype=f"u{np.dtype(dtype).itemsize}")
    assert np.array_equal(codes.view(dtype).astype(np.float64), magnitudes)
    # What is left out above it is Inf, NaN or, in types of six bits and less, a negative number.
    above = np.array([len(magnitudes)], dtype=codes.dtype).view(dtype).astype(np.float64)
    assert not above[0] > magnitudes[-1] or np.isinf(above[0])


@pytest.mark.parametrize(
    ("name", "info"),
    [
        ("e2m1", gfloat.formats.format_info_ocp_e2m1),
        ("e2m3", gfloat.formats.format_info_ocp_e2m3),
        ("e3m2", gfloat.formats.format_info_ocp_e3m2),
        ("e4m3", gfloat.formats.format_info_ocp_e4m3),
        ("e5m2", gfloat.formats.format_info_ocp_e5m2),
    ],
)
def test_codes_are_those_of_gfloat(name: str, info: gfloat.FormatInfo) -> None:
    grid = GRIDS[name]
    decoded = [gfloat.decode_float(info, code).fval for code in range(len(grid.magnitudes))]
    assert tuple(decoded) == grid.magnitudes
    assert grid.maximum == info.max


@pytest.mark.parametrize(
    ("grid", "exponent", "mantissa_bits"),
    [
        (E2M1, 2, 1),
        (INT4, 2, 1),
        (E4M3, 8, 3),
        (E5M2, 15, 2),
        (INT8, 6, 5),
        (GRIDS["e3m0"], 4, 0),
        (GRIDS["e2m3"], 2, 3),
        (GRIDS["e3m2"], 4, 2),
        (GRIDS["fp16"], 15, 10),
        (GRIDS["bf16"], 127, 7),
        (Grid("halves", (0.0, 0.25, 0.5, 0.75)), -1, 0),
        (Grid("three below", (0.0, 4.0, 5.0, 6.0, 9.0)), 3, 1),
        (Grid("nothing below", (0.0, 1.0, 100.0)), 6, 0),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_exponent_and_mantissa_bits_are_read_from_the_magnitudes(
    grid: Grid, exponent: int, mantissa_bits: int
) -> None:
    assert (grid.exponent, grid.mantissa_bits) == (exponent, mantissa_bits)
    assert 2.0**exponent <= grid.maximum < 2.0 ** (exponent + 1)


def test_every_grid_keeps_its_magnitudes_in_fp32() -> None:
    for grid in GRIDS.values():
        assert np.array_equal(np.array(grid.magnitudes, np.float32), grid.magnitudes)


@pytest.mark.parametrize("exponent_bits", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("mantissa_bits", [0, 1, 2, 3])
def test_a_minifloat_is_the_formula_of_its_docstring(
    exponent_bits: int, mantissa_bits: int
) -> None:
    if exponent_bits + mantissa_bits == 1:
        return
    bias = max(1, 2 ** (exponent_bits - 1) - 1)
    expected = []
    for field in range(2**exponent_bits):
        for mantissa in range(2**mantissa_bits):
            fraction = Fraction(mantissa, 2**mantissa_bits) + (field > 0)
            expected.append(fraction * Fraction(2) ** (max(field, 1) - bias))
    found = minifloat("any", exponent_bits, mantissa_bits).magnitudes
    assert [Fraction(value) for value in found] == expected


def test_reserved_codes_are_left_out_from_the_top() -> None:
    whole = minifloat("e4m3", 4, 3).magnitudes
    assert minifloat("e4m3", 4, 3, reserved_codes=1).magnitudes == whole[:-1]


def test_a_restricted_grid_is_named_for_its_maximum() -> None:
    assert restricted(E2M1, 3) == GRIDS["e2m1-max3"]
    assert restricted(E2M1, 3.5).magnitudes == GRIDS["e2m1-max3"].magnitudes
    assert restricted(INT8, 2.5).name == "int8-max2.5"


@pytest.mark.parametrize(
    "magnitudes",
    [(), (0.0,), (1.0, 2.0), (0.0, 2.0, 1.0), (0.0, 1.0, 1.0), (-1.0, 0.0, 1.0), (0.0, nan),
     (0.0, nan, 1.0)],
)  # fmt: skip
def test_what_does_not_ascend_from_zero_is_refused_and_shown(magnitudes: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"grid 'mine': magnitudes must") as error:
        Grid("mine", magnitudes)
    assert str(magnitudes) in str(error.value)


@pytest.mark.parametrize("magnitudes", [(0.0, 2.0**-150), (0.0, 3.4028235e38), (0.0, inf)])
def test_what_fp32_does_not_hold_is_refused(magnitudes: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must lie within FP32"):
        Grid("mine", magnitudes)


def test_a_long_refused_grid_is_not_printed_whole() -> None:
    with pytest.raises(ValueError, match="got 5001 of them"):
        Grid("mine", (*uniform("long", 4999).magnitudes, 2.0))


def test_equal_grids_have_equal_hashes_and_others_differ() -> None:
    assert hash(uniform("int4", 7)) == hash(INT4)
    assert uniform("int4", 7) == INT4
    assert len({*GRIDS.values()}) == len(GRIDS) - 1  # e1m2 is int4
