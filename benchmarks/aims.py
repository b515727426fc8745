"""How many casts a quantizer is meant to take at most, and which take more.

    rht rtne            3 casts of the same tensor, BF16 to FP32 and back
    sr and rht sr       5 casts

For one operand under an FP32 scale of 1x16 on one CPU thread, by the median of the ratios.
"""

from collections.abc import Iterator, Sequence

from benchmarks.cases import Case, Section
from benchmarks.results import Row
from kernels.blocks import BLOCK_1X16
from kernels.operands import Scale

AIMS = {"rht rtne": 3, "sr": 5, "rht sr": 5}
"""Casts by the way of a case."""
ONE_OPERAND = ("row", "col")
LEGEND = {
    "aim": "casts that row and col are meant to take at most, null where nothing is aimed at",
    "beyond_aim": "along which of them it takes more",
}


def aim_of(section: Section, case: Case) -> int | None:
    """Casts that a case is meant to take at most; None where nothing is aimed at."""
    operand = case.operand
    is_aimed_at = (
        section.threads == 1 and operand.scale is Scale.FP32 and operand.block == BLOCK_1X16
    )
    return AIMS.get(case.way) if is_aimed_at else None


def beyond(row: Row, aim: int | None) -> list[str]:
    """Axes along which a row takes more casts."""
    if aim is None:
        return []
    return [axis for axis in ONE_OPERAND if row[axis]["to_cast"]["median"] > aim]


def remark(rows: Sequence[Row]) -> str:
    """Which rows take more casts than they are meant to, or nothing if none has an aim."""
    if all(row["aim"] is None for row in rows):
        return ""
    exceeding = "; ".join(_exceeding(rows)) or "none"
    aims = f"{AIMS['rht rtne']} casts for rht rtne, {AIMS['sr']} for sr"
    return f"Row or col over the aim of {aims}: {exceeding}."


def _exceeding(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row["beyond_aim"]:
            yield f"{row['name']} {row['way']} {', '.join(row['beyond_aim'])}"
