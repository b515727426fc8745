"""Fake quantization: a scalar transcription of the contract, its symmetries, and its edges."""

from math import inf, nan

import numpy as np
import pytest
import torch
from torch import Tensor

from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.hadamard import random_signs
from kernels.philox import uniforms
from kernels.recipes import Operand, Rounding
from kernels.reference import fake_quantize

KEY = 0x0123456789ABCDEF
SIGNS = random_signs(seed=3, layer="a", gemm="fprop", size=16)
IRREGULAR = Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0))
grids = pytest.mark.parametrize("grid", [*GRIDS.values(), IRREGULAR], ids=[*GRIDS, "irregular"])
roundings = pytest.mark.parametrize("rounding", Rounding)
rotations = pytest.mark.parametrize("signs", [None, SIGNS], ids=["plain", "rht"])


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def rtne(x: Tensor, grid: Grid, *, block: int = 16) -> Tensor:
    return fake_quantize(x, Operand(grid=grid, block=block), 0)


def bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.int32)


def contract(x: Tensor, operand: Operand, signs: tuple[float, ...] | None) -> Tensor:
    """The contract element by element in numpy's FP32 scalars, for one row of blocks."""
    assert operand.grid is not None
    values = [np.float32(value) for value in operand.grid.magnitudes]
    draws = uniforms(torch.arange(x.numel() // 16), KEY).t().reshape(-1).numpy()
    out = np.empty(x.numel(), dtype=np.float32)
    flat = x.reshape(-1).numpy()
    for start in range(0, flat.size, operand.block):
        v = [np.float32(e) for e in flat[start : start + operand.block]]
        size = len(signs) if signs else 0
        for run in range(0, len(v), size or len(v)) if signs else ():
            v[run : run + size] = butterfly(v[run : run + size], signs or ())
        s = max(abs(e) for e in v) / values[-1]
        for i, e in enumerate(v):
            q = abs(e) / s if s >= np.float32(2.0**-126) else np.float32(0)
            code = sum(int(q >= value) for value in values[1:])
            if code + 1 < len(values):
                low, high = values[code], values[code + 1]
                if operand.rounding is Rounding.SR:
                    code += int(q - low >= (high - low) * draws[start + i])
                else:
                    twice, total = 2 * float(q), float(low) + float(high)
                    code += int(twice > total or (twice == total and code % 2 == 1))
            out[start + i] = np.copysign(values[code], e) * s
    return torch.from_numpy(out).view(x.shape)


def butterfly(v: list[np.float32], signs: tuple[float, ...]) -> list[np.float32]:
    v = [np.float32(sign) * e for sign, e in zip(signs, v, strict=True)]
    stride = 1
    while stride < len(v):
        for i in range(len(v)):
            if i & stride == 0:
                v[i], v[i + stride] = v[i] + v[i + stride], v[i] - v[i + stride]
        stride *= 2
    return [e * np.float32(len(v) ** -0.5) for e in v]


@grids
@roundings
@rotations
@pytest.mark.parametrize("block", [16, 48])
def test_every_bit_is_that_of_the_contract(
    grid: Grid, rounding: Rounding, signs: tuple[float, ...] | None, block: int
) -> None:
    x = gaussian(3, 96) * torch.logspace(-3, 3, 96)
    x[1, :48] = 0
    x[2, ::5] *= -0.0
    operand = Operand(grid=grid, block=block, rounding=rounding)
    expected = contract(x, operand, signs)
    assert torch.equal(bits(fake_quantize(x, operand, KEY, signs=signs)), bits(expected))


@roundings
@rotations
def test_blocks_down_columns_are_blocks_along_rows_of_the_transpose(
    rounding: Rounding, signs: tuple[float, ...] | None
) -> None:
    operand = Operand(grid=E2M1, block=32, rounding=rounding)
    x = gaussian(64, 48)
    down = fake_quantize(x, operand, KEY, signs=signs, axis=0)
    along = fake_quantize(x.t(), operand, KEY, signs=signs)
    assert torch.equal(bits(down), bits(along.t()))


@roundings
@pytest.mark.parametrize("axis", [0, 1])
def test_the_size_of_a_panel_does_not_show(
    rounding: Rounding, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operand = Operand(grid=INT4, rounding=rounding)
    x = gaussian(160, 112)
    whole = fake_quantize(x, operand, KEY, axis=axis)
    monkeypatch.setattr("kernels.reference._PANEL", 3000)
    assert torch.equal(fake_quantize(x, operand, KEY, axis=axis), whole)


def test_bf16_input_means_its_fp32_values() -> None:
    x = gaussian(4, 64).to(torch.bfloat16)
    assert torch.equal(rtne(x, INT4), rtne(x.float(), INT4))


def test_without_grid_or_transform_the_operand_is_rounded_to_bf16() -> None:
    x = gaussian(3, 7)
    assert torch.equal(fake_quantize(x, Operand(), 0), x.to(torch.bfloat16).to(torch.float32))


@grids
@roundings
def test_sign_symmetry(grid: Grid, rounding: Rounding) -> None:
    operand = Operand(grid=grid, rounding=rounding)
    x = gaussian(32, 64)
    negative = fake_quantize(-x, operand, KEY)
    assert torch.equal(bits(negative), bits(-fake_quantize(x, operand, KEY)))


@grids
@roundings
@pytest.mark.parametrize("exponent", [-40, -1, 3, 60])
def test_powers_of_two_pass_through(grid: Grid, rounding: Rounding, exponent: int) -> None:
    operand = Operand(grid=grid, rounding=rounding)
    x = gaussian(32, 64)
    scaled = fake_quantize(x * 2.0**exponent, operand, KEY)
    assert torch.equal(scaled, fake_quantize(x, operand, KEY) * 2.0**exponent)


def test_e1m2_and_int4_are_one_grid() -> None:
    quarters = Grid("quarters", tuple(code / 4 for code in range(8)))
    x = gaussian(64, 256)
    assert torch.equal(rtne(x, GRIDS["e1m2"]), rtne(x, INT4))
    assert torch.equal(rtne(x, quarters), rtne(x, INT4))


@grids
def test_decoded_values_with_a_power_of_two_scale_are_kept(grid: Grid) -> None:
    magnitudes = torch.tensor(grid.magnitudes, dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    x = magnitudes[torch.randint(0, len(magnitudes), (64, 32), generator=generator)]
    x = torch.where(torch.rand(x.shape, generator=generator) < 0.5, x, -x)
    x[:, ::16] = magnitudes[-1]
    for scale in (1.0, 0.25, 64.0):
        once = rtne(x * scale, grid)
        assert torch.equal(once, x * scale)
        assert torch.equal(fake_quantize(x * scale, Operand(grid=grid, rounding=Rounding.SR), KEY),
                           once)  # fmt: skip


@grids
@roundings
def test_the_largest_element_is_reproduced_to_one_ulp(grid: Grid, rounding: Rounding) -> None:
    x = gaussian(256, 16)
    value = fake_quantize(x, Operand(grid=grid, rounding=rounding), KEY)
    place = x.abs().argmax(1, keepdim=True)
    ratio = value.gather(1, place) / x.gather(1, place)
    assert (ratio - 1).abs().max() <= 2.0**-23


@grids
@roundings
@pytest.mark.parametrize("bad", [inf, -inf, nan])
def test_a_block_with_inf_or_nan_becomes_nan_and_no_other(
    grid: Grid, rounding: Rounding, bad: float
) -> None:
    x = gaussian(2, 48)
    clean = fake_quantize(x, Operand(grid=grid, rounding=rounding), KEY)
    x[1, 20] = bad
    out = fake_quantize(x, Operand(grid=grid, rounding=rounding), KEY)
    assert out[1, 16:32].isnan().all()
    out[1, 16:32] = clean[1, 16:32]
    assert torch.equal(out, clean)


@grids
@roundings
def test_zero_and_tiny_blocks_become_zeros_with_their_signs(grid: Grid, rounding: Rounding) -> None:
    least = 2.0**-149
    x = torch.zeros(4, 16)
    x[0, 3] = -0.0
    x[1, 5] = least
    x[2] = -7 * least
    x[3, 0] = float(np.nextafter(np.float32(grid.maximum * 2.0**-126), np.float32(0)))
    out = fake_quantize(x, Operand(grid=grid, rounding=rounding), KEY)
    assert torch.equal(out[:3], torch.zeros(3, 16))
    assert torch.equal(out[:3].signbit(), x[:3].signbit())
    assert out[3].isfinite().all()


def test_the_least_scale_is_the_least_normal_number() -> None:
    x = torch.zeros(2, 16)
    x[0, 0] = 7 * 2.0**-126
    x[1, 0] = 7 * 2.0**-126 - 4 * 2.0**-149
    out = rtne(x, INT4)
    assert out[0, 0] == x[0, 0]
    assert out[1, 0] == 0


@grids
def test_the_largest_finite_element_gives_no_nan(grid: Grid) -> None:
    x = torch.full((1, 16), torch.finfo(torch.float32).max)
    x[0, 1:] = gaussian(15)
    assert not rtne(x, grid).isnan().any()


@pytest.mark.parametrize("axis", [0, 1])
def test_an_axis_that_does_not_divide_is_refused(axis: int) -> None:
    with pytest.raises(ValueError, match="24 elements, not a multiple of 16"):
        fake_quantize(torch.zeros(24, 24), Operand(grid=E4M3), 0, axis=axis)


def test_the_input_stays_as_it_is_and_may_be_a_view() -> None:
    x = gaussian(64, 32)
    before = x.clone()
    view = x.t()[::2]
    assert torch.equal(rtne(view, E2M1), rtne(view.contiguous(), E2M1))
    assert torch.equal(x, before)


def test_blocks_do_not_see_each_other() -> None:
    x = gaussian(1, 128)
    alone = torch.cat([rtne(part, E2M1, block=32) for part in torch.split(x, 32, 1)], 1)
    assert torch.equal(rtne(x, E2M1, block=32), alone)
