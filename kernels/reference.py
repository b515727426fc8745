"""Fake quantization in plain torch: the meaning that every faster kernel must match bit for bit.

    x -> pad -> RHT -> y          along the contraction axis, FP32
    s = scale of a block of y     kernels.scales
    q = y scaled by s, clipped    |q| at most the grid maximum
    value = round(q) * s          RTNE, SR or EDEN; FP32, or rounded to the GEMM's precision

Every operation is one FP32 operation, rounded, never fused: docs/numerics.md is the contract.

Blocks are worked on as tiles, [width, along, across, height], and scales as [width, 1, 1, height]
beside them: maxima, sums and rounding run over many blocks at once (`kernels.tiles`).
"""

from typing import NamedTuple, assert_never

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from kernels.formats import Grid
from kernels.hadamard import Rotation, rotate
from kernels.operands import Operand, Rounding, Scale
from kernels.philox import uniforms
from kernels.recipes import Precision
from kernels.rounding import round_nearest_, round_significand, round_stochastic_
from kernels.scales import Scales, block_scales, stochastic_e4m3, tensor_scale
from kernels.tiles import tiling

_PANEL = 1 << 17
"""Elements worked on at once, so that they stay in a processor's cache; no effect on bits."""


class FakeQuantized(NamedTuple):
    """An operand as its GEMM multiplies it.

    Attributes:
        values: [rows, columns], contiguous, the contraction axis filled up to k'. FP32; BF16 where
            that is the GEMM's precision and a GPU quantized.
        factor: FP32 without axes: what the product is multiplied by afterwards, or None.
    """

    values: Tensor
    factor: Tensor | None

    def dequantized(self) -> Tensor:
        """The values with the factor applied, which is what the operand stands for."""
        values = self.values.to(torch.float32)
        return values if self.factor is None else values * self.factor


@torch.no_grad()
def fake_quantize(
    x: Tensor,
    operand: Operand,
    key: int,
    *,
    rotation: Rotation | None = None,
    axis: int = 1,
    carrier: torch.dtype = torch.bfloat16,
    precision: Precision = Precision.FP32,
) -> FakeQuantized:
    """An operand as its GEMM sees it: transformed, scaled, rounded and scaled back.

    Args:
        x: [rows, columns], FP32, BF16 or FP16.
        operand: Grid, block, scale and rounding; without a grid the values are rounded to the
            carrier.
        key: 64 bits that select the draws of SR and EDEN; RTNE does not use it.
        rotation: The RHT along the axis, or None.
        axis: Which one the GEMM contracts, 1 (within a row) or 0 (down a column). Axis 0 is the
            transpose of axis 1 on the transposed matrix, draws included.
        carrier: The 16-bit type of what has no grid.
        precision: What the values are rounded to in the end.

    Raises:
        ValueError: If x is not a matrix, or an empty one.
    """
    if x.ndim != 2 or not x.numel():
        raise ValueError(f"a matrix with elements is quantized, got shape {tuple(x.shape)}")
    lines = (x if axis == 1 else x.t()).to(torch.float32)
    if rotation is not None:
        if missing := -lines.shape[1] % len(rotation.signs):
            lines = F.pad(lines, (0, missing))
        lines = rotate(lines, rotation)
    if operand.grid is None:
        values, factor = lines.to(carrier).to(torch.float32), None
    else:
        values, factor = _quantized(lines, operand, operand.grid, key)
    values = (values if axis == 1 else values.t()).contiguous()
    return FakeQuantized(round_significand(values, precision.dropped_bits), factor)


def _quantized(
    lines: Tensor, operand: Operand, grid: Grid, key: int
) -> tuple[Tensor, Tensor | None]:
    """Values and factor of [rows, k'], whose contraction axis is the last."""
    above = factor = None
    if operand.scale is Scale.E4M3 and operand.outer is None:
        above = tensor_scale(lines.abs().amax(), operand)
        factor = 1 / above
    elif operand.scale.is_power_of_two and operand.headroom != 1:
        factor = lines.new_full((), operand.headroom)
    rows, columns = lines.shape
    across = tiling(operand.block, rows, columns).across
    height = rows
    if lines.device.type == "cpu":
        height = across * max(1, _PANEL // (across * columns))
    values = torch.empty_like(lines)  # with its strides, which may be those of a transpose
    for first in range(0, rows, height):
        panel = lines[first : first + height]
        cut = tiling(operand.block, len(panel), columns)
        runs = cut.runs(first, lines.device)
        tiles = _quantized_tiles(cut.cut(panel), operand, grid, runs, key, above)
        values[first : first + height] = cut.join(tiles)
    return values, factor


def tile_scales(tiles: Tensor, operand: Operand, grid: Grid, above: Tensor | None) -> Scales:
    """Scales of tiles as they are rounded; EDEN corrects what it stores of them afterwards.

    Args:
        tiles: [width, along, across, height].
        operand: The rule.
        grid: Its grid.
        above: S of the tensor where there is one.

    Returns:
        [width, 1, 1, height].
    """
    amax = tiles.abs().flatten(1, 2).amax(1, keepdim=True).unsqueeze(1)
    if operand.outer is not None:
        above = tensor_scale(_outer_maxima(amax, operand.outer // tiles.shape[1]), operand)
    scales = block_scales(amax, operand, above)
    if operand.alternate is None:
        return scales
    target = operand.alternate / operand.headroom
    return _closer(tiles, grid, scales, block_scales(amax, operand, above, target=target))


def _quantized_tiles(
    tiles: Tensor,
    operand: Operand,
    grid: Grid,
    runs: Tensor,
    key: int,
    above: Tensor | None,
) -> Tensor:
    """Tiles rounded and scaled back."""
    scales = tile_scales(tiles, operand, grid, above)
    match operand.rounding:
        case Rounding.RTNE:
            rounded = _nearest(scales.scaled(tiles), grid)
        case Rounding.SR:
            size = scales.scaled(tiles).abs_()
            draws = _draws(runs, key, operand).transpose(2, 3).reshape(tiles.shape)
            round_stochastic_(size, draws, torch.empty_like(size), grid)
            rounded = size.copysign_(tiles)
        case Rounding.EDEN:
            draws = _draws(runs[:, :1], key, operand)[..., 0, :]
            rounded, scales = _unshrunk(tiles, operand, grid, scales, draws)
        case never:
            assert_never(never)
    return rounded.mul_(scales.stored if operand.outer is None else scales.applied)


def _nearest(q: Tensor, grid: Grid) -> Tensor:
    """RTNE in place of q."""
    return round_nearest_(q, torch.empty_like(q), grid)


def _draws(runs: Tensor, key: int, operand: Operand) -> Tensor:
    return uniforms(runs, key, bits=operand.random_bits, half_offset=operand.half_offset)


def _outer_maxima(amax: Tensor, blocks: int) -> Tensor:
    """The largest magnitude in the `blocks` blocks along the axis that each one shares S with."""
    width = amax.shape[0]
    filled = F.pad(amax, (0, 0, 0, 0, 0, 0, 0, -width % blocks))
    groups = filled.reshape(-1, blocks, *amax.shape[1:]).amax(1)
    return groups.repeat_interleave(blocks, 0)[:width]


def _closer(tiles: Tensor, grid: Grid, scales: Scales, other: Scales) -> Scales:
    """For each block the other scale where RTNE under it has the smaller squared error."""

    def error(of: Scales) -> Tensor:
        difference = _nearest(of.scaled(tiles), grid).mul_(of.applied).sub_(tiles)
        return _sum(difference * difference)

    better = error(other) < error(scales)
    stored = torch.where(better, other.stored, scales.stored)
    return Scales(stored, torch.where(better, other.onto_grid, scales.onto_grid), scales.inverse)


def _unshrunk(
    tiles: Tensor, operand: Operand, grid: Grid, scales: Scales, draws: Tensor
) -> tuple[Tensor, Scales]:
    """EDEN: elements rounded to nearest, and scales under which <value, x> is <x, x> again."""
    p = scales.scaled(tiles)
    rounded = _nearest(p.clone(), grid)
    divisor = _sum(p * rounded)
    correction = _sum(p * p) / divisor
    correction.masked_fill_((divisor <= 0) | ~correction.isfinite(), 1.0)
    stored = scales.stored * correction
    if operand.scale is Scale.E4M3:
        stored = stochastic_e4m3(stored, draws)
    return rounded, scales._replace(stored=stored)


def _sum(x: Tensor) -> Tensor:
    """[width, 1, 1, height] of blocks of one row, from the first element of each to the last."""
    total = torch.zeros_like(x[:, :1])
    for place in range(x.shape[1]):
        total += x[:, place : place + 1]
    return total
