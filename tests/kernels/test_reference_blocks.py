"""Blocks, tails and axes: two ways to ask for the same quantization give the same bits."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, GRIDS, INT4, Grid
from kernels.hadamard import Rotation
from kernels.operands import Operand, Rounding, Scale
from kernels.reference import fake_quantize

KEY = 0xFEDCBA9876543210
SIGNS = (1.0, -1.0, -1.0, 1.0, 1.0, 1.0, -1.0, 1.0)
IRREGULAR = Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0))
GRIDS_TRIED = {**GRIDS, "irregular": IRREGULAR}
grids = pytest.mark.parametrize("grid", GRIDS_TRIED.values(), ids=GRIDS_TRIED)
scales = pytest.mark.parametrize("scale", Scale)
roundings = pytest.mark.parametrize("rounding", [Rounding.RTNE, Rounding.SR])


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def values(x: Tensor, operand: Operand, **options: int | Rotation) -> Tensor:
    return fake_quantize(x, operand, KEY, **options).dequantized()  # type: ignore[arg-type]


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


@grids
@roundings
def test_the_largest_element_is_reproduced_to_one_ulp(grid: Grid, rounding: Rounding) -> None:
    x = gaussian(256, 16)
    if grid.name == "bf16":
        x *= 2.0**20
    value = values(x, Operand(grid=grid, rounding=rounding))
    place = x.abs().argmax(1, keepdim=True)
    ratio = value.gather(1, place) / x.gather(1, place)
    assert (ratio - 1).abs().max() <= 2.0**-23


@pytest.mark.parametrize(
    ("scale", "rounding"),
    [*((scale, Rounding.SR) for scale in Scale),
     (Scale.FP32, Rounding.EDEN), (Scale.E4M3, Rounding.EDEN), (Scale.E4M3, Rounding.RTNE)],
)  # fmt: skip
@pytest.mark.parametrize("turned", [None, Rotation(SIGNS)], ids=["plain", "rht"])
def test_blocks_down_columns_are_blocks_along_rows_of_the_transpose(
    scale: Scale, rounding: Rounding, turned: Rotation | None
) -> None:
    operand = Operand(grid=E2M1, block=Block(along=32), scale=scale, rounding=rounding)
    x = gaussian(70, 41)
    down = fake_quantize(x, operand, KEY, rotation=turned, axis=0).values
    along = fake_quantize(x.t(), operand, KEY, rotation=turned).values
    assert same_bits(down, along.t())


@scales
@pytest.mark.parametrize("side", [16, 32, 128])
def test_square_blocks_give_a_weight_the_same_values_in_fprop_and_dgrad(
    scale: Scale, side: int
) -> None:
    operand = Operand(grid=E2M1, scale=scale, block=Block(along=side, across=side))
    weight = gaussian(200, 150)
    in_fprop, in_dgrad = values(weight, operand, axis=1), values(weight, operand, axis=0)
    assert same_bits(in_fprop, in_dgrad)
    one_row = replace(operand, block=Block(along=side))
    assert not torch.equal(values(weight, one_row, axis=1), values(weight, one_row, axis=0))


@scales
@roundings
def test_a_row_and_a_tensor_are_blocks_of_their_size(scale: Scale, rounding: Rounding) -> None:
    operand = Operand(grid=E2M1, scale=scale, rounding=rounding)
    x = gaussian(24, 80)
    for whole, block in ((ROW, Block(along=80)), (TENSOR, Block(along=80, across=24))):
        found = values(x, replace(operand, block=whole))
        assert same_bits(found, values(x, replace(operand, block=block)))
    rows = torch.cat([values(row, Operand(grid=E2M1, block=TENSOR)) for row in torch.split(x, 1)])
    assert same_bits(rows, values(x, Operand(grid=E2M1, block=ROW)))


@pytest.mark.parametrize(
    "operand",
    [*(Operand(grid=E2M1, scale=scale, block=block) for scale in Scale
       for block in (Block(along=32), Block(along=16, across=16), ROW, TENSOR)),
     Operand(grid=E2M1, rounding=Rounding.EDEN),
     Operand(grid=E2M1, alternate=4.0),
     Operand(grid=E2M1, scale=Scale.E4M3, outer=64)],
    ids=lambda operand: f"{operand.scale}-{operand.block}-{operand.rounding}",
)  # fmt: skip
def test_a_tail_is_what_zeros_beyond_it_would_give(operand: Operand) -> None:
    x = gaussian(21, 45)
    filled = values(F.pad(x, (0, 19, 0, 11)), operand)
    assert same_bits(values(x, operand), filled[:21, :45])
    assert not filled[21:].any()
    assert not filled[:, 45:].any()


def test_a_transform_fills_the_axis_for_an_operand_with_and_without_a_grid() -> None:
    x, turned = gaussian(5, 19), Rotation(SIGNS)
    filled = F.pad(x, (0, 5))
    for operand in (Operand(grid=INT4), Operand()):
        found = values(x, operand, rotation=turned)
        assert found.shape == (5, 24)
        assert same_bits(found, values(filled, operand, rotation=turned))


def test_blocks_do_not_see_each_other() -> None:
    x = gaussian(1, 128)
    plain = Operand(grid=E2M1, block=Block(along=32))
    for operand in (plain, replace(plain, scale=Scale.E4M3, outer=32)):
        alone = torch.cat([values(part, operand) for part in torch.split(x, 32, 1)], 1)
        assert torch.equal(values(x, operand), alone)
