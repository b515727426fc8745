"""Throughput of fake quantization, beside a plain copy of the same bytes and a cast, in one run.

x is BF16. What is written is FP32, or BF16 on a GPU where the values are rounded to it for their
GEMM. A copy moves the same number of bytes: half of the sum is read and half of it written, into
memory that is there already. The cast is BF16 to FP32 and back, each into a new tensor.

Elements are those of x, once, however often they are read and written. `benchmarks.cases` says
what is measured. A quantizer with its transform and without is timed in the same rounds, so that a
second table says what the transform adds.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from statistics import median

import torch
from torch import Tensor

from benchmarks import aims
from benchmarks.cases import AXES, Case, Section, sections
from benchmarks.machine import machine
from benchmarks.results import SPREAD_LEGEND, Column, Result, Row, Setting, Table, spread_fields
from benchmarks.timing import Comparison, compare, cpu_threads
from sweeps.wording import plural

CAST = "cast"

LEGEND = {
    "name": "the grid, or the scale and its block",
    "way": "rounding, after a random Hadamard transform where it says rht",
    "grid": "element grid",
    "scale": "how a scale is stored",
    "block": "elements that share one",
    "rounding": "rtne, or sr with draws of 8 bits",
    "rht": "elements of the random Hadamard transform, null without one",
    "shape": "of x, BF16",
    "threads": "CPU threads, null on a GPU",
    "written": "type of what is written",
    "row, col, both": "along which axis",
    "bytes": "read once and written; the copy moves as many",
    "gelem_per_s": "1e9 elements of x in a second, by the median time",
    "copy_share": "time of the copy / time of the kernel, of the same round",
    "to_cast": "time of the kernel / time of the cast, of the same round",
    "seconds": "of one call, median over the rounds",
    "rht_adds": "time with the transform / time without, of the same round, less 1; 0.06 is 6 %",
    **aims.LEGEND,
    **SPREAD_LEGEND,
}

COLUMNS = (
    Column("name", "quantizer"),
    Column("way", "rounding"),
    *(
        column
        for axis in AXES
        for column in (
            Column(f"{axis}.gelem_per_s", f"{axis}\nGel/s", "g"),
            Column(f"{axis}.to_cast.median", "x\ncast", ".3g"),
            Column(f"{axis}.copy_share.median", "of\ncopy", ".0%"),
        )
    ),
)
RHT_COLUMNS = (
    Column("name", "quantizer"),
    Column("rounding", "rounding"),
    *(
        column
        for axis in AXES
        for column in (
            Column(f"rht_adds.{axis}.median", f"{axis}\nRHT adds", "+.1%"),
            Column(f"rht_adds.{axis}.interval.1", "95 %\nhigh", "+.1%"),
        )
    ),
)
READING = (
    "Gel/s: 1e9 elements of x in a second. x cast: time over that of the cast BF16 to FP32 to BF16 "
    "of x. of copy: time of a copy of the same bytes over that of the kernel. RHT adds: time with "
    "the random Hadamard transform over that without, less 1. Ratios are of the same round, the "
    "median over the rounds; high is the upper end of a 95 % interval of it."
)


def run(setting: Setting) -> Result:
    """Every section on the device."""
    return Result(
        benchmark="kernels",
        machine=machine(setting.device),
        quick=setting.quick,
        tables=tuple(
            table
            for section in sections(setting)
            for table in _tables(section, quick=setting.quick)
        ),
        reading=READING,
        legend=LEGEND,
    )


def cast(x: Tensor) -> Tensor:
    """BF16 to FP32 and back."""
    return x.to(torch.float32).to(torch.bfloat16)


def plain_copy(moved: int, device: torch.device) -> Callable[[], Tensor]:
    """Reads half of so many bytes and writes the other half."""
    source = torch.ones(moved // 2, dtype=torch.uint8, device=device)
    return partial(torch.empty_like(source).copy_, source)


def _tables(section: Section, *, quick: bool) -> Iterator[Table]:
    """The throughput of each case, and what RHT adds to it."""
    x = torch.randn(section.shape, generator=torch.Generator().manual_seed(0))
    x = x.to(section.device, torch.bfloat16)
    rows: list[Row] = []
    added: list[Row] = []
    with cpu_threads(section.threads), torch.no_grad():
        for _, group in groupby(section.cases, key=lambda case: case.name):
            cases = tuple(group)
            comparison = _compared(section, cases, x, quick=quick)
            rows += _rows(section, cases, comparison)
            added += _added(section, cases, comparison)
    size, written = "x".join(map(str, section.shape)), _name(section.written)
    where = "" if section.threads is None else f", {plural(section.threads, 'thread')}"
    yield Table(
        title=f"{section.title}: x {size} bf16, writes {written}{where}",
        columns=COLUMNS,
        rows=tuple(rows),
        note="\n".join(filter(None, (_note(rows), aims.remark(rows)))),
    )
    yield Table(
        title=f"RHT adds: {section.title}, {size} to {written}{where}",
        columns=RHT_COLUMNS,
        rows=tuple(added),
    )


def _compared(section: Section, cases: Sequence[Case], x: Tensor, *, quick: bool) -> Comparison:
    """All cases in the same rounds, along each axis."""
    callables: dict[str, Callable[[], object]] = {CAST: partial(cast, x)}
    for axis in AXES:
        callables[f"copy {axis}"] = plain_copy(section.bytes_moved(axis), section.device)
        for case in cases:
            callables[f"{case.way} {axis}"] = case.call(axis, x, section.precision)
    return compare(
        callables,
        baseline=CAST,
        rounds=3 if quick else 25,
        min_seconds=0.0005 if quick else 0.002,
        device=section.device,
    )


def _rows(section: Section, cases: Sequence[Case], comparison: Comparison) -> Iterator[Row]:
    """A row for each case."""
    for case in cases:
        operand = case.operand
        figures = {axis: _figures(section, case, axis, comparison) for axis in AXES}
        aim = aims.aim_of(section, case)
        yield {
            "name": case.name,
            "way": case.way,
            "grid": operand.grid and operand.grid.name,
            "scale": operand.scale.value,
            "block": str(operand.block),
            "rounding": operand.rounding.value,
            "rht": case.rht,
            **_where(section),
            **figures,
            "aim": aim,
            "beyond_aim": aims.beyond(figures, aim),
        }


def _added(section: Section, cases: Sequence[Case], comparison: Comparison) -> Iterator[Row]:
    """A row for each case with RHT, beside the same without."""
    for case in cases:
        if case.rht is None:
            continue
        rounding = case.operand.rounding.value
        yield {
            "name": case.name,
            "rounding": rounding,
            "rht": case.rht,
            **_where(section),
            "rht_adds": {
                axis: spread_fields(comparison.added(f"{case.way} {axis}", to=f"{rounding} {axis}"))
                for axis in AXES
            },
        }


def _where(section: Section) -> Row:
    return {
        "shape": section.shape,
        "threads": section.threads,
        "written": _name(section.written),
    }


def _figures(section: Section, case: Case, axis: str, comparison: Comparison) -> Row:
    name = f"{case.way} {axis}"
    seconds = comparison.seconds(name).median
    return {
        "bytes": section.bytes_moved(axis),
        "seconds": float(f"{seconds:.4g}"),
        "gelem_per_s": float(f"{section.elements / seconds / 1e9:.3g}"),
        "to_cast": spread_fields(comparison.ratio(name)),
        "copy_share": spread_fields(comparison.ratio(f"copy {axis}", to=name)),
    }


def _name(dtype: torch.dtype) -> str:
    return {torch.float32: "fp32", torch.bfloat16: "bf16"}[dtype]


def _note(rows: list[Row]) -> str:
    """How far the rounds were apart."""
    ratios = [row[axis]["to_cast"] for row in rows for axis in AXES]
    widths = [(ratio["quartiles"][1] - ratio["quartiles"][0]) / ratio["median"] for ratio in ratios]
    return (
        f"Medians of {ratios[0]['rounds']} rounds; the quartiles of a ratio to the cast are "
        f"{median(widths):.0%} of it apart, at most {max(widths):.0%}."
    )
