"""Operands: how one side of a GEMM is represented.

    grid        the values that an element can take
    block       which elements share a scale, and how the scale is stored
    rounding    how a scaled element is brought onto the grid

docs/numerics.md says what each value means, bit for bit.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from kernels.blocks import BLOCK_1X16, Block
from kernels.formats import Grid


class Rounding(StrEnum):
    """How a scaled element is brought onto the grid."""

    RTNE = "rtne"  # to nearest, ties to the even code
    SR = "sr"  # stochastic: up with probability equal to the position between two neighbours
    EDEN = "eden"  # RTNE, the block's shrinkage undone in its scale, which is rounded by SR


class Scale(StrEnum):
    """How a block's scale is stored."""

    FP32 = "fp32"
    FP32_5BIT = "fp32-5bit"  # a significand of five bits, rounded up
    E4M3 = "e4m3"  # relative to an FP32 scale of the tensor
    E8M0_FLOOR = "e8m0-floor"  # powers of two
    E8M0_CEIL = "e8m0-ceil"
    E8M0_EVEN = "e8m0-even"
    E8M0_RCEIL = "e8m0-rceil"

    @property
    def is_power_of_two(self) -> bool:
        """Whether it is one of the E8M0 rules."""
        return self.value.startswith("e8m0")


class Source(StrEnum):
    """What an operand of a backward GEMM is quantized from."""

    ORIGINAL = "original"
    FORWARD = "forward"  # the values that fprop multiplied


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """How one operand of a GEMM is represented; without a grid it is as the carrier holds it.

    Attributes:
        grid: The element grid.
        block: Which elements share a scale.
        scale: How the scale is stored.
        rounding: How elements are brought onto the grid.
        random_bits: Random bits of a draw of SR: 8, 16 or 24.
        half_offset: Whether half a unit is added to a draw, so that its mean is exactly 1/2.
        headroom: From 1/2 to 16; a block's maximum is scaled to the grid's divided by this, so
            that below 1 it is clipped.
        alternate: A magnitude onto which a block's maximum is scaled instead where that lowers
            the squared error (4 in four-over-six), or None.
        scale_maximum: The largest E4M3 block scale that the tensor scale aims at.
        outer: Elements along the contraction axis that share the FP32 scale above E4M3 scales;
            None for the whole tensor.
        source: What is quantized; other than the original only in dgrad's w and wgrad's x.

    Raises:
        ValueError: If the values contradict one another; the sentence says which.
    """

    grid: Grid | None = None
    block: Block = BLOCK_1X16
    scale: Scale = Scale.FP32
    rounding: Rounding = Rounding.RTNE
    random_bits: int = 8
    half_offset: bool = True
    headroom: float = 1.0
    alternate: float | None = None
    scale_maximum: float = 448.0
    outer: int | None = None
    source: Source = Source.ORIGINAL

    def __post_init__(self) -> None:
        if problem := next(iter(_contradictions(self)), None):
            raise ValueError(problem)

    @property
    def target(self) -> float:
        """What a block's maximum is scaled to; the headroom of powers of two comes after them."""
        assert self.grid is not None
        return self.grid.maximum / (1.0 if self.scale.is_power_of_two else self.headroom)

    @property
    def reach(self) -> float:
        """How far beyond the grid's maximum a scaled element can lie, as a ratio; at least 1."""
        assert self.grid is not None
        grid = self.grid
        match self.scale:
            case Scale.E8M0_FLOOR:
                beyond = 2.0 ** (grid.exponent + 1) / grid.maximum
            case Scale.E8M0_EVEN:
                significand = 2 - 2.0 ** -(grid.mantissa_bits + 1)
                beyond = significand * 2.0**grid.exponent / grid.maximum
            case Scale.E4M3:
                # Rounding takes at most 1/17 off a normal E4M3 number.
                beyond = 17 / 16
            case _:
                beyond = 1.0
        return max(1.0, beyond / self.headroom)

    @property
    def significand_bits(self) -> int:
        """Bits that hold each magnitude times each block scale, 24 if FP32 has to round it.

        The least and the largest scales may leave the range of a type of so many bits.
        """
        assert self.grid is not None
        match self.scale:
            case Scale.FP32_5BIT:
                return _bits_of_products(self.grid, 5)
            case Scale.E4M3 if self.outer is None:
                return _bits_of_products(self.grid, 4)
            case Scale.FP32 | Scale.E4M3:
                return 24
            case _:
                return _bits_of_products(self.grid, 1)


@lru_cache(maxsize=1024)
def _bits_of_products(grid: Grid, scale_bits: int) -> int:
    """Bits of a magnitude times a scale whose significand has so many; the longest has all ones."""
    longest = 1
    for magnitude in grid.magnitudes[1:]:
        numerator, _ = struct.unpack("f", struct.pack("f", magnitude))[0].as_integer_ratio()
        odd = numerator // (numerator & -numerator)
        longest = max(longest, (odd * (2**scale_bits - 1)).bit_length())
    return min(24, longest)


def _contradictions(operand: Operand) -> list[str]:
    """What makes no sense about an operand, a sentence each."""
    block, along = operand.block, operand.block.along
    one_row = block.across == 1 and along is not None
    e4m3, eden = operand.scale is Scale.E4M3, operand.rounding is Rounding.EDEN
    ruled_out = {
        "stochastic rounding needs a grid; an operand without one has no neighbours": (
            operand.grid is None and operand.rounding is not Rounding.RTNE
        ),
        f"random_bits must be 8, 16 or 24, got {operand.random_bits}": (
            operand.random_bits not in (8, 16, 24)
        ),
        f"headroom must be from 0.5 to 16, got {operand.headroom}": (
            not 0.5 <= operand.headroom <= 16
        ),
        f"scale_maximum must be from 1 to 448, the largest E4M3 number, got "
        f"{operand.scale_maximum}": not 1 <= operand.scale_maximum <= 448,
        f"grid {operand.grid and operand.grid.name} cannot have an e4m3 scale: its maximum times "
        f"scale_maximum = {operand.scale_maximum} is beyond FP32": (
            e4m3 and operand.grid is not None and operand.scale_maximum * operand.target >= 2.0**128
        ),
        f"outer = {operand.outer} must be a multiple of the block {block}, under an e4m3 scale": (
            operand.outer is not None
            and not (e4m3 and one_row and operand.outer > 0 and operand.outer % (along or 1) == 0)
        ),
        f"alternate = {operand.alternate} must lie between 0 and the grid's maximum": (
            operand.alternate is not None
            and not (operand.grid and 0 < operand.alternate < operand.grid.maximum)
        ),
        f"alternate needs blocks of one row such as 1x16, got {block}": (
            operand.alternate is not None and not one_row
        ),
        f"alternate is a target of the scale, which must be fp32, fp32-5bit or e4m3, got "
        f"{operand.scale}": operand.alternate is not None and operand.scale.is_power_of_two,
        f"eden needs blocks of one row such as 1x16, got {block}": eden and not one_row,
        f"eden corrects the scale, which must be fp32 or e4m3, got {operand.scale}": (
            eden and not (e4m3 or operand.scale is Scale.FP32)
        ),
        "eden and alternate cannot be combined": eden and operand.alternate is not None,
    }
    return [sentence for sentence, applies in ruled_out.items() if applies]


CARRIED = Operand()
"""An operand that is not quantized."""
