"""Blocks: which elements of an operand share a scale.

    1x16      16 elements along the contraction axis
    16x16     16 along it times 16 across it
    row       the whole contraction axis
    tensor    everything

A block at an end of an axis holds the elements that are left.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A rectangle of elements.

    Attributes:
        along: Elements along the contraction axis, a multiple of 16; None for the whole axis.
        across: Elements across it; None for the whole axis.

    Raises:
        ValueError: If a size is not as said, or all of `across` is asked with part of `along`.
    """

    along: int | None = 16
    across: int | None = 1

    def __post_init__(self) -> None:
        if self.along is not None and (self.along < 16 or self.along % 16):
            raise ValueError(f"block must be a positive multiple of 16, got {self.along}")
        if self.across is not None and self.across < 1:
            raise ValueError(f"block must be at least 1 across, got {self.across}")
        if (self.along is None) != (self.across is None) and (self.along, self.across) != (None, 1):
            raise ValueError("a block takes a whole axis only as `row` or as `tensor`")

    def __str__(self) -> str:
        match self.across, self.along:
            case None, _:
                return "tensor"
            case _, None:
                return "row"
            case across, along:
                return f"{across}x{along}"


BLOCK_1X16 = Block()
ROW = Block(along=None, across=1)
TENSOR = Block(along=None, across=None)


def parse_block(text: str) -> Block:
    """The block of a text such as `1x16`, `128x128`, `row` or `tensor`; across comes first.

    Raises:
        ValueError: If the text is none of these.
    """
    if text in ("row", "tensor"):
        return ROW if text == "row" else TENSOR
    if sizes := re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,5})", text):
        across, along = map(int, sizes.groups())
        return Block(along=along, across=across)
    raise ValueError(f"a block is written as 1x16, 16x16, row or tensor, got {text!r}")
