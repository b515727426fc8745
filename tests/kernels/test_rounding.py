"""Rounding onto grids: every code, every tie, one unit either side, every draw."""

from fractions import Fraction
from itertools import pairwise
from math import frexp, inf, ldexp, nan

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.formats import E2M1, E4M3, E5M2, GRIDS, INT4, Grid
from kernels.rounding import (
    Floating,
    Table,
    Uniform,
    round_nearest_,
    round_significand,
    round_stochastic_,
    rule_of,
    table_of,
)
from tests.kernels.golden import oracle

IRREGULAR = Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0))
ALL = {
    **GRIDS,
    "irregular": IRREGULAR,
    "far apart": Grid("far apart", (0.0, 1e-40, 1e-12, 1.0, 1e30)),
    "quarters": Grid("quarters", (0.0, 0.25, 0.5, 0.75)),
    "one step": Grid("one step", (0.0, 1.0)),
}
grids = pytest.mark.parametrize("grid", ALL.values(), ids=ALL)


def nearest(q: Tensor, grid: Grid) -> Tensor:
    return round_nearest_(q.clone(), torch.empty_like(q), grid)


def stochastic(size: Tensor, u: Tensor, grid: Grid) -> Tensor:
    return round_stochastic_(size.clone(), u, torch.empty_like(size), grid)


def some_magnitudes(grid: Grid) -> NDArray[np.float32]:
    """The grid's magnitudes, or the ends and each 97th pair of a very fine one."""
    values = np.array(oracle.magnitudes(grid), dtype=np.float32)
    if len(values) < 1024:
        return values
    codes = np.arange(len(values))
    return values[(codes < 40) | (codes >= len(values) - 40) | (codes % 97 < 2)]


def interesting_points(grid: Grid) -> list[float]:
    """Magnitudes, midpoints and quarter points, each with both FP32 neighbours."""
    values = some_magnitudes(grid).astype(np.float64)
    between = np.concatenate([values[:-1] + np.diff(values) * part for part in (0.25, 0.5, 0.75)])
    points = np.concatenate([values, between]).astype(np.float32)
    around = np.concatenate(
        [points, np.nextafter(points, np.float32(inf)), np.nextafter(points, np.float32(-inf))]
    )
    return [float(x) for x in np.unique(around) if x >= 0]


@grids
def test_codes_ties_and_their_neighbours_round_as_by_exact_fractions(grid: Grid) -> None:
    points = torch.tensor(interesting_points(grid))
    codes = [oracle.nearest(grid, q) for q in points.tolist()]
    expected = torch.tensor(oracle.magnitudes(grid))[codes]
    assert torch.equal(nearest(points, grid), expected)
    assert torch.equal(nearest(-points, grid), -expected)


@grids
def test_every_code_is_kept_by_both_roundings(grid: Grid) -> None:
    codes = torch.tensor(oracle.magnitudes(grid))
    assert torch.equal(nearest(codes, grid), codes)
    for draw in (0.5**25, 0.5, 1.0):
        assert torch.equal(stochastic(codes, torch.full_like(codes, draw), grid), codes)


@grids
def test_the_arithmetic_rule_gives_the_bits_of_the_table(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(0)
    size = torch.rand(1 << 14, generator=generator) * grid.maximum
    size = torch.cat((size, size * 2.0**-7, torch.tensor(interesting_points(grid))))
    u = (torch.randint(0, 2**24, size.shape, generator=generator) + 0.5) / 2**24
    signed = torch.where(u < 0.5, size, -size)
    by_rule = nearest(signed, grid), stochastic(size, u, grid)
    monkeypatch.setattr("kernels.rounding.rule_of", table_of)
    by_table = nearest(signed, grid), stochastic(size, u, grid)
    for rule, table in zip(by_rule, by_table, strict=True):
        assert torch.equal(rule.view(torch.int32), table.view(torch.int32))


def test_rules_are_found_in_the_magnitudes() -> None:
    assert rule_of(INT4) == Uniform(step=1.0)
    assert rule_of(GRIDS["int8"]) == Uniform(step=1.0)
    assert rule_of(ALL["quarters"]) == Uniform(step=0.25)
    assert rule_of(E2M1) == Floating(least_exponent=0, mantissa_bits=1)
    assert rule_of(GRIDS["e2m1-max3"]) == Floating(least_exponent=0, mantissa_bits=1)
    assert rule_of(E4M3) == Floating(least_exponent=-6, mantissa_bits=3)
    assert rule_of(E5M2) == Floating(least_exponent=-14, mantissa_bits=2)
    assert rule_of(GRIDS["fp16"]) == Floating(least_exponent=-14, mantissa_bits=10)
    for name in ("e3m0", "bf16", "irregular", "far apart"):
        assert isinstance(rule_of(ALL[name]), Table)


@grids
@pytest.mark.parametrize("bits", [8, 16, 24])
def test_rounding_up_is_exactly_the_comparison_with_the_draw(grid: Grid, bits: int) -> None:
    generator = np.random.default_rng(bits)
    b = generator.integers(0, 2**bits, 64)
    b[:2] = 0, 2**bits - 1
    draws = ((b + 0.5) / 2**bits).astype(np.float32)
    values = np.array(oracle.magnitudes(grid), dtype=np.float32)
    for low, high in list(pairwise(values))[:: -(-len(values) // 200)]:
        bound = low + (high - low) * draws
        for near in (bound, np.nextafter(bound, np.float32(inf)), np.nextafter(bound, low)):
            q = np.clip(near, low, np.nextafter(high, low))
            expected = np.where((q - low) / (high - low) >= draws, high, low)
            rounded = stochastic(torch.from_numpy(q), torch.from_numpy(draws), grid)
            assert np.array_equal(rounded.numpy(), expected)


def test_a_draw_just_above_a_small_element_keeps_it_down() -> None:
    # 1 - u + q, and with 24 bits q - u too, would round onto the code above.
    for draw in (0.251953125, (2**23 + 1.5) / 2**24):
        u = torch.tensor([draw])
        q = torch.nextafter(u, torch.tensor([0.0]))
        assert stochastic(q, u, INT4).item() == 0
        assert stochastic(u, u, INT4).item() == 1


@grids
def test_what_lies_above_the_maximum_becomes_it(grid: Grid) -> None:
    maximum = oracle.magnitudes(grid)[-1]
    top = torch.tensor([maximum])
    above = torch.cat((torch.nextafter(top, torch.tensor(inf)), top * 3, torch.tensor([inf])))
    assert nearest(above, grid).tolist() == [maximum] * 3
    assert nearest(-above, grid).tolist() == [-maximum] * 3
    for draw in (0.5**25, 1.0):
        assert stochastic(above, torch.full((3,), draw), grid).tolist() == [maximum] * 3


@grids
def test_nan_becomes_nan_or_the_maximum_but_no_error(grid: Grid) -> None:
    maximum = oracle.magnitudes(grid)[-1]
    for result in (nearest(torch.tensor([nan]), grid),
                   stochastic(torch.tensor([nan]), torch.tensor([0.5]), grid)):  # fmt: skip
        assert result.isnan().item() or result.item() == maximum


@pytest.mark.parametrize("grid", [g for g in ALL.values() if len(g.magnitudes) < 1024],
                         ids=lambda grid: grid.name)  # fmt: skip
def test_the_bias_of_a_bin_is_half_the_difference_of_its_sides(grid: Grid) -> None:
    values = np.array(oracle.magnitudes(grid), dtype=np.float64)
    for low, middle, high in zip(values, values[1:], values[2:], strict=False):
        start, stop = (low + middle) / 2, (middle + high) / 2
        t = np.linspace(start, stop, 4001)[:-1] + (stop - start) / 8000
        error = nearest(torch.from_numpy(t.astype(np.float32)), grid).numpy() - t
        closed_form = (2 * middle - low - high) / 4
        assert error.mean() == pytest.approx(closed_form, abs=1e-3 * (stop - start))


def at_ties(dropped_bits: int, kept: list[int]) -> NDArray[np.float32]:
    """FP32 numbers of both signs and all exponents, those of Inf and NaN too.

    Of the significand, the high bits are `kept`, and the low ones lie at a tie, beside it and at
    both ends.
    """
    half, high = 1 << (dropped_bits - 1), np.array(kept, np.uint32) << dropped_bits
    low = np.array([0, 1, half - 1, half, half + 1, 2 * half - 1], np.uint32)
    exponents = np.arange(512, dtype=np.uint32) << 23  # the sign is the highest of nine bits
    bits = exponents[:, None, None] | high[:, None] | low
    return bits.ravel().view(np.float32)


def test_a_significand_of_8_bits_is_bf16_with_ties_subnormals_infinities_and_nan() -> None:
    x = at_ties(16, list(range(128)))
    found = round_significand(torch.from_numpy(x), 16).numpy()
    with np.errstate(invalid="ignore"):  # NaN that signal
        expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(expected))
    assert np.isinf(found[np.isfinite(x)]).any()


def test_a_significand_of_11_bits_is_tf32_with_ties_subnormals_infinities_and_nan() -> None:
    def exactly(value: float) -> float:
        unit = max(frexp(value)[1] - 11, -136)
        kept = round(Fraction(value) / Fraction(2) ** unit)  # a tie to the even integer
        return ldexp(kept, unit) if kept < 2 ** (128 - unit) else inf

    x = at_ties(13, [0, 1, 2, 3, 340, 341, 511, 512, 1021, 1022, 1023])
    found = round_significand(torch.from_numpy(x), 13).numpy()
    finite = np.isfinite(x)
    assert np.array_equal(found[~finite], x[~finite], equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(x))
    expected = [exactly(value) for value in np.abs(x[finite]).tolist()]
    assert np.array_equal(np.abs(found[finite]).astype(np.float64), expected)
    assert inf in expected


@pytest.mark.parametrize("dropped_bits", [0, 13, 16])
def test_a_shorter_significand_is_kept_as_it_is(dropped_bits: int) -> None:
    bits = torch.arange(-(2**31), 2**31, 1 << 16).to(torch.int32)
    x = bits.view(torch.float32)
    assert torch.equal(round_significand(x, dropped_bits).view(torch.int32), bits)


def test_nothing_is_dropped_of_numbers_of_24_bits() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(round_significand(x, 0), x)
