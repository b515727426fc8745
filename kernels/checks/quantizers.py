"""Whether every grid and every scale gives on a device the bits that it gives by definition.

    known values       a few results from docs/numerics.md, worked out by hand: they hold where
                       there is nothing faster than the reference to compare it with
    grids and scales   `kernels.ops` on the device against `kernels.reference` on the CPU: each
                       grid under each scale to nearest, by SR under one of them, and each kind
                       of block, draw, transform, correction and precision of the product

Where blocks of 16 stand alone the specimen has numbers over many binades, ties of the grid and
what lies a bit beside them, blocks of zeros, of subnormals, of the largest numbers, of Inf and NaN.
Where elements share more than that, it has the binades that matter beside the largest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle

import torch
from torch import Tensor

from kernels import ops, reference
from kernels.blocks import BLOCK_1X16, ROW, TENSOR, Block
from kernels.checks.bits import differing, equal_bits
from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.hadamard import Rotation, random_signs
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import RHT_SIZES, Precision, Signs
from kernels.verdict import Check

Quantizer = Callable[..., reference.FakeQuantized]
KEY = 0x0123456789ABCDEF
COLUMNS = 128
SHARED = 128  # copies that make up for more than one thread
LARGEST = torch.finfo(torch.float32).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A block's first elements, zeros to follow, and what becomes of them."""

    grid: Grid
    scale: Scale = Scale.FP32
    given: tuple[float, ...]
    expected: tuple[float, ...]


KNOWN = (
    # The largest element makes the scale one, so that ties are ties: to the even code.
    Known(grid=E2M1, given=(6, 0.25, 0.75, 1.25, -1.75, 2.5, 3.5, -5),
          expected=(6, 0, 1, 1, -2, 2, 4, -4)),
    Known(grid=INT4, given=(7, 0.5, 1.5, -2.5, 3.5, 4.5, -5.5, 6.5),
          expected=(7, 0, 2, -2, 4, 4, -6, 6)),
    Known(grid=GRIDS["e3m0"], given=(16, 0.375, -0.75, 1.5, 3, 6, -12),
          expected=(16, 0.5, -0.5, 2, 2, 8, -8)),
    Known(grid=E4M3, given=(448, 2.0**-10, 3 * 2.0**-10, -17, 19, 432),
          expected=(448, 0, 2.0**-8, -16, 20, 448)),
    Known(grid=INT4, given=(14, 5, -3), expected=(14, 4, -4)),
    Known(grid=INT4, scale=Scale.FP32_5BIT, given=(7.5, 5), expected=(7.875, 4.5)),
    Known(grid=INT4, scale=Scale.E4M3, given=(3136, 1008), expected=(3136, 896)),
    Known(grid=INT4, scale=Scale.E8M0_FLOOR, given=(7.5, 5), expected=(7, 5)),
    Known(grid=INT4, scale=Scale.E8M0_CEIL, given=(7.5, 5), expected=(8, 4)),
    Known(grid=INT4, scale=Scale.E8M0_EVEN, given=(7, 5), expected=(8, 4)),
    Known(grid=INT4, scale=Scale.E8M0_RCEIL, given=(7, 5), expected=(7, 5)),
)  # fmt: skip


def known_values(device: torch.device) -> Check:
    """Ties of four grids, and a block under each scale."""
    got, expected = [], []
    for known in KNOWN:
        block = torch.zeros(1, 16)
        block[0, : len(known.given)] = torch.tensor(known.given)
        operand = Operand(grid=known.grid, scale=known.scale)
        got.append(ops.fake_quantize(block.to(device), operand, KEY).dequantized().cpu())
        block[0, : len(known.given)] = torch.tensor(known.expected)
        expected.append(block)
    return equal_bits("known values", "known values", torch.cat(got), torch.cat(expected))


def grids_and_scales(device: torch.device) -> Check:
    """Every variant, one after the other; says which ones are not equal."""
    wrong = []
    variants = list(_variants())
    for variant in variants:
        count = variant.wrong(device)
        if count:
            wrong.append(f"{variant.label} ({count:,} numbers)")
    name = "grids and scales"
    if not wrong:
        detail = f"all {len(variants)} variants equal the reference bit for bit"
        return Check(name=name, passed=True, detail=detail)
    shown = "; ".join(wrong[:3]) + ("; ..." if len(wrong) > 3 else "")
    detail = f"{len(wrong)} of {len(variants)} variants differ from the reference: {shown}"
    return Check(name=name, passed=False, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to quantize so many copies of a specimen; `label` is what a complaint calls it."""

    label: str
    operand: Operand
    rotation: Rotation | None = None
    axis: int = 1
    dtype: torch.dtype = torch.float32
    copies: int = 1
    precision: Precision = Precision.FP32

    @property
    def specimen(self) -> Tensor:
        """What is quantized, on the CPU."""
        operand = self.operand
        shares = operand.block != BLOCK_1X16 or operand.scale is Scale.E4M3 or self.rotation
        rows = _together() if shares or operand.grid is None else _apart(operand.grid)
        rows = rows.repeat(self.copies, 1)
        return (rows.t().contiguous() if self.axis == 0 else rows).to(self.dtype)

    def quantized(self, fake_quantize: Quantizer, device: torch.device) -> Tensor:
        """By an implementation on a device; the factor, one where there is none, comes last."""
        x = self.specimen.to(device)
        values, factor = fake_quantize(
            x,
            self.operand,
            KEY,
            rotation=self.rotation,
            axis=self.axis,
            precision=self.precision,
        )
        last = torch.ones(1) if factor is None else factor.cpu().view(1)
        return torch.cat((values.cpu().to(torch.float32).flatten(), last))

    def wrong(self, device: torch.device) -> int:
        """In how many numbers the device and the reference differ."""
        got = self.quantized(ops.fake_quantize, device)
        right = self.quantized(reference.fake_quantize, torch.device("cpu"))
        return int(differing(got, right).sum())


def _variants() -> Iterator[Variant]:
    turn = cycle(Scale)
    for grid in dict.fromkeys(GRIDS.values()):
        fitting = [scale for scale in Scale if _fits(grid, scale)]
        for scale in fitting:
            yield Variant(
                label=f"{grid.name} under {scale}", operand=Operand(grid=grid, scale=scale)
            )
        scale = next(scale for scale in turn if scale in fitting)
        drawn = Operand(grid=grid, scale=scale, rounding=Rounding.SR)
        yield Variant(label=f"{grid.name} under {scale} by SR", operand=drawn)
    for what, operand in _kinds():
        yield Variant(label=what, operand=operand)
        yield Variant(label=f"{what}, down the columns, BF16", operand=operand, axis=0,
                      dtype=torch.bfloat16)  # fmt: skip
    for precision in (Precision.TF32, Precision.BF16):
        operand = Operand(grid=E2M1)
        yield Variant(label=f"e2m1 to {precision}", operand=operand, precision=precision)
    drawn = Operand(grid=INT4, rounding=Rounding.SR)
    yield Variant(label="SR shared by threads", operand=drawn, copies=SHARED)
    for size in RHT_SIZES:
        signs = random_signs(
            Signs.LAYER, seed=0, layer="", gemm="", step=0, microbatch=0, size=size
        )
        operand = Operand(grid=INT4, scale=Scale.E4M3)  # the transform spreads Inf and NaN
        for axis in (0, 1):
            yield Variant(label=f"RHT of {size} along axis {axis}", operand=operand,
                          rotation=Rotation(signs), axis=axis)  # fmt: skip


def _fits(grid: Grid, scale: Scale) -> bool:
    """Whether the numerator of the tensor scale is an FP32 number."""
    return scale is not Scale.E4M3 or E4M3.maximum * grid.maximum <= LARGEST


def _kinds() -> Iterator[tuple[str, Operand]]:
    """Everything about an operand besides its grid and its scale."""
    for block in (Block(along=32), Block(along=128), Block(across=16), ROW, TENSOR):
        yield f"block {block}", Operand(grid=E2M1, block=block)
        yield f"block {block} by e4m3", Operand(grid=E2M1, block=block, scale=Scale.E4M3)
    for bits in (8, 16, 24):
        for half in (True, False):
            yield (
                f"SR of {bits} bits {'with' if half else 'without'} the half-offset",
                Operand(grid=E2M1, rounding=Rounding.SR, random_bits=bits, half_offset=half),
            )
    for scale in (Scale.FP32, Scale.E4M3):
        eden = Operand(grid=E2M1, scale=scale, rounding=Rounding.EDEN)
        yield f"EDEN under {scale}", eden
        yield f"four over six under {scale}", Operand(grid=E2M1, scale=scale, alternate=4.0)
    outer = Operand(grid=E2M1, scale=Scale.E4M3, scale_maximum=256, outer=64)
    yield "outer scales of 64", outer
    yield "headroom", Operand(grid=E4M3, scale=Scale.E8M0_FLOOR, headroom=1.5)


@cache
def _apart(grid: Grid) -> Tensor:
    """Blocks of 16 of every kind, FP32 [rows, 128]."""
    return torch.cat((_spread(-24, 24), _ties(grid), _edges(grid), _beyond()))


@cache
def _together() -> Tensor:
    """Numbers that share a scale or a transform, FP32 [rows, 128]; a block of zeros among them."""
    rows = _spread(-20, 1).repeat(2, 1)
    rows[8:] *= torch.linspace(-2, 2, 16).repeat(8)
    rows[3, 48:64] = 0.0
    return rows


def _spread(least: int, most: int) -> Tensor:
    """Gaussian blocks of 16, each in a binade of its own, [8, 128]."""
    generator = torch.Generator().manual_seed(3)
    binades = torch.randint(least, most, (8, COLUMNS // 16, 1), generator=generator)
    blocks = torch.randn(8, COLUMNS // 16, 16, generator=generator) * 2.0**binades
    return blocks.view(8, COLUMNS)


def _ties(grid: Grid) -> Tensor:
    """Half-way points, one bit below and above, in blocks whose largest element is the grid's."""
    magnitudes = torch.tensor(grid.magnitudes, dtype=torch.float64)
    halves = ((magnitudes[:-1] + magnitudes[1:]) / 2).to(torch.float32)
    chosen = halves[torch.linspace(0, len(halves) - 1, 40).round().long()]
    up, down = torch.full_like(chosen, torch.inf), torch.zeros_like(chosen)
    beside = torch.stack((chosen, chosen.nextafter(up), chosen.nextafter(down)))
    largest = torch.full((1,), grid.maximum)
    blocks = torch.cat((largest.expand(8, 1), beside.view(8, 15)), 1).view(1, COLUMNS)
    return torch.cat((blocks, -blocks))


def _edges(grid: Grid) -> Tensor:
    """Zeros of both signs, blocks of subnormals, of scales next to 2^-126, of the largest."""
    fractions = torch.linspace(-1, 1, 16)
    sizes = (0.0, 2.0**-149, 2.0**-130, grid.maximum * 2.0**-126, 2.0**-120, 2.0**100, LARGEST, 1.0)
    return torch.cat([fractions * size for size in sizes]).view(1, COLUMNS)


def _beyond() -> Tensor:
    """A block with an Inf, one with a NaN, and others that must not notice."""
    row = torch.linspace(-3, 3, COLUMNS)
    row[20], row[70] = -torch.inf, torch.nan
    return row.view(1, COLUMNS)
