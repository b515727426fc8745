"""Fake quantization in plain torch, bit for bit what an oracle of scalars makes of the contract."""

from dataclasses import replace
from math import inf, nan

import pytest
import torch
from torch import Tensor

from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.hadamard import Rotation, random_signs, rotate
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Signs
from kernels.reference import fake_quantize
from tests.kernels.drawn_cases import scales_of
from tests.kernels.golden import oracle

KEY = 0x0123456789ABCDEF
IRREGULAR = Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0))
GRIDS_TRIED = {**GRIDS, "irregular": IRREGULAR}
RELATIVE = Operand(grid=E2M1, scale=Scale.E4M3)
SCALED = {
    f"{name}-{scale}": (grid, scale)
    for name, grid in GRIDS_TRIED.items()
    for scale in scales_of(grid)
}
scaled_grids = pytest.mark.parametrize(("grid", "scale"), SCALED.values(), ids=SCALED)


def rotation(size: int, *, to_bf16: bool = False) -> Rotation:
    signs = random_signs(
        Signs.LAYER, seed=3, layer="a", gemm="fprop", step=0, microbatch=0, size=size
    )
    return Rotation(signs, to_bf16)


def spread(rows: int, columns: int) -> Tensor:
    """Gaussians over six decades; zeros of both signs, an outlier and a tiny block among them."""
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    x *= torch.logspace(-3, 3, columns)
    x[0, ::7] *= 0.0
    x[1, :16] = 0
    x[1, 3] = -0.0
    x[2, 5] = 1e5
    x[-1, -16:] *= 1e-42
    return x


def check(x: Tensor, operand: Operand, turned: Rotation | None = None, axis: int = 1) -> Tensor:
    """Compares every bit of values and factor with the oracle's, and returns the values."""
    values, factor = fake_quantize(x, operand, KEY, rotation=turned, axis=axis)
    lines = x if axis == 1 else x.t()
    if turned is not None:
        filling = (0, -lines.shape[1] % len(turned.signs))
        lines = rotate(torch.nn.functional.pad(lines, filling), turned)
    expected = oracle.quantized(lines.tolist(), operand, KEY)
    lines = values if axis == 1 else values.t()
    assert values.is_contiguous()
    assert lines.shape == expected.values.shape
    assert torch.equal(
        lines.contiguous().view(torch.int32), torch.from_numpy(expected.values).view(torch.int32)
    )
    assert (None if factor is None else factor.item()) == expected.factor
    return values


@scaled_grids
def test_each_grid_under_each_scale(grid: Grid, scale: Scale) -> None:
    for rounding in (Rounding.RTNE, Rounding.SR):
        check(spread(3, 32), Operand(grid=grid, rounding=rounding, scale=scale))


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize(
    "block",
    [Block(along=48), Block(along=16, across=16), Block(along=32, across=3), ROW, TENSOR],
    ids=str,
)
@pytest.mark.parametrize("axis", [0, 1])
def test_each_block_under_each_scale_with_tails_on_both_axes(
    scale: Scale, block: Block, axis: int
) -> None:
    x = spread(20, 70) if axis == 1 else spread(20, 70).t()
    check(x, Operand(grid=E2M1, rounding=Rounding.SR, scale=scale, block=block), axis=axis)


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("to_bf16", [False, True])
def test_each_size_of_rht_smaller_and_larger_than_the_block(size: int, to_bf16: bool) -> None:
    for operand in (Operand(grid=INT4, rounding=Rounding.SR), RELATIVE):
        values = check(spread(3, 70), operand, rotation(size, to_bf16=to_bf16))
        assert values.shape[1] == -(-70 // size) * size


@pytest.mark.parametrize("exponent", [-140, -126, 90, 125])
@pytest.mark.parametrize("scale", Scale)
def test_magnitudes_near_both_ends_of_fp32(exponent: int, scale: Scale) -> None:
    x = torch.randn(2, 32, generator=torch.Generator().manual_seed(4)).clamp_(-4, 4)
    x = torch.ldexp(x, torch.tensor(exponent))
    for grid in (E2M1, E4M3, Grid("small", (0.0, 0.25, 0.75))):
        for rounding in (Rounding.RTNE, Rounding.SR):
            check(x, Operand(grid=grid, scale=scale, rounding=rounding, headroom=1.25))


@pytest.mark.parametrize("scale", [Scale.FP32, Scale.E4M3])
@pytest.mark.parametrize("name", ["int4", "e4m3", "e3m0", "fp16"])
def test_eden_on_further_grids(scale: Scale, name: str) -> None:
    operand = Operand(grid=GRIDS[name], scale=scale, rounding=Rounding.EDEN, headroom=17 / 16)
    check(spread(3, 70), operand)


@pytest.mark.parametrize(
    "operand",
    [
        Operand(grid=INT4, rounding=Rounding.SR),
        Operand(grid=INT4, rounding=Rounding.SR, block=Block(along=32, across=8)),
        replace(RELATIVE, outer=32, rounding=Rounding.SR),
        replace(RELATIVE, rounding=Rounding.EDEN, block=Block(along=32)),
        replace(RELATIVE, alternate=4.0),
    ],
    ids=["rows", "rectangles", "outer", "eden", "alternate"],
)
@pytest.mark.parametrize("axis", [0, 1])
def test_the_size_of_a_panel_does_not_show(
    operand: Operand, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(163, 115, generator=torch.Generator().manual_seed(0))
    whole = fake_quantize(x, operand, KEY, rotation=rotation(8), axis=axis)
    monkeypatch.setattr("kernels.reference._PANEL", 3000)
    monkeypatch.setattr("kernels.hadamard._PANEL", 3000)
    parts = fake_quantize(x, operand, KEY, rotation=rotation(8), axis=axis)
    assert torch.equal(parts.values, whole.values)


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("rounding", [Rounding.RTNE, Rounding.SR])
@pytest.mark.parametrize("bad", [inf, -inf, nan])
@pytest.mark.parametrize("grid", [INT4, IRREGULAR], ids=lambda grid: grid.name)
def test_what_shares_a_scale_with_inf_or_nan_becomes_nan(
    scale: Scale, rounding: Rounding, bad: float, grid: Grid
) -> None:
    x = spread(3, 64)
    operand = Operand(grid=grid, scale=scale, rounding=rounding)
    clean = fake_quantize(x, operand, KEY).values
    x[1, 20] = bad
    values, factor = fake_quantize(x, operand, KEY)
    if scale is Scale.E4M3:
        assert values.isnan().all()
        assert factor is not None
        assert factor.isnan()
    else:
        assert values[1, 16:32].isnan().all()
        values[1, 16:32] = clean[1, 16:32]
        assert torch.equal(values, clean)


@pytest.mark.parametrize(
    "operand",
    [*(replace(RELATIVE, rounding=rounding) for rounding in Rounding),
     replace(RELATIVE, alternate=4.0)],
    ids=[*Rounding, "alternate"],
)  # fmt: skip
def test_inf_stays_within_its_outer_elements(operand: Operand) -> None:
    x = spread(3, 64)
    x[1, 20] = inf
    expected = torch.zeros(3, 64, dtype=torch.bool)
    expected[1, :32] = True
    values = fake_quantize(x, replace(operand, outer=32), KEY).values
    assert torch.equal(values.isnan(), expected)


@scaled_grids
def test_zero_and_tiny_blocks_become_zeros_with_their_signs(grid: Grid, scale: Scale) -> None:
    x = torch.zeros(3, 16)
    x[0, 3] = -0.0
    x[1, :] = torch.tensor([0.0, -0.0] * 8)
    if scale in (Scale.FP32, Scale.FP32_5BIT):
        x[2] = -(2.0**-149)
    for rounding in (Rounding.RTNE, Rounding.SR):
        values = fake_quantize(x, Operand(grid=grid, scale=scale, rounding=rounding), KEY).values
        assert torch.equal(values, torch.zeros(3, 16))
        assert torch.equal(values.signbit(), x.signbit())


def test_the_least_fp32_scale_is_the_least_normal_number() -> None:
    x = torch.zeros(2, 16)
    x[0, 0] = 7 * 2.0**-126
    x[1, 0] = 7 * 2.0**-126 - 4 * 2.0**-149
    values = fake_quantize(x, Operand(grid=INT4), KEY).values
    assert values[0, 0] == x[0, 0]
    assert values[1, 0] == 0


def test_a_block_too_small_for_an_e4m3_scale_becomes_zeros_with_their_signs() -> None:
    x = torch.ones(2, 32)
    x[1, 16:] = torch.tensor([1e-8, -1e-8] * 8)
    for rounding in Rounding:
        values = fake_quantize(x, replace(RELATIVE, rounding=rounding), KEY).values
        assert torch.equal(values[1, 16:], torch.zeros(16))
        assert torch.equal(values[1, 16:].signbit(), x[1, 16:].signbit())
        assert (values[0] != 0).all()


def test_without_grid_or_transform_the_operand_is_rounded_to_the_carrier() -> None:
    x = torch.randn(3, 7)
    for carrier in (torch.bfloat16, torch.float16):
        values, factor = fake_quantize(x, Operand(), KEY, carrier=carrier)
        assert torch.equal(values, x.to(carrier).to(torch.float32))
        assert factor is None


def test_the_factor_is_applied_to_what_an_operand_stands_for() -> None:
    x = spread(3, 64)
    values, factor = quantized = fake_quantize(x, RELATIVE, KEY)
    assert factor is not None
    assert torch.equal(quantized.dequantized(), values * factor)
    plain = fake_quantize(x, Operand(grid=E2M1), KEY)
    assert torch.equal(plain.dequantized(), plain.values)


def test_the_input_stays_as_it_is_and_may_be_a_view() -> None:
    x = torch.randn(64, 32)
    before, view = x.clone(), x.t()[::2]
    for turned in (None, rotation(16)):
        found = fake_quantize(view, RELATIVE, KEY, rotation=turned).values
        again = fake_quantize(view.contiguous(), RELATIVE, KEY, rotation=turned).values
        assert torch.equal(found, again)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_input_means_its_fp32_values(dtype: torch.dtype) -> None:
    x = torch.randn(4, 64).to(dtype)
    found = fake_quantize(x, RELATIVE, KEY).values
    assert torch.equal(found, fake_quantize(x.float(), RELATIVE, KEY).values)


@pytest.mark.parametrize("shape", [(0, 16), (16, 0), (16,), (2, 2, 16)])
def test_what_is_no_matrix_with_elements_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a matrix with elements is quantized, got shape"):
        fake_quantize(torch.zeros(shape), Operand(grid=INT4), KEY)
