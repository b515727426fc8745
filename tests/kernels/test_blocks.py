"""Blocks: what can be written, what cannot, and what each covers."""

import pytest
import torch

from kernels.blocks import BLOCK_1X16, ROW, TENSOR, Block, parse_block
from kernels.tiles import tiling


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("1x16", BLOCK_1X16),
        ("1x32", Block(along=32)),
        ("1x64", Block(along=64)),
        ("1x128", Block(along=128)),
        ("16x16", Block(along=16, across=16)),
        ("32x32", Block(along=32, across=32)),
        ("128x128", Block(along=128, across=128)),
        ("3x48", Block(along=48, across=3)),
        ("row", ROW),
        ("tensor", TENSOR),
    ],
)
def test_a_block_is_what_its_text_says_and_back(text: str, block: Block) -> None:
    assert parse_block(text) == block
    assert str(block) == text


@pytest.mark.parametrize(
    "text", ["", "16", "1x", "x16", "0x16", "-1x16", "1x16x16", "ROW", "1 x16"]
)
def test_another_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"written as 1x16, 16x16, row or tensor, got '{text}'"):
        parse_block(text)


@pytest.mark.parametrize("along", [0, -16, 8, 24, 100])
def test_a_block_along_the_axis_is_a_positive_multiple_of_16(along: int) -> None:
    with pytest.raises(ValueError, match=f"positive multiple of 16, got {along}"):
        Block(along=along)
    if along > 0:
        with pytest.raises(ValueError, match="multiple of 16"):
            parse_block(f"1x{along}")


def test_a_block_across_the_axis_has_a_row_at_least() -> None:
    with pytest.raises(ValueError, match="at least 1 across, got 0"):
        Block(across=0)


@pytest.mark.parametrize(("along", "across"), [(None, 2), (16, None), (None, 16)])
def test_a_whole_axis_is_taken_by_rows_and_tensors_alone(
    along: int | None, across: int | None
) -> None:
    with pytest.raises(ValueError, match="only as `row` or as `tensor`"):
        Block(along=along, across=across)


@pytest.mark.parametrize(
    ("block", "shape"),
    [
        (Block(along=16), (5, 70)),
        (Block(along=16), (1, 1)),
        (Block(along=32, across=3), (7, 96)),
        (Block(along=128, across=128), (20, 30)),
        (ROW, (5, 70)),
        (TENSOR, (5, 70)),
        (TENSOR, (16, 32)),
    ],
    ids=str,
)
def test_tiles_hold_each_element_in_its_block_and_join_to_the_matrix(
    block: Block, shape: tuple[int, int]
) -> None:
    rows, columns = shape
    matrix = torch.arange(1, rows * columns + 1, dtype=torch.float32).view(shape)
    cut = tiling(block, rows, columns)
    tiles = cut.cut(matrix)
    across, along = block.across or rows, block.along or columns + -columns % 16
    assert tiles.shape == (-(-columns // along), along, across, -(-rows // across))
    assert torch.equal(cut.join(tiles), matrix)
    for row in range(rows):
        for column in range(0, columns, 7):
            place = (column // along, column % along, row % across, row // across)
            assert tiles[place] == matrix[row, column]
    assert tiles.sum() == matrix.sum()


@pytest.mark.parametrize(
    "block", [Block(along=32), Block(along=16, across=4), ROW, TENSOR], ids=str
)
@pytest.mark.parametrize("first_row", [0, 12])
def test_runs_are_numbered_row_by_row_whatever_the_block(block: Block, first_row: int) -> None:
    rows, columns = 9, 70
    cut = tiling(block, rows, columns)
    runs = cut.runs(first_row, torch.device("cpu")).repeat_interleave(16, 1)
    expected = torch.arange(first_row, first_row + rows)[:, None] * 5 + torch.arange(columns) // 16
    assert torch.equal(cut.join(runs), expected)
