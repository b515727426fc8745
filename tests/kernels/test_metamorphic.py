"""What must stay the same, or change in a known way, when an operand is changed."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor

from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, GRIDS, INT4, INT8, Grid
from kernels.hadamard import Rotation, random_signs, rotate
from kernels.linear import QuantLinear
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import RHT_SIZES, Gemm, Recipe, Rht, Signs
from kernels.reference import FakeQuantized
from kernels.streams import Streams

FakeQuantize = Callable[..., FakeQuantized]
KEY = 0x9A3F_11D2_0C45_7E68


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


def operands() -> list[object]:
    """Every grid under every scale, and the other ways of rounding and scaling."""
    plain = {
        f"{name}-{scale}": Operand(grid=grid, scale=scale)
        for (name, grid), scale in product(GRIDS.items(), Scale)
        if name != "bf16"  # it needs the whole range of exponents for itself
    }
    others = {
        "sr": Operand(grid=E2M1, rounding=Rounding.SR),
        "sr-table": Operand(grid=GRIDS["e3m0"], rounding=Rounding.SR, random_bits=24),
        "sr-headroom": Operand(
            grid=E2M1, scale=Scale.E8M0_FLOOR, headroom=4 / 3, rounding=Rounding.SR
        ),
        "eden": Operand(grid=E2M1, rounding=Rounding.EDEN),
        "eden-e4m3": Operand(grid=E2M1, scale=Scale.E4M3, rounding=Rounding.EDEN, headroom=1.2),
        "alternate": Operand(grid=E2M1, scale=Scale.E4M3, alternate=4, scale_maximum=256),
        "outer": Operand(grid=E2M1, scale=Scale.E4M3, outer=64, rounding=Rounding.SR),
        "square": Operand(grid=E2M1, block=Block(along=16, across=16)),
        "row": Operand(grid=INT8, block=ROW),
        "tensor": Operand(grid=GRIDS["e5m2"], block=TENSOR),
    }
    return [pytest.param(operand, id=name) for name, operand in {**plain, **others}.items()]


EVERY_OPERAND = pytest.mark.parametrize("operand", operands())


@EVERY_OPERAND
def test_the_negative_of_a_tensor_becomes_the_negative(
    operand: Operand, quantize: FakeQuantize
) -> None:
    x = normal(6, 72)
    x[2, 16:40] = 0.0
    there, back = quantize(x, operand, KEY), quantize(-x, operand, KEY)
    assert same_bits(back.values, -there.values)
    assert same_bits(back.dequantized(), -there.dequantized())


@EVERY_OPERAND
def test_a_power_of_two_goes_through(operand: Operand, quantize: FakeQuantize) -> None:
    x = normal(6, 72, seed=1)
    x[2, 16:40] = 0.0
    there = quantize(x, operand, KEY)
    assert there.values.abs().max() > 0
    for exponent in (-40, 3):
        scaled = quantize(x * 2.0**exponent, operand, KEY)
        assert same_bits(scaled.dequantized(), there.dequantized() * 2.0**exponent)


QUARTERS = Grid("quarters", tuple(level / 4 for level in range(8)))


@pytest.mark.parametrize(
    ("scale", "rounding"),
    [
        *product(Scale, (Rounding.RTNE, Rounding.SR)),
        *product((Scale.FP32, Scale.E4M3), [Rounding.EDEN]),
    ],
)
def test_quarters_are_symmetric_int4(
    scale: Scale, rounding: Rounding, quantize: FakeQuantize
) -> None:
    x = normal(7, 80, seed=2)
    quarters, int4 = (
        quantize(x, Operand(grid=grid, scale=scale, rounding=rounding), KEY).dequantized()
        for grid in (QUARTERS, INT4)
    )
    assert same_bits(quarters, int4)
    assert GRIDS["e1m2"] == INT4


@pytest.mark.parametrize("name", GRIDS)
def test_quantizing_again_changes_nothing_under_scales_that_are_exact(
    name: str, quantize: FakeQuantize
) -> None:
    grid = GRIDS[name]
    # Scales of three bits: their products with the grid's magnitudes are FP32 numbers.
    largest = torch.tensor([1.0, 0.625, 0.875, 0.75]).repeat(3)[:, None] * grid.maximum
    x = (normal(12, 16, seed=3) * 0.3).clamp(-1, 1) * largest
    x[:, 5] = -largest[:, 0]
    once = quantize(x, Operand(grid=grid), KEY).values
    assert same_bits(once[:, 5], x[:, 5])
    assert same_bits(quantize(once, Operand(grid=grid), KEY).values, once)


def keeps_its_scale(scale: Scale, grid: Grid) -> bool:
    """Whether a block whose maximum has the top code would have the same scale again."""
    rounds_up = grid.maximum >= (2 - 2.0 ** -(grid.mantissa_bits + 1)) * 2.0**grid.exponent
    return scale is Scale.E8M0_FLOOR or (scale is Scale.E8M0_EVEN and not rounds_up)


@pytest.mark.parametrize(
    ("scale", "name"),
    [(scale, name) for scale in Scale for name in GRIDS if keeps_its_scale(scale, GRIDS[name])],
)
def test_quantizing_again_changes_nothing_under_powers_of_two(
    name: str, scale: Scale, quantize: FakeQuantize
) -> None:
    operand = Operand(grid=GRIDS[name], scale=scale, block=Block(along=32))
    once = quantize(normal(40, 64, seed=4), operand, KEY).values
    assert same_bits(quantize(once, operand, KEY).values, once)


@pytest.mark.parametrize("name", ["e2m1", "int4", "e4m3", "e5m2", "int8"])
def test_quantizing_again_moves_no_element_by_more_than_the_scales_last_place(
    name: str, quantize: FakeQuantize
) -> None:
    operand = Operand(grid=GRIDS[name])
    once = quantize(normal(64, 64, seed=5), operand, KEY).values
    again = quantize(once, operand, KEY).values
    assert ((again - once).abs() <= 2.0**-22 * once.abs()).all()


@pytest.mark.parametrize("scale", Scale)
def test_a_larger_element_never_becomes_the_smaller_one(
    scale: Scale, quantize: FakeQuantize
) -> None:
    for grid in (grid for name, grid in GRIDS.items() if name != "bf16"):
        x = normal(16, 64, seed=6).view(16, 4, 16).sort(dim=2).values.view(16, 64)
        values = quantize(x, Operand(grid=grid, scale=scale), KEY).values.view(16, 4, 16)
        assert (values.diff(dim=2) >= 0).all()


@pytest.mark.parametrize("scale", Scale)
def test_blocks_can_change_places(scale: Scale, quantize: FakeQuantize) -> None:
    operand = Operand(grid=E2M1, scale=scale)
    x = normal(5, 96, seed=7) * torch.logspace(-3, 3, 96)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(8))
    moved = x.view(30, 16)[order].view(5, 96)
    values = quantize(x, operand, KEY).values.view(30, 16)
    assert same_bits(quantize(moved, operand, KEY).values.view(30, 16), values[order])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("block", "rounding"),
    [
        *product((Block(), Block(along=64), ROW), (Rounding.RTNE, Rounding.SR)),
        (Block(), Rounding.EDEN),
    ],
)
def test_a_row_knows_nothing_of_other_rows(
    block: Block, rounding: Rounding, axis: int, quantize: FakeQuantize
) -> None:
    operand = Operand(grid=E2M1, block=block, rounding=rounding)
    x, other = normal(6, 72, seed=9), normal(6, 72, seed=10) * 100
    other[3] = x[3]
    if axis == 0:
        x, other = x.t().contiguous(), other.t().contiguous()
    rotation = Rotation(
        random_signs(Signs.LAYER, seed=1, layer="a", gemm="b", step=0, microbatch=0, size=8)
    )
    there = quantize(x, operand, KEY, axis=axis, rotation=rotation).values
    here = quantize(other, operand, KEY, axis=axis, rotation=rotation).values
    there, here = (there, here) if axis == 1 else (there.t(), here.t())
    assert same_bits(there[3], here[3])
    assert not torch.equal(there[2], here[2])


def test_under_a_tensor_scale_rows_do_know_of_one_another(quantize: FakeQuantize) -> None:
    operand = Operand(grid=E2M1, scale=Scale.E4M3)
    x = normal(2, 64, seed=11)
    louder = x.clone()
    louder[1] *= 3000
    there, here = (quantize(t, operand, KEY).dequantized() for t in (x, louder))
    assert not torch.equal(there[0], here[0])


def whole_numbers(*shape: int, most: int, seed: int) -> Tensor:
    drawn = torch.randint(-most, most + 1, shape, generator=torch.Generator().manual_seed(seed))
    return drawn.to(torch.bfloat16)


@pytest.mark.parametrize("size", [4, 16, 64])
@pytest.mark.parametrize("carried", ["left", "right"])
def test_the_transform_cancels_in_all_three_gemms(carried: str, size: int) -> None:
    # Small whole numbers, transformed with 1/sqrt(n) a power of two, are multiples of 1/8 that
    # INT8 under a power of two and BF16 both hold: nothing but the transform acts.
    exact = Operand(grid=INT8, scale=Scale.E8M0_FLOOR, block=ROW)
    rht = Rht(size=size, signs=Signs.STEP)
    left, right = (Operand(), exact) if carried == "left" else (exact, Operand())
    gemm = Gemm(left=left, right=right, rht=rht)
    recipe = Recipe(name="exact", fprop=gemm, dgrad=gemm, wgrad=gemm)
    tokens, features, out = 192, 64, 128
    layer = QuantLinear(
        features, out, recipe=recipe, name="blocks.0.mlp.up", streams=Streams(sr=1, rht=2)
    )
    x = whole_numbers(tokens, features, most=1, seed=1).requires_grad_()
    weight = whole_numbers(out, features, most=1, seed=2)
    with torch.no_grad():
        layer.weight.copy_(weight)
    y = layer(x)
    dy = whole_numbers(tokens, out, most=1, seed=3)
    y.backward(dy)
    assert torch.equal(y, (x.double() @ weight.double().t()).to(torch.bfloat16))
    assert x.grad is not None
    assert torch.equal(x.grad, (dy.double() @ weight.double()).to(torch.bfloat16))
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad.double(), dy.double().t() @ x.detach().double())


@pytest.mark.parametrize("size", RHT_SIZES)
def test_the_transform_cancels_to_fp32_rounding_in_products_of_any_shape(size: int) -> None:
    signs = random_signs(
        Signs.STEP, seed=1, layer="a", gemm="wgrad", step=5, microbatch=0, size=size
    )
    left, right = normal(24, 256, seed=12), normal(40, 256, seed=13)
    turned = rotate(left, Rotation(signs)).double() @ rotate(right, Rotation(signs)).double().t()
    plain = left.double() @ right.double().t()
    bound = left.double().norm(dim=1)[:, None] * right.double().norm(dim=1) * size * 2.0**-24
    assert ((turned - plain).abs() <= bound).all()
    other = random_signs(
        Signs.STEP, seed=1, layer="a", gemm="wgrad", step=6, microbatch=0, size=size
    )
    mixed = rotate(left, Rotation(signs)).double() @ rotate(right, Rotation(other)).double().t()
    assert other == signs or not ((mixed - plain).abs() <= bound).all()
