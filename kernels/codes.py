"""What an operand looks like on its grid: scaled elements and signed codes, beside the values.

    y      the operand after padding and RHT, which is what is rounded
    q      y scaled by its block scale, not clipped
    code   sign of q times the index of the magnitude it was rounded to, -(n - 1) ... n - 1

The values come from the kernel that a GEMM uses; scales and codes, which it does not keep, are
worked out again by the reference's own functions. What the product's precision rounds off is off
the values, and is no part of the codes.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from kernels.formats import Grid
from kernels.hadamard import Rotation, rotate
from kernels.operands import Operand, Rounding, Scale
from kernels.ops import fake_quantize
from kernels.recipes import Precision
from kernels.reference import tile_scales
from kernels.rounding import in_fp32, round_nearest_, round_significand
from kernels.scales import tensor_scale
from kernels.tiles import tiling

_PANEL = 1 << 17
"""Elements worked on at once, so that they stay in a processor's cache."""


class Encoded(NamedTuple):
    """Some rows of an operand, whose contraction axis is the last.

    Attributes:
        original: y, [rows, k'], FP32.
        values: What stands for y, [rows, k'], FP32, the factor applied.
        scaled: q, [rows, k'], FP32.
        codes: [rows, k'], int32; zero where q is NaN.
        crest: [blocks], the largest |y| of a block over its root mean square; NaN for zeros.
    """

    original: Tensor
    values: Tensor
    scaled: Tensor
    codes: Tensor
    crest: Tensor


@torch.no_grad()
def encoded(
    x: Tensor,
    operand: Operand,
    *,
    rotation: Rotation | None = None,
    axis: int = 1,
    key: int = 0,
    precision: Precision = Precision.FP32,
) -> Iterator[Encoded]:
    """An operand on its grid, panel by panel; arguments as in `kernels.reference.fake_quantize`.

    Raises:
        ValueError: If the operand has no grid, or x is not a matrix with elements.
    """
    grid = operand.grid
    if grid is None:
        raise ValueError("an operand without a grid has no codes")
    exact = fake_quantize(x, operand, key, rotation=rotation, axis=axis)
    rounded = exact._replace(values=round_significand(exact.values, precision.dropped_bits))
    original = (x if axis == 1 else x.t()).to(torch.float32)
    if rotation is not None:
        original = rotate(F.pad(original, (0, -original.shape[1] % len(rotation.signs))), rotation)
    on_grid, values = (
        one.dequantized() if axis == 1 else one.dequantized().t() for one in (exact, rounded)
    )
    above = None
    if operand.scale is Scale.E4M3 and operand.outer is None:
        above = tensor_scale(original.abs().amax(), operand)
    rows, columns = original.shape
    across = tiling(operand.block, rows, columns).across
    height = across * max(1, _PANEL // (across * columns)) if x.device.type == "cpu" else rows
    panels = zip(
        torch.split(original, height),
        torch.split(on_grid, height),
        torch.split(values, height),
        strict=True,
    )
    return (_panel(*panel, operand, grid, above) for panel in panels)


def signed_codes(q: Tensor, grid: Grid) -> Tensor:
    """int32 codes of scaled elements rounded to nearest; NaN counts as zero."""
    magnitudes = torch.tensor(in_fp32(grid), device=q.device)
    signed = torch.cat((-magnitudes.flip(0), magnitudes[1:]))
    rounded = q.nan_to_num(0.0)
    round_nearest_(rounded, torch.empty_like(rounded), grid)
    return torch.bucketize(rounded, signed, out_int32=True) - (len(magnitudes) - 1)


@torch.no_grad()
def _panel(
    original: Tensor,
    on_grid: Tensor,
    values: Tensor,
    operand: Operand,
    grid: Grid,
    above: Tensor | None,
) -> Encoded:
    cut = tiling(operand.block, *original.shape)
    tiles = cut.cut(original)
    scales = tile_scales(tiles, operand, grid, above)
    scaled = cut.join(scales.scaled(tiles)).contiguous()
    places = scaled
    if operand.rounding is Rounding.SR:  # only the values know which neighbour was drawn
        headroom = operand.headroom if operand.scale.is_power_of_two else 1.0
        places = cut.join(cut.cut(on_grid) / (scales.applied * headroom)).contiguous()
    elements = cut.cut(torch.ones_like(original)).sum((1, 2))
    # Relative to the largest, squares neither overflow nor vanish.
    relative = tiles.abs() / tiles.abs().amax((1, 2), keepdim=True)
    crest = (elements / relative.square().sum((1, 2))).sqrt().flatten()
    return Encoded(original, values, scaled, signed_codes(places, grid), crest)
