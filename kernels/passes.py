"""How a GPU carries a request out: where the maxima come from on which scales depend.

    IN_TILE     a tile holds whole blocks: one pass, one read and one write
    MEASURED    a pass before it joins the maxima of blocks that no tile holds, or of the tensor
    WEIGHED     and another one decides scales that depend on sums over such blocks

A pass is data that a Triton kernel is compiled for; lengths are in runs of 16 elements.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from kernels.arithmetic import RTNE, TO_TABLE, Arithmetic, arithmetic_of, table
from kernels.formats import Grid
from kernels.operands import CARRIED, Operand, Rounding, Scale
from kernels.philox import RUN
from kernels.request import Request
from kernels.rounding import table_of

IN_TILE, MEASURED, WEIGHED = range(3)
"""Where a block's scale comes from."""

_LONGEST = 8
"""Runs along the contraction axis that a tile holds: 128 elements, as the longest transform."""
_HIGHEST = 128
"""Lines that a tile holds."""
_SHORT = 16  # codes of a table that is part of a kernel's code
_BF16_BITS = 16  # low bits of an FP32 number that BF16 lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What a kernel is compiled for, for one operand.

    Attributes:
        numbers: The operand's arithmetic.
        axis: The contraction axis.
        across: Lines of the operand in a block; 0 for all.
        runs: Runs of a block along the axis; 0 for all.
        blocks: `IN_TILE`, `MEASURED` or `WEIGHED`.
        has_outer: Whether the result has an E4M3 scale's FP32 scale in it, rather than a factor.
        outer: Runs that share that FP32 scale; 0 for the whole tensor.
        above: `IN_TILE` or `MEASURED`: where its maximum comes from.
        thresholds: Of a short table of the grid: where RTNE reaches the next code.
        magnitudes: Of a short table.
        half: Half of the codes of a long table, which lies in memory, or 0.
        to_fp16: Without a grid: whether the carrier is FP16.
    """

    numbers: Arithmetic
    axis: int
    across: int = 1
    runs: int = 1
    blocks: int = IN_TILE
    has_outer: bool = False
    outer: int = 0
    above: int = IN_TILE
    thresholds: tuple[float, ...] = ()
    magnitudes: tuple[float, ...] = ()
    half: int = 0
    to_fp16: bool = False

    @property
    def is_drawn(self) -> bool:
        """Whether it reads key or signs."""
        return self.numbers.rht > 0 or self.numbers.rounding != RTNE

    @property
    def is_measured(self) -> bool:
        """Whether maxima are joined before."""
        return self.blocks != IN_TILE or self.above != IN_TILE

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns that a tile of the matrix is a multiple of."""
        runs = max(
            self.numbers.rht // RUN,
            1,
            self.runs if self.blocks == IN_TILE else 1,
            self.outer if self.above == IN_TILE else 1,
        )
        across = self.across if self.blocks == IN_TILE else 1
        return (across, RUN * runs) if self.axis == 1 else (RUN * runs, across)


def rotation_of(request: Request) -> Pass:
    """The transform alone, its result FP32."""
    assert request.rotation is not None
    size = len(request.rotation.signs)
    numbers = arithmetic_of(CARRIED, size, request.rotation.to_bf16)
    return Pass(numbers=numbers, axis=request.axis)


def pass_of(request: Request, lines: int, length: int) -> Pass:
    """How a request for an operand of so many lines of so many elements is carried out.

    Args:
        request: For an operand that the transform or the grid changes.
        lines: Of the operand, whose contraction axis is the last.
        length: Along the axis, before the transform fills it up.
    """
    operand, rotation = request.operand, request.rotation
    size, to_bf16 = (0, False) if rotation is None else (len(rotation.signs), rotation.to_bf16)
    numbers = arithmetic_of(operand, size, to_bf16, request.precision)
    if operand.grid is None:
        is_bf16 = request.carrier is torch.bfloat16
        if is_bf16:
            numbers = replace(numbers, dropped_bits=_BF16_BITS)
        return Pass(numbers=numbers, axis=request.axis, to_fp16=not is_bf16)
    length += -length % (size or 1)
    across, runs, blocks = _block(operand, lines, -(-length // RUN))
    outer, above = _above(operand, blocks)
    thresholds, magnitudes, half = _table(operand.grid) if numbers.rule == TO_TABLE else ((), (), 0)
    return Pass(
        numbers=numbers,
        axis=request.axis,
        across=across,
        runs=runs,
        blocks=blocks,
        has_outer=operand.outer is not None,
        outer=outer,
        above=above,
        thresholds=thresholds,
        magnitudes=magnitudes,
        half=half,
    )


def _block(operand: Operand, lines: int, per_line: int) -> tuple[int, int, int]:
    """Lines and runs of a block, and where its scale comes from."""
    block = operand.block
    across = block.across or 0
    runs = 0 if block.along is None else block.along // RUN
    if across > lines:
        across = power_of_two(lines)
    is_whole_line = not 0 < runs < per_line
    if across and is_whole_line and per_line <= _LONGEST:
        runs = power_of_two(per_line)
    fits = _fits(runs, _LONGEST) and _fits(across, _HIGHEST)
    has_sums = operand.rounding is Rounding.EDEN or operand.alternate is not None
    if has_sums and not (fits and runs == 1):
        return across, runs, WEIGHED
    return across, runs, IN_TILE if fits else MEASURED


@lru_cache
def _table(grid: Grid) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Thresholds and magnitudes of a short table, or half of the codes of a long one."""
    rule = table_of(grid)
    if len(rule.magnitudes) <= _SHORT:
        return rule.thresholds, rule.magnitudes, 0
    return (), (), table(grid)[3]


def _above(operand: Operand, blocks: int) -> tuple[int, int]:
    """Runs that share the FP32 scale above E4M3 scales, and where its maximum comes from."""
    if operand.scale is not Scale.E4M3:
        return 1, IN_TILE
    outer = 0 if operand.outer is None else operand.outer // RUN
    return outer, IN_TILE if blocks != WEIGHED and _fits(outer, _LONGEST) else MEASURED


def power_of_two(size: int) -> int:
    """The least power of two that is not less than a positive number."""
    return 1 << (size - 1).bit_length()


def _fits(size: int, most: int) -> bool:
    return 0 < size <= most and size == power_of_two(size)
