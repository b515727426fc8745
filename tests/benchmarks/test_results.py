"""A result as tables of 80 columns, and as JSON with a line for each row."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from api.terminal import print_lines
from benchmarks import kernels, step
from benchmarks.cases import AXES, BY_GRID, BY_SCALE
from benchmarks.machine import Machine
from benchmarks.results import Column, Result, Table, spread_fields, write
from benchmarks.timing import spread

MACHINE = Machine(
    device="cpu",
    name="Some Processor, AVX2",
    kernels="cpu: C kernel, AVX2",
    cores=4,
    python="3.11.7",
    torch="2.13.0",
    triton=None,
    compiler=None,
    commit=None,
    date="2026-01-02T03:04:05+00:00",
    load=None,
)
TABLE = Table(
    title="Things",
    columns=(
        Column("thing", "thing"),
        Column("ratio.median", "x other", ".2f"),
        Column("ratio.interval.0", "low", ".2f"),
        Column("share", "of\ncopy", ".0%"),
    ),
    rows=(
        {
            "thing": "fast",
            "ratio": {"median": 1.5, "interval": [1.25, 2.0], "rounds": 9},
            "share": 0.7,
            "unseen": 3,
        },
        {"thing": "slow", "ratio": {"median": 12.0, "interval": None, "rounds": 2}, "share": None},
    ),
    note="Two things.",
)
RESULT = Result(
    benchmark="things",
    machine=MACHINE,
    quick=False,
    tables=(TABLE, replace(TABLE, title="More")),
    reading="x other: slower by.",
    legend={"thing": "what"},
)


def printed(result: Result) -> list[str]:
    text = StringIO()
    console = Console(file=text, width=80, highlight=False, markup=False)
    print_lines(console, result.lines())
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_a_table_prints_the_columns_it_names_and_a_dash_for_what_is_not_there() -> None:
    assert printed(RESULT)[:9] == [
        "Some Processor, AVX2; torch 2.13.0, cpu: C kernel, AVX2",
        "x other: slower by.",
        "",
        "Things",
        "                        of",
        "thing  x other   low  copy",
        "fast      1.50  1.25   70%",
        "slow     12.00     -     -",
        "Two things.",
    ]


def test_a_quick_result_says_that_it_is_rough() -> None:
    assert any("rough" in line for line in printed(replace(RESULT, quick=True)))
    assert not any("rough" in line for line in printed(RESULT))


def test_other_work_on_the_machine_is_said_before_the_tables() -> None:
    busy = replace(RESULT, machine=replace(MACHINE, load="There was other work."))
    assert printed(busy)[1] == "There was other work."
    assert printed(busy)[2:] == printed(RESULT)[1:]


def test_the_file_holds_everything_and_a_line_for_each_row(tmp_path: Path) -> None:
    path = write(RESULT, tmp_path)
    assert path == tmp_path / "things-cpu.json"
    text = path.read_text()
    assert json.loads(text) == {
        "benchmark": "things",
        "quick": False,
        "machine": {
            "device": "cpu",
            "name": "Some Processor, AVX2",
            "kernels": "cpu: C kernel, AVX2",
            "cores": 4,
            "python": "3.11.7",
            "torch": "2.13.0",
            "triton": None,
            "compiler": None,
            "commit": None,
            "date": "2026-01-02T03:04:05+00:00",
            "load": None,
        },
        "reading": "x other: slower by.",
        "legend": {"thing": "what"},
        "tables": [
            {"title": title, "note": "Two things.", "rows": list(TABLE.rows)}
            for title in ("Things", "More")
        ],
    }
    assert sum('"thing": "slow"' in line for line in text.splitlines()) == 2


def test_a_result_without_tables_or_rows_is_json_too(tmp_path: Path) -> None:
    for tables in ((), (replace(TABLE, rows=()),)):
        path = write(replace(RESULT, tables=tables), tmp_path)
        found = json.loads(path.read_text())["tables"]
        assert [table["rows"] for table in found] == [[] for _ in tables]


def test_what_is_not_finite_is_no_result(tmp_path: Path) -> None:
    row = {"thing": "endless", "ratio": {"median": float("inf"), "interval": None}, "share": None}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(replace(RESULT, tables=(replace(TABLE, rows=(row,)),)), tmp_path)


def test_a_spread_is_written_with_four_digits() -> None:
    fields = spread_fields(spread([float(place) / 7 for place in range(1, 12)]))
    assert fields == {
        "median": 0.8571,
        "quartiles": [0.5, 1.214],
        "interval": [0.2857, 1.429],
        "rounds": 11,
    }
    assert spread_fields(spread([1.0, 2.0]))["interval"] is None


def test_the_tables_of_kernels_and_steps_fit_into_80_columns() -> None:
    extreme = {
        "gelem_per_s": 0.0123,
        "to_cast": {"median": 99.94},
        "copy_share": {"median": 9.99},
    }
    quantizers = [
        {"name": name, "way": "rht rtne", **dict.fromkeys(AXES, extreme)}
        for name in (*BY_GRID, *BY_SCALE)
    ]
    steps = [
        {
            "recipe": "ufp4-rht-dgrad-wgrad",
            "gemm": "fp32",
            "milliseconds": 12340.0,
            "ratio": {"median": 12.345, "interval": [12.345, 12.345], "rounds": 1000},
        }
    ]
    adding = {"median": 99.999, "interval": [-0.9, 99.999]}
    transformed = [
        {"name": name, "rounding": "rtne", "rht_adds": dict.fromkeys(AXES, adding)}
        for name in (*BY_GRID, *BY_SCALE)
    ]
    for columns, rows in (
        (kernels.COLUMNS, quantizers),
        (kernels.RHT_COLUMNS, transformed),
        (step.COLUMNS, steps),
    ):
        table = Table(title="Wide", columns=columns, rows=tuple(rows))
        lines = printed(replace(RESULT, tables=(table,)))
        assert max(map(len, lines)) <= 80
        assert len(lines) >= len(rows) + 5
