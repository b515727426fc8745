"""Which quantizers take more casts than they are meant to."""

import torch

from benchmarks.aims import aim_of, beyond, remark
from benchmarks.cases import Case, Section
from kernels.blocks import Block
from kernels.formats import E2M1
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Precision


def aim(
    *, threads: int | None = 1, rounding: Rounding = Rounding.RTNE, rht: int | None = 16,
    scale: Scale = Scale.FP32, along: int = 16,
) -> int | None:  # fmt: skip
    operand = Operand(grid=E2M1, rounding=rounding, scale=scale, block=Block(along=along))
    case = Case(name="e2m1", operand=operand, rht=rht)
    section = Section(
        title="", cases=(case,), shape=(16, 16), device=torch.device("cpu"), threads=threads,
        precision=Precision.FP32,
    )  # fmt: skip
    return aim_of(section, case)


def row(way: str, aim: int | None, beyond: list[str]) -> dict[str, object]:
    return {"name": "e2m1", "way": way, "aim": aim, "beyond_aim": beyond}


def test_an_aim_is_for_one_thread_and_an_fp32_scale_of_1x16() -> None:
    assert aim() == 3
    assert aim(rounding=Rounding.SR) == aim(rounding=Rounding.SR, rht=None) == 5
    assert aim(rht=None) is None
    assert aim(threads=2) is aim(threads=None) is None
    assert aim(scale=Scale.E8M0_RCEIL) is None
    assert aim(along=32) is None


def test_what_takes_more_casts_than_the_aim_is_beyond_it_and_two_operands_are_not_asked() -> None:
    figures = {
        axis: {"to_cast": {"median": casts}}
        for axis, casts in (("row", 3.0), ("col", 3.01), ("both", 9.0))
    }
    assert beyond(figures, 3) == ["col"]
    assert beyond(figures, 5) == []
    assert beyond(figures, None) == []


def test_the_remark_names_each_that_is_beyond_or_says_none() -> None:
    within = row("rtne", None, []), row("rht rtne", 3, [])
    over = row("sr", 5, ["col"]), row("rht sr", 5, ["row", "col"])
    assert remark((*within, *over)).endswith(": e2m1 sr col; e2m1 rht sr row, col.")
    assert remark(within).endswith(": none.")
    assert remark(within[:1]) == ""
