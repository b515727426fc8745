"""Tiles: a matrix [rows, columns] cut into blocks and laid out [width, along, across, height].

The columns are the contraction axis; width counts blocks along it, height blocks across it. A
block at an end of an axis is filled up with zeros, which change neither a maximum nor a sum. The
last axis walks over blocks, so that one vector instruction serves many of them, and with blocks of
one row the layout is the transposed matrix.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from kernels.blocks import Block
from kernels.philox import RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How a matrix is cut.

    Attributes:
        rows: Of the matrix.
        columns: Of the matrix.
        across: Rows of a block.
        along: Columns of a block, a multiple of 16.
    """

    rows: int
    columns: int
    across: int
    along: int

    def cut(self, matrix: Tensor) -> Tensor:
        """The tiles of [rows, columns], contiguous."""
        return _cut(matrix, self.across, self.along)

    def join(self, tiles: Tensor) -> Tensor:
        """The matrix [rows, columns] of tiles, as a view where that is possible."""
        lanes = tiles.transpose(2, 3).reshape(tiles.shape[0] * self.along, -1)
        return lanes.t()[: self.rows, : self.columns]

    def runs(self, first_row: int, device: torch.device) -> Tensor:
        """Which run of 16 elements each place of the tiles draws from.

        Args:
            first_row: Of this matrix in the one whose runs are numbered from 0.
            device: Where the result lies.

        Returns:
            [width, along / 16, across, height] int64.
        """
        per_row = -(-self.columns // RUN)
        row = torch.arange(first_row, first_row + self.rows, device=device).unsqueeze(1)
        place = torch.arange(per_row, device=device)
        return _cut(row * per_row + place, self.across, self.along // RUN)


def tiling(block: Block, rows: int, columns: int) -> Tiling:
    """The tiling of a matrix into blocks."""
    return Tiling(
        rows=rows,
        columns=columns,
        across=rows if block.across is None else block.across,
        along=columns + -columns % RUN if block.along is None else block.along,
    )


def _cut(matrix: Tensor, across: int, along: int) -> Tensor:
    rows, columns = matrix.shape
    if columns % along or rows % across:
        matrix = F.pad(matrix, (0, -columns % along, 0, -rows % across))
    lanes = matrix.t().contiguous()
    return lanes.view(lanes.shape[0] // along, along, -1, across).transpose(2, 3).contiguous()
