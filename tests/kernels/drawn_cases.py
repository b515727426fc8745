"""Operands drawn at random from all that docs/numerics.md defines, and matrices for them.

The draw is seeded, so that every run tries the same ones; a test says which pairs of values meet.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from kernels.blocks import BLOCK_1X16, ROW, TENSOR, Block
from kernels.formats import E2M1, GRIDS, Grid, uniform
from kernels.hadamard import Rotation, random_signs
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Precision, Signs
from kernels.reference import FakeQuantized
from kernels.request import Request

ODD_GRIDS = (
    Grid("high", tuple(value * 2.0**110 for value in E2M1.magnitudes)),
    Grid("low", tuple(value * 2.0**-60 for value in E2M1.magnitudes)),
    Grid("quarters", tuple(code * 0.25 for code in range(8))),
    Grid("coarse", tuple(code * 2.0**90 for code in range(5))),
    Grid("two", (0.0, 2.0**127)),
    Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0)),
    Grid("sign", (0.0, 1.0 / 3)),
    Grid("long", tuple(code**1.5 for code in range(100))),
    uniform("int16", 2**15 - 1),
)
ALL_GRIDS = {**GRIDS, **{grid.name: grid for grid in ODD_GRIDS}}
BLOCKS = (
    BLOCK_1X16, Block(along=32), Block(along=48), Block(along=128), Block(across=16, along=16),
    Block(across=5, along=32), Block(across=128, along=128), ROW, TENSOR,
)  # fmt: skip
RHT_SIZES = (None, 4, 16, 32, 128)
# Whole tiles and whole spans, tails of either axis, and less than a tile.
SHAPES = ((19, 48), (3, 16), (11, 130), (9, 128), (8, 256), (40, 37), (1, 1), (17, 32), (8, 20))
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of `fake_quantize`, but for the matrix's values."""

    operand: Operand
    key: int
    rotation: Rotation | None
    axis: int
    carrier: torch.dtype
    shape: tuple[int, int]
    dtype: torch.dtype
    kinds: str
    transposed: bool
    precision: Precision

    @property
    def request(self) -> Request:
        return Request(
            operand=self.operand,
            key=self.key,
            rotation=self.rotation,
            axis=self.axis,
            carrier=self.carrier,
            precision=self.precision,
        )

    def matrix(self) -> Tensor:
        """Its rows, before a transposition, are each of another kind."""
        x = rows(*self.shape, KINDS[self.kinds]).to(self.dtype)
        if self.axis == 0:
            x = x.t()
        return x if self.transposed else x.contiguous()

    def call(self, quantize: Callable[..., FakeQuantized]) -> FakeQuantized:
        return self.request.of(self.matrix(), quantize)


def cases(grid: Grid | None, count: int, seed: int = 0) -> Iterator[Case]:
    """So many cases of a grid, the same for the same seed."""
    draw = Random(f"{grid and grid.name} {seed}")
    for _ in range(count):
        operand = _operand(grid, draw)
        yield Case(
            operand=operand,
            key=draw.getrandbits(64),
            rotation=_rotation(draw),
            axis=draw.choice((0, 1)),
            carrier=draw.choice((torch.bfloat16, torch.float16)),
            shape=draw.choice(SHAPES),
            dtype=draw.choice(DTYPES),
            kinds=draw.choice(tuple(KINDS)),
            transposed=draw.random() < 0.2,
            precision=draw.choice((Precision.FP32, *Precision)),
        )


def scales_of(grid: Grid) -> tuple[Scale, ...]:
    """The scales that a grid can have: the tensor scale over E4M3's must lie within FP32."""
    relative = grid.maximum * 448 < 2.0**128
    return tuple(scale for scale in Scale if relative or scale is not Scale.E4M3)


def _operand(grid: Grid | None, draw: Random) -> Operand:
    if grid is None:
        return Operand()
    block, scale = draw.choice(BLOCKS), draw.choice(scales_of(grid))
    # Only these can be corrected, offered an alternative, or put under more than one FP32 scale.
    by_itself = block.across == 1 and block.along is not None and not scale.is_power_of_two
    correctable = by_itself and scale is not Scale.FP32_5BIT
    rounding = draw.choice(tuple(Rounding) if correctable else (Rounding.RTNE, Rounding.SR))
    alternate = draw.choice((None, grid.maximum * 2 / 3))
    outer = draw.choice((None, 1, 3))
    return Operand(
        grid=grid,
        block=block,
        scale=scale,
        rounding=rounding,
        random_bits=draw.choice((8, 16, 24)),
        half_offset=draw.choice((True, False)),
        headroom=draw.choice((1.0, 1.0, 17 / 16, 4 / 3, 1.3)),
        alternate=alternate if by_itself and rounding is not Rounding.EDEN else None,
        scale_maximum=draw.choice((448.0, 256.0)),
        outer=outer and outer * (block.along or 0) if by_itself and scale is Scale.E4M3 else None,
    )


def _rotation(draw: Random) -> Rotation | None:
    size, kind, to_bf16 = draw.choice(RHT_SIZES), draw.choice(tuple(Signs)), draw.random() < 0.5
    if size is None:
        return None
    signs = random_signs(kind, seed=1, layer="", gemm="", step=2, microbatch=0, size=size)
    return Rotation(signs, to_bf16)


_FINITE = (
    lambda row: row,
    lambda row: row / row.roll(1) ** 3,  # heavy tails
    lambda row: row * 1e-12,
    lambda row: row * 0,
    lambda row: torch.where(row > 1, 0.5 * row.round(), -0.0),
    lambda row: (row * 4).round() / 4,  # ties
)
_TINY = (lambda row: row * 1e-38, lambda row: (row * 3).round() * 2.0**-149)
_HUGE = (lambda row: row * 1e38, lambda row: row.clamp(-1, 1) * 3.4028234e38)
_SPOILT = (
    lambda row: row.index_fill(0, torch.tensor(len(row) // 2), torch.inf),
    lambda row: row.index_fill(0, torch.tensor(len(row) - 1), torch.nan),
)
# A NaN or an overflow may take a whole tensor with it, so only some matrices have one.
KINDS = {
    "gaussian": _FINITE[:1],
    "finite": (*_FINITE, _TINY[0]),
    "tiny": _TINY,
    "huge": (*_FINITE, *_TINY, *_HUGE),
    "spoilt": (*_FINITE, *_TINY, *_HUGE, *_SPOILT),
}


def rows(count: int, length: int, kinds: tuple[Callable[[Tensor], Tensor], ...]) -> Tensor:
    """[count, length] FP32, neighbouring rows of different kinds."""
    x = torch.randn(count, length, generator=torch.Generator().manual_seed(count * length))
    return torch.stack([kinds[index % len(kinds)](row) for index, row in enumerate(x)])


def assert_same(ours: FakeQuantized, expected: FakeQuantized) -> None:
    """Compares every bit of values and factor."""
    assert ours.values.is_contiguous()
    # A GPU stores BF16 numbers as BF16.
    assert_same_bits(ours.values.to(torch.float32), expected.values)
    assert (ours.factor is None) == (expected.factor is None)
    if ours.factor is not None and expected.factor is not None:
        assert_same_bits(ours.factor, expected.factor)


def assert_same_bits(ours: Tensor, expected: Tensor) -> None:
    # Which of its NaNs a processor gives is not part of the contract.
    assert ours.shape == expected.shape
    assert torch.equal(ours.isnan(), expected.isnan())
    numbers = ours.nan_to_num(7.0, torch.inf, -torch.inf).view(torch.int32)
    assert torch.equal(numbers, expected.nan_to_num(7.0, torch.inf, -torch.inf).view(torch.int32))
