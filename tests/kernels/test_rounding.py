"""Rounding onto grids: every code, every tie, one unit either side, and two other libraries."""

from bisect import bisect
from fractions import Fraction
from itertools import pairwise
from math import inf

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid, minifloat, uniform
from kernels.rounding import (
    Floating,
    Table,
    Uniform,
    round_nearest_,
    round_stochastic_,
    rule_of,
    table_of,
)

IRREGULAR = Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0))
ALL = {
    **GRIDS,
    "irregular": IRREGULAR,
    "e3m0": minifloat("e3m0", 3, 0),
    "e5m2": minifloat("e5m2", 5, 2, reserved_codes=4),
    "quarters": Grid("quarters", (0.0, 0.25, 0.5, 0.75)),
    "e2m1 to 3": Grid("e2m1 to 3", (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)),
    "one step": Grid("one step", (0.0, 1.0)),
    "int8": uniform("int8", 127),
}
grids = pytest.mark.parametrize("grid", ALL.values(), ids=ALL)


def nearest(q: Tensor, grid: Grid) -> Tensor:
    return round_nearest_(q.clone(), torch.empty_like(q), grid)


def stochastic(size: Tensor, u: Tensor, grid: Grid) -> Tensor:
    return round_stochastic_(size.clone(), u, torch.empty_like(size), grid)


def values_of(grid: Grid) -> list[float]:
    return [float(np.float32(value)) for value in grid.magnitudes]


def nearest_by_fractions(q: float, grid: Grid) -> float:
    values = values_of(grid)
    above = min(bisect(values, abs(q)), len(values) - 1)

    def distance(code: int) -> tuple[Fraction, int]:
        return abs(abs(Fraction(q)) - Fraction(values[code])), code % 2

    return values[min((above - 1, above), key=distance)] * (1 if q >= 0 else -1)


def interesting_points(grid: Grid) -> list[float]:
    """Codes, midpoints and quarter points, each with both FP32 neighbours, within the grid."""
    values = np.array(values_of(grid), dtype=np.float64)
    between = np.concatenate([values[:-1] + np.diff(values) * part for part in (0.25, 0.5, 0.75)])
    points = np.concatenate([values, between]).astype(np.float32)
    around = np.concatenate(
        [points, np.nextafter(points, np.float32(inf)), np.nextafter(points, np.float32(-inf))]
    )
    # One ulp above the maximum is the furthest that an absmax scale can bring an element.
    return [float(x) for x in np.unique(around) if x >= 0]


@grids
def test_codes_ties_and_their_neighbours_round_as_by_exact_fractions(grid: Grid) -> None:
    points = interesting_points(grid)
    signed = torch.tensor(points + [-point for point in points])
    expected = [nearest_by_fractions(q, grid) for q in signed.tolist()]
    assert nearest(signed, grid).tolist() == expected


@pytest.mark.parametrize(
    ("grid", "ties", "results"),
    [
        (E2M1, [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], [0, 1, 1, 2, 2, 4, 4]),
        (INT4, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5], [0, 2, 2, 4, 4, 6, 6]),
        (ALL["e3m0"], [0.125, 0.375, 0.75, 1.5, 3, 6, 12], [0, 0.5, 0.5, 2, 2, 8, 8]),
    ],
    ids=["e2m1", "int4", "e3m0"],
)
def test_published_ties_go_to_the_even_code(
    grid: Grid, ties: list[float], results: list[float]
) -> None:
    assert nearest(torch.tensor(ties), grid).tolist() == results


@grids
def test_every_code_is_kept_by_both_roundings(grid: Grid) -> None:
    codes = torch.tensor(values_of(grid))
    assert torch.equal(nearest(codes, grid), codes)
    for byte in (0, 128, 255):
        u = torch.full_like(codes, (byte + 0.5) / 256)
        assert torch.equal(stochastic(codes, u, grid), codes)


@grids
def test_the_arithmetic_rule_gives_the_bits_of_the_table(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    size = torch.rand(1 << 14, generator=generator) * grid.maximum
    size = torch.cat((size, size * 2.0**-7, torch.tensor(interesting_points(grid))))
    u = (torch.randint(0, 256, size.shape, generator=generator) + 0.5) / 256
    signed = torch.where(u < 0.5, size, -size)
    by_rule = nearest(signed, grid), stochastic(size, u, grid)
    monkeypatch.setattr("kernels.rounding.rule_of", table_of)
    by_table = nearest(signed, grid), stochastic(size, u, grid)
    for rule, table in zip(by_rule, by_table, strict=True):
        assert torch.equal(rule.view(torch.int32), table.view(torch.int32))


def test_rules_are_found_in_the_magnitudes() -> None:
    assert rule_of(INT4) == Uniform(step=1.0)
    assert rule_of(ALL["quarters"]) == Uniform(step=0.25)
    assert rule_of(E2M1) == Floating(least_exponent=0, mantissa_bits=1)
    assert rule_of(ALL["e2m1 to 3"]) == Floating(least_exponent=0, mantissa_bits=1)
    assert rule_of(E4M3) == Floating(least_exponent=-6, mantissa_bits=3)
    assert isinstance(rule_of(ALL["e3m0"]), Table)
    assert isinstance(rule_of(IRREGULAR), Table)


@pytest.mark.parametrize(
    ("grid", "dtype", "info"),
    [
        (E2M1, ml_dtypes.float4_e2m1fn, gfloat.formats.format_info_ocp_e2m1),
        (E4M3, ml_dtypes.float8_e4m3fn, gfloat.formats.format_info_ocp_e4m3),
    ],
    ids=["e2m1", "e4m3"],
)
def test_all_bf16_values_agree_with_two_other_libraries(
    grid: Grid, dtype: type, info: gfloat.FormatInfo
) -> None:
    patterns = torch.arange(1 << 16, dtype=torch.int32) << 16
    x = patterns.view(torch.float32)
    x = x[x.abs() <= grid.maximum]
    ours = nearest(x, grid).numpy()
    assert np.array_equal(ours, x.numpy().astype(dtype).astype(np.float32))
    other = gfloat.round_ndarray(
        info, x.numpy().astype(np.float64), gfloat.RoundMode.TiesToEven, sat=True
    )
    assert np.array_equal(ours, other)
    # The sign of a zero result is that of the element.
    assert np.array_equal(np.signbit(ours), np.signbit(x.numpy()))


@grids
def test_rounding_up_is_exactly_the_comparison_with_the_draw(grid: Grid) -> None:
    values = np.array(values_of(grid), dtype=np.float32)
    draws = (np.arange(256, dtype=np.float32) + np.float32(0.5)) / np.float32(256)
    for low, high in pairwise(values):
        bound = low + (high - low) * draws
        for q in (bound, np.nextafter(bound, np.float32(inf)), np.nextafter(bound, low)):
            expected = np.where(q - low >= (high - low) * draws, high, low)
            rounded = stochastic(torch.from_numpy(q), torch.from_numpy(draws), grid)
            assert np.array_equal(rounded.numpy(), expected)


def test_a_draw_just_above_a_small_element_keeps_it_down() -> None:
    # 1 - u + q would round to 1 here.
    q = torch.nextafter(torch.tensor([0.251953125]), torch.tensor([0.0]))
    u = torch.tensor([0.251953125])
    assert stochastic(q, u, INT4).item() == 0
    assert stochastic(u, u, INT4).item() == 1


def test_nothing_exceeds_the_maximum_one_ulp_above_it() -> None:
    for grid in ALL.values():
        top = torch.nextafter(torch.tensor([grid.maximum]), torch.tensor([inf]))
        maximum = float(np.float32(grid.maximum))
        assert nearest(top, grid).item() == maximum
        for byte in (0, 255):
            assert stochastic(top, torch.tensor([(byte + 0.5) / 256]), grid).item() == maximum


@grids
def test_the_bias_of_a_bin_is_half_the_difference_of_its_sides(grid: Grid) -> None:
    values = np.array(values_of(grid), dtype=np.float64)
    for low, middle, high in zip(values, values[1:], values[2:], strict=False):
        start, stop = (low + middle) / 2, (middle + high) / 2
        t = np.linspace(start, stop, 4001)[:-1] + (stop - start) / 8000
        error = nearest(torch.from_numpy(t.astype(np.float32)), grid).numpy() - t
        closed_form = (2 * middle - low - high) / 4
        assert error.mean() == pytest.approx(closed_form, abs=1e-3 * (stop - start))
