"""Lanes: a matrix cut into the pieces that the C kernel works on side by side.

    lane    `span` elements of a row of the operand: whole blocks, whole transforms
    group   lanes that lie beside one another, across the contraction axis

Where rows lie along memory and end with a span, the lanes of all rows follow one another without a
gap and are one group. What does not end with a span is filled up with zeros, which change neither a
maximum nor a sum.
"""

from dataclasses import dataclass
from math import lcm

from torch import Tensor
from torch.nn.functional import pad

from kernels.blocks import Block
from kernels.operands import Operand
from kernels.philox import RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A matrix cut into lanes.

    Attributes:
        axis: The contraction axis.
        rows: Across it.
        length: Along it, k' of docs/numerics.md.
        filled: Along it with the zeros that make whole spans of it.
        block: Elements of a lane whose maximum is taken together.
        span: Elements of a lane.
        outer: Elements of a lane that share an FP32 scale, or 0.
        one_group: Whether all lanes are one group.
    """

    axis: int
    rows: int
    length: int
    filled: int
    block: int
    span: int
    outer: int
    one_group: bool

    @property
    def lanes(self) -> int:
        """Lanes of a group."""
        return self.rows * (self.filled // self.span if self.one_group else 1)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return 1 if self.one_group else self.filled // self.span

    @property
    def maxima(self) -> tuple[int, int]:
        """The shape of the maxima of all blocks: along a lane and its groups, lanes."""
        return self.groups * (self.span // self.block), self.lanes

    def fill(self, x: Tensor) -> Tensor:
        """The matrix with its zeros, contiguous."""
        missing = self.filled - x.shape[self.axis]
        if missing:
            x = pad(x, (0, missing) if self.axis == 1 else (0, 0, 0, missing))
        return x.contiguous()

    def trim(self, y: Tensor) -> Tensor:
        """The part of a filled matrix that leaves, contiguous."""
        if self.length == self.filled:
            return y
        return y.narrow(self.axis, 0, self.length).contiguous()


def cut(shape: tuple[int, int], operand: Operand, rht: int, axis: int) -> Cut:
    """How an operand is cut for its blocks and its transform.

    Args:
        shape: Of its matrix.
        operand: The rule.
        rht: Elements of a transform, or 0.
        axis: The contraction axis.
    """
    size = rht or 1
    rows, length = shape[1 - axis], up_to(shape[axis], size)
    block, outer = _along(operand, up_to(length, RUN)), 0
    if operand.outer is not None:
        outer = min(operand.outer, up_to(length, block))
    span = lcm(block, size, outer or 1)
    filled = up_to(length, span)
    across = 1 if operand.grid is None else operand.block.across
    return Cut(
        axis=axis,
        rows=rows,
        length=length,
        filled=filled,
        block=block,
        span=span,
        outer=outer,
        one_group=axis == 1 and filled == shape[axis] and across in (1, None),
    )


def share(maxima: Tensor, block: Block) -> Tensor:
    """The maximum of each whole block, in the place of each of its lanes.

    Args:
        maxima: [blocks along, lanes] FP32, not empty.
        block: Which lanes share one.

    Returns:
        The same shape, contiguous.
    """
    if block.across == 1:
        return maxima
    if block.across is None:
        return maxima.amax().expand_as(maxima).contiguous()
    blocks, lanes = maxima.shape
    across = min(block.across, lanes)
    tiles = pad(maxima, (0, -lanes % across)).view(blocks, -1, across)
    return tiles.amax(2, keepdim=True).expand_as(tiles).reshape(blocks, -1)[:, :lanes].contiguous()


def up_to(size: int, multiple: int) -> int:
    """The least multiple that holds the size."""
    return size + -size % multiple


def _along(operand: Operand, length: int) -> int:
    """Elements of a lane whose maximum is taken together; those of a tensor are joined later."""
    if operand.grid is None or operand.block.across is None:
        return RUN
    return length if operand.block.along is None else min(operand.block.along, length)
