"""Fake quantization in plain torch: the meaning that every faster kernel must match bit for bit.

    s = amax / grid maximum        one scale for each block along the contraction axis
    q = x / s
    value = round(q) * s           FP32; RTNE or SR onto the grid

    s below 2**-126 (a zero or a tiny block)    the block becomes zeros, each with its sign
    s not finite (an Inf or a NaN in it)        the block becomes NaN

A random Hadamard transform may come first. Every operation is one FP32 operation, rounded, never
fused: docs/numerics.md is the contract in full.

A matrix is worked on in panels of lanes, [c, block, l]: the middle axis walks along a block and
neighbours on the last belong to different blocks, so that maxima, butterflies and rounding all
run across long contiguous rows. Panels fit the cache; their size has no effect on the bits.
"""

import torch
from torch import Tensor

from kernels.formats import Grid
from kernels.hadamard import rotate_lanes
from kernels.philox import RUN, uniforms
from kernels.recipes import Operand, Rounding
from kernels.rounding import round_nearest_, round_stochastic_

_PANEL = 1 << 18
_LEAST_SCALE = 2.0**-126


@torch.no_grad()
def fake_quantize(
    x: Tensor,
    operand: Operand,
    key: int,
    *,
    signs: tuple[float, ...] | None = None,
    axis: int = 1,
) -> Tensor:
    """An operand as its GEMM sees it: transformed, scaled, rounded and scaled back.

    Args:
        x: [rows, columns], FP32 or BF16.
        operand: Grid, block, scale and rounding; without a grid the values are rounded to BF16.
        key: 64 bits that select the draws of stochastic rounding; RTNE does not use it.
        signs: Signs of an RHT along the axis, or None for no transform.
        axis: Along which the blocks lie, 1 (within a row) or 0 (down a column). Axis 0 is the
            transpose of axis 1 on the transposed matrix, draws included.

    Returns:
        [rows, columns], FP32, contiguous.

    Raises:
        ValueError: If the axis is not a multiple of the block.
    """
    if operand.grid is None and signs is None:
        return x.to(torch.bfloat16).to(torch.float32)
    # An operand without a grid has no blocks of its own, but its transform has.
    block = max(RUN, len(signs or ())) if operand.grid is None else operand.block
    if x.shape[axis] % block:
        raise ValueError(f"axis {axis} has {x.shape[axis]} elements, not a multiple of {block}")
    out = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    panels = _panels(x.contiguous(), out, block, axis)
    largest = max(source.numel() for source, _, _ in panels)
    buffers = torch.empty(3, largest, dtype=torch.float32, device=x.device)
    for source, target, runs in panels:
        panel, spare, scratch = buffers[:, : source.numel()].view(3, *source.shape).unbind(0)
        panel.copy_(source)
        if signs is not None:
            panel, spare = rotate_lanes(panel, spare, signs)
        _quantize_panel(panel, spare, scratch, runs, operand, key, target)
    return out


def block_scale(amax: Tensor, grid: Grid) -> Tensor:
    """FP32 scale of blocks whose largest magnitude is `amax`; NaN where it is not finite."""
    # A divisor on the device, since division by a host number may become a product with 1/maximum.
    scale = amax / torch.full((), grid.maximum, dtype=torch.float32, device=amax.device)
    return scale.masked_fill_(scale == torch.inf, torch.nan)


def _quantize_panel(
    panel: Tensor,
    spare: Tensor,
    scratch: Tensor,
    runs: Tensor,
    operand: Operand,
    key: int,
    target: Tensor,
) -> None:
    """Quantizes [c, block, l] into `target`; the first three tensors are overwritten."""
    if operand.grid is None:
        target.copy_(panel.to(torch.bfloat16))
        return
    size = torch.abs(panel, out=spare)
    scale = block_scale(size.amax(1, keepdim=True), operand.grid)
    divisor = scale.masked_fill(scale < _LEAST_SCALE, torch.inf)
    match operand.rounding:
        case Rounding.RTNE:
            rounded = round_nearest_(panel.div_(divisor), scratch, operand.grid)
        case Rounding.SR:
            u = uniforms(runs, key).view(size.shape)
            round_stochastic_(size.div_(divisor), u, scratch, operand.grid)
            rounded = torch.copysign(size, panel, out=size)
    torch.mul(rounded, scale, out=target)


def _panels(x: Tensor, out: Tensor, block: int, axis: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Cuts input and output into lanes of cache-sized panels, each with the indices of its runs."""
    source = _lanes(x, block, axis)
    runs = torch.arange(x.numel() // RUN, device=x.device)
    runs = runs.view(x.shape[1 - axis], x.shape[axis] // RUN)
    run_lanes = _lanes(runs if axis == 1 else runs.t(), block // RUN, axis)
    along = 0 if axis == 0 else 2
    on_cpu = x.device.type == "cpu"
    panels = source.numel() // _PANEL if on_cpu else 1
    count = max(1, source.shape[along] // max(1, panels))
    tensors = (source, _lanes(out, block, axis), run_lanes)
    return list(zip(*(torch.split(tensor, count, along) for tensor in tensors), strict=True))


def _lanes(matrix: Tensor, block: int, axis: int) -> Tensor:
    """View [c, block, l] of a matrix whose blocks lie along the axis."""
    if axis == 0:
        return matrix.view(-1, block, matrix.shape[1])
    return matrix.view(1, -1, block).transpose(1, 2)
