"""The report tells how fast each run went and whether it was well."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dashboards.report import render
from dashboards.training_sheet import training_sheet
from sweeps.answer import answer
from sweeps.records import RunRecord
from tests.dashboards.records import finished


def told(**values: Any) -> RunRecord:
    """A run of three points, of which the middle one tells nothing of its health."""
    run = finished()
    first, second, third = run.curve[:3]
    halved = {name: value / 2 for name, value in values.items()}
    return replace(
        run,
        curve=(
            replace(first, tokens_per_second=1000.0, gradient_norm=8.0, **values),
            replace(second, tokens_per_second=9000.0, gradient_norm=0.25),
            replace(third, tokens_per_second=2000.0, gradient_norm=0.5, **halved),
        ),
    )


def test_speed_is_a_median_memory_and_imbalance_are_the_worst_and_the_ratio_is_the_last() -> None:
    run = told(mfu=0.5, memory_bytes=3 * 2**30, update_ratio=0.004, imbalance=1.5)
    (row,) = training_sheet([run]).rows
    assert row == (run.spec.label, "2k", "37.5 %", "3.00 GiB", "0.5", "8", "0.002", "1.50")


def test_what_nobody_told_is_a_dash_and_a_run_without_a_step_has_no_row() -> None:
    run = told()
    (row,) = training_sheet([run, replace(run, curve=())]).rows
    assert row[2:4] == ("–", "–")
    assert row[-2:] == ("–", "–")


def test_the_report_has_the_table_only_where_a_run_has_trained() -> None:
    def page(record: RunRecord) -> str:
        at = datetime(2026, 3, 1, tzinfo=UTC)
        return render(answer([record], resamples=100), name="a-1", spec="name: a", made_at=at)

    assert "Training of each run" in page(told())
    assert "Training of each run" not in page(replace(told(), curve=()))
