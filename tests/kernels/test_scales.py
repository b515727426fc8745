"""Block scales against exact arithmetic, casts of ml_dtypes and TransformerEngine's chain."""

from dataclasses import replace
from math import frexp, inf, ldexp, nan

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.operands import Operand, Scale
from kernels.reference import fake_quantize
from kernels.scales import block_scales, nearest_e4m3, power_of_two, stochastic_e4m3, tensor_scale

LARGEST = np.finfo(np.float32).max
SCALES_OF_POWERS = [scale for scale in Scale if scale.is_power_of_two]
SMALL = Grid("small", (0.0, 0.25, 0.75))
TINY = Grid("tiny", (0.0, 2.0**-32, 2.0**-30))
Floats = NDArray[np.float32]


def largest_magnitudes() -> Tensor:
    """Each binade of FP32 at its start, its end and where a rule changes, with both neighbours."""
    significands = [1, 1.25, 1.5, 1.75, 1.875, 1.9375, 2 - 2.0**-9, 7 / 4, 448 / 256, 127 / 64]
    points = [
        ldexp(significand, exponent)
        for significand in significands
        for exponent in range(-149, 128)
    ]
    around = np.array(points, dtype=np.float32)
    up, down = (np.nextafter(around, np.float32(end)) for end in (inf, 0))
    every = np.unique(np.concatenate([around, up, down, [np.float32(LARGEST)]]))
    return torch.from_numpy(every[np.isfinite(every)])


def exact_exponent(amax: float, grid: Grid, rule: Scale) -> int:
    """The k of the contract's table, in binary64, where all of it is exact."""
    if amax == 0:
        return -127
    if rule is Scale.E8M0_RCEIL:
        with np.errstate(over="ignore"):
            quotient = float(np.float32(amax) / np.float32(grid.maximum))
        if quotient in (0, inf):
            return -127 if quotient == 0 else 127
        significand, exponent = frexp(quotient)
        return max(-127, min(127, exponent - (significand == 0.5)))
    significand, exponent = frexp(amax)
    f, e = 2 * significand, exponent - 1
    up = {
        Scale.E8M0_FLOOR: False,
        Scale.E8M0_CEIL: f > 1,
        Scale.E8M0_EVEN: f >= 2 - 2.0 ** -(grid.mantissa_bits + 1),
    }
    return max(-127, min(127, e - grid.exponent + up[rule]))


@pytest.mark.parametrize("rule", SCALES_OF_POWERS)
@pytest.mark.parametrize("grid", [E2M1, INT4, E4M3, GRIDS["e3m0"], GRIDS["int8"], SMALL, TINY],
                         ids=lambda grid: grid.name)  # fmt: skip
def test_e8m0_exponents_are_those_of_exact_arithmetic(rule: Scale, grid: Grid) -> None:
    amax = torch.cat((torch.zeros(1), largest_magnitudes()))
    stored = block_scales(amax, Operand(grid=grid, scale=rule)).stored
    expected = [2.0 ** exact_exponent(value, grid, rule) for value in amax.tolist()]
    assert stored.tolist() == expected


def test_rules_of_e8m0_differ_where_they_are_published_to() -> None:
    amax = torch.tensor([4.0, 5.0, 6.0, 6.5, 7.0, 7.5, 8.0])
    published = {
        Scale.E8M0_FLOOR: [1, 1, 1, 1, 1, 1, 2],
        Scale.E8M0_CEIL: [1, 2, 2, 2, 2, 2, 2],
        Scale.E8M0_EVEN: [1, 1, 1, 1, 2, 2, 2],
        Scale.E8M0_RCEIL: [1, 1, 1, 2, 2, 2, 2],
    }
    for rule, expected in published.items():
        assert block_scales(amax, Operand(grid=E2M1, scale=rule)).stored.tolist() == expected


def test_every_power_of_two_of_e8m0_is_one_of_ml_dtypes() -> None:
    exponents = torch.arange(-127, 128, dtype=torch.int32)
    codes = np.arange(255, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    assert np.array_equal(power_of_two(exponents).numpy(), codes.astype(np.float32))


def test_a_scale_of_five_bits_is_the_least_that_is_not_smaller() -> None:
    amax = largest_magnitudes()
    plain = block_scales(amax, Operand(grid=INT4)).stored
    amax, plain = amax[plain >= 2.0**-126], plain[plain >= 2.0**-126]
    stored = block_scales(amax, Operand(grid=INT4, scale=Scale.FP32_5BIT)).stored
    significand, exponent = np.frexp(plain.double().numpy())
    expected = np.ldexp(np.ceil(significand * 32) / 32, exponent)
    assert np.array_equal(stored.double().numpy(), expected)


def test_a_scale_of_five_bits_that_overflows_spoils_its_block() -> None:
    operand = Operand(grid=Grid("one", (0.0, 1.0)), scale=Scale.FP32_5BIT)
    x = torch.zeros(2, 16)
    x[0, 0], x[1, 0] = float(LARGEST), float(np.float32(31 / 32) * LARGEST)
    values = fake_quantize(x, operand, 0).values
    assert values[0].isnan().all()
    assert values[1].isfinite().all()


def te_chain(x: Floats, maximum: float = 448) -> tuple[Floats, np.float32]:
    """TransformerEngine's NVFP4, one numpy operation a line: values and what multiplies them."""
    cast_scale, cast_element = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn
    blocks = x.reshape(-1, 16)
    with np.errstate(over="ignore", divide="ignore"):
        encode = np.minimum(np.float32(maximum * 6) / np.abs(x).max(), LARGEST)
        multiplier = encode * (np.float32(1) / np.float32(6))
        decode = np.abs(blocks).max(1) * multiplier
        stored = np.minimum(decode, np.float32(448)).astype(cast_scale).astype(np.float32)
        inverse = np.float32(1) / encode
        element = np.minimum(np.float32(1) / (stored * inverse), LARGEST)
        q = np.clip(blocks * element[:, None], np.float32(-6), np.float32(6))
        values = q.astype(cast_element).astype(np.float32) * stored[:, None]
    return values.reshape(x.shape), inverse


@pytest.mark.parametrize("maximum", [448.0, 256.0])
@pytest.mark.parametrize("size", [1e-41, 1e-38, 1e-9, 1.0, 3e4, 1e38])
def test_the_chain_of_nvfp4_is_transformerengines(maximum: float, size: float) -> None:
    generator = np.random.default_rng(1)
    spread = np.exp2(generator.integers(-24, 1, (64, 16)).repeat(16, 1))
    x = (generator.standard_normal((64, 256)).clip(-3, 3) * spread * size).astype(np.float32)
    operand = Operand(grid=E2M1, scale=Scale.E4M3, scale_maximum=maximum)
    values, factor = fake_quantize(torch.from_numpy(x), operand, 0)
    expected, inverse = te_chain(x, maximum)
    assert np.array_equal(values.numpy().view(np.int32), expected.view(np.int32))
    assert factor is not None
    assert factor.item() == inverse


def test_the_tensor_scale_is_one_for_zeros_and_finite_for_what_is_tiny() -> None:
    amax = torch.tensor([0.0, 2.0**-149, 1.0, inf, nan])
    zero, tiny, one, *bad = tensor_scale(amax, Operand(grid=E2M1, scale=Scale.E4M3)).tolist()
    assert (zero, tiny, one) == (1, LARGEST, 2688)
    assert np.isnan(bad).all()


def test_e4m3_scales_round_as_ml_dtypes_and_stop_at_448() -> None:
    x = torch.rand(1 << 16, generator=torch.Generator().manual_seed(2)) * 500
    x = torch.cat((x, x * 2.0**-14, torch.tensor([0.0, 448, 464, 1e9, inf])))
    expected = x.clamp(max=448).numpy().astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert np.array_equal(nearest_e4m3(x).numpy(), expected)
    assert nearest_e4m3(torch.tensor([nan])).isnan().all()


def test_e4m3_scales_rounded_stochastically_are_neighbours_and_unbiased() -> None:
    x = torch.full((1 << 16,), 17.25)
    draws = (torch.arange(1 << 16) + 0.5) / (1 << 16)
    rounded = stochastic_e4m3(x, draws)
    assert set(rounded.tolist()) == {16.0, 18.0}
    assert float(rounded.mean()) == 17.25
    assert stochastic_e4m3(torch.tensor([449.0, inf]), torch.tensor([0.1, 1.0])).tolist() == [
        448,
        448,
    ]


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("grid", [E2M1, INT4, E4M3], ids=lambda grid: grid.name)
def test_a_scaled_element_lies_within_the_operands_reach_and_comes_near_it(
    scale: Scale, grid: Grid
) -> None:
    amax = torch.linspace(4, 64, 40001)
    operand = Operand(grid=grid, scale=scale)
    # A tensor scale that keeps E4M3 scales normal, where their relative error is bounded.
    above = torch.tensor(grid.maximum) if scale is Scale.E4M3 else None
    q = block_scales(amax, operand, above).scaled(amax)
    assert float(q.max()) / grid.maximum <= operand.reach * (1 + 2e-7)
    if scale is not Scale.E8M0_CEIL:  # which stops at the power of two below the maximum
        assert float(q.max()) / grid.maximum == pytest.approx(operand.reach, rel=1e-3)


@pytest.mark.parametrize("scale", Scale)
def test_headroom_as_large_as_the_reach_leaves_nothing_to_clip(scale: Scale) -> None:
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(1))
    operand = Operand(grid=E2M1, scale=scale)
    roomy = replace(operand, headroom=operand.reach)
    assert roomy.reach == 1
    values, factor = fake_quantize(x, roomy, 0)
    amax = x.abs().view(-1, 16).amax(1)
    above = tensor_scale(x.abs().amax(), roomy) if scale is Scale.E4M3 else None
    assert float(block_scales(amax, roomy, above).scaled(amax).max()) <= 6 * (1 + 2e-7)
    if scale.is_power_of_two:
        assert (None if factor is None else factor.item()) == (
            None if roomy.headroom == 1 else np.float32(roomy.headroom)
        )
    error = fake_quantize(x, roomy, 0).dequantized() - x
    step = 2 * amax / 6 * roomy.headroom * (2 if scale.is_power_of_two else 1.07)
    assert (error.abs().view(-1, 16) <= step[:, None]).all()
    assert values.isfinite().all()


def test_the_headroom_of_powers_of_two_is_left_to_the_product() -> None:
    # 5 under headroom 4/3 is 3.75 of the grid, which rounds to 4; the factor makes it 5.33.
    x = torch.zeros(1, 16)
    x[0, :2] = torch.tensor([5.0, -2.0])
    operand = Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, headroom=4 / 3)
    values, factor = fake_quantize(x, operand, 0)
    assert values[0, :2].tolist() == [4, -1.5]
    assert factor is not None
    assert factor.item() == np.float32(4 / 3)


@pytest.mark.parametrize(
    ("grid", "scale", "outer", "exact"),
    [
        (E2M1, Scale.E4M3, None, True),
        (INT4, Scale.E4M3, None, True),
        (E4M3, Scale.E4M3, None, True),
        (E4M3, Scale.E8M0_FLOOR, None, True),
        (GRIDS["fp16"], Scale.E8M0_FLOOR, None, False),
        (E2M1, Scale.FP32_5BIT, None, True),
        (INT4, Scale.FP32_5BIT, None, True),
        (E4M3, Scale.FP32_5BIT, None, False),
        (E2M1, Scale.FP32, None, False),
        (E2M1, Scale.E4M3, 32, False),
    ],
)
def test_operands_are_bf16_numbers_where_the_contract_says_so(
    grid: Grid, scale: Scale, outer: int | None, exact: bool
) -> None:
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(3))
    values = fake_quantize(x, Operand(grid=grid, scale=scale, outer=outer), 0).values
    assert torch.equal(values, values.to(torch.bfloat16).float()) is exact
