"""What the kernel benchmark says that it runs is what it runs."""

import pytest
import torch

from benchmarks.cases import AXES, BY_GRID, RHT_SIZE, Case, Section, sections
from benchmarks.kernels import cast, plain_copy
from benchmarks.results import Setting
from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, GRIDS
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Precision
from kernels.reference import FakeQuantized

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SR_UNDER_RHT = Case(name="e2m1", operand=Operand(grid=E2M1, rounding=Rounding.SR), rht=RHT_SIZE)


def full(threads: tuple[int, ...] = (1, 2)) -> list[Section]:
    return list(sections(Setting(device=CPU, threads=threads, quick=False)))


def values(case: Case, axis: str, x: torch.Tensor) -> list[torch.Tensor]:
    """What a call writes."""
    made = case.call(axis, x, Precision.FP32)()
    each = (made,) if isinstance(made, FakeQuantized) else made
    return [operand.values for operand in each]


def test_every_grid_is_measured_with_each_rounding_and_transform_in_every_number_of_threads() -> (
    None
):
    for threads in (1, 2):
        (grids,) = (
            section.cases
            for section in full()
            if section.threads == threads and section.title.startswith("Grids")
        )
        assert {case.operand.grid for case in grids} == set(GRIDS.values())
        assert len(grids) == len(set(GRIDS.values())) * 4
        for name in BY_GRID:
            ways = {case.way for case in grids if case.name == name}
            assert ways == {"rtne", "sr", "rht rtne", "rht sr"}


def test_the_other_scales_hold_what_needs_a_look_at_more_than_a_run() -> None:
    others = [case.operand for section in full((1,)) for case in section.cases]
    assert any(each.scale is Scale.E4M3 and each.block == Block(along=16) for each in others)
    assert {Block(along=16, across=16), ROW, TENSOR} <= {each.block for each in others}


@pytest.mark.parametrize("axis", AXES)
def test_the_bytes_are_those_of_x_and_of_what_is_written_and_the_copy_moves_as_many(
    axis: str,
) -> None:
    x = torch.randn(64, 96).bfloat16()
    section = Section(
        title="", cases=(SR_UNDER_RHT,), shape=(64, 96), device=CPU, threads=1,
        precision=Precision.FP32,
    )  # fmt: skip
    written = values(SR_UNDER_RHT, axis, x)
    assert len(written) == AXES[axis]
    assert section.bytes_moved(axis) == x.nbytes + sum(tensor.nbytes for tensor in written)
    copy = plain_copy(section.bytes_moved(axis), CPU)()
    assert 2 * copy.nbytes == section.bytes_moved(axis)


def test_a_row_is_along_axis_one_and_a_column_is_the_row_of_the_transpose() -> None:
    x = torch.randn(32, 48).bfloat16()
    nearest = Case(name="e2m1", operand=Operand(grid=E2M1), rht=None)
    (row,), (column,) = values(nearest, "row", x), values(nearest, "col", x)
    blocks = row.view(32, 3, 16)
    ratios = blocks.abs() / blocks.abs().amax(2, keepdim=True) * E2M1.maximum
    torch.testing.assert_close(ratios, ratios.mul(2).round() / 2)
    (turned,) = values(nearest, "row", x.t().contiguous())
    assert torch.equal(column, turned.t())
    both = values(nearest, "both", x)
    assert torch.equal(both[0], row)
    assert torch.equal(both[1], column)


def test_a_transform_and_a_draw_change_what_is_written() -> None:
    x = torch.randn(32, 48).bfloat16()
    made = [
        values(Case(name="", operand=Operand(grid=E2M1, rounding=rounding), rht=rht), "row", x)[0]
        for rounding in (Rounding.RTNE, Rounding.SR)
        for rht in (None, RHT_SIZE)
    ]
    for index, one in enumerate(made):
        assert not any(torch.equal(one, other) for other in made[:index])


def test_the_cast_is_there_and_back() -> None:
    x = torch.randn(8, 16).bfloat16()
    again = cast(x)
    assert again.dtype is torch.bfloat16
    assert torch.equal(again, x)
    assert again.data_ptr() != x.data_ptr()


def test_a_gpu_writes_bf16_where_the_values_are_rounded_to_it() -> None:
    setting = Setting(device=CUDA, threads=(1,), quick=False)
    found = {(section.precision, section.written, section.bytes_moved("row") // section.elements)
             for section in sections(setting)}  # fmt: skip
    assert found == {
        (Precision.BF16, torch.bfloat16, 4),
        (Precision.FP32, torch.float32, 6),
    }
    assert min(section.elements * 2 for section in sections(setting)) >= 64 * 2**20


def test_a_gpu_is_given_few_kernels_to_compile_and_bf16_for_the_narrow_grids_alone() -> None:
    setting = Setting(device=CUDA, threads=(1,), quick=False)
    compiled = {
        (section.precision, case, axis)
        for section in sections(setting)
        for case in section.cases
        for axis in AXES
    }
    assert len(compiled) <= 84
    names = {
        precision: {case.name for each, case, _ in compiled if each is precision}
        for precision in Precision
    }
    assert names[Precision.BF16] == {"int4", "e2m1"}
    assert names[Precision.FP32] == {"int4", "e2m1", "e4m3", "e4m3 1x16", "e8m0 1x32"}
    scales = {case.operand.scale for _, case, _ in compiled}
    assert {Scale.FP32, Scale.E4M3, Scale.E8M0_RCEIL} == scales


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_named_grids_alone_are_measured_on_any_device(device: torch.device, quick: bool) -> None:
    setting = Setting(device=device, threads=(1,), quick=quick, grids=("fp16", "e1m2"))
    (section,) = sections(setting)
    assert [case.name for case in section.cases] == ["fp16"] * 4 + ["e1m2"] * 4
    assert {case.operand.grid for case in section.cases} == {GRIDS["fp16"], GRIDS["e1m2"]}
    assert {(case.operand.scale, str(case.operand.block)) for case in section.cases} == {
        (Scale.FP32, "1x16")
    }
