"""The report says where runs trained and what the preflight found there."""

from dataclasses import replace
from datetime import UTC, datetime

from dashboards.how_run import devices_sheet
from dashboards.report import render
from kernels.verdict import Check, Preflight
from sweeps.answer import answer
from tests.dashboards.records import finished

GOOD = Check(name="division", passed=True, detail="all 32 quotients are right to the bit")
BAD = Check(name="rht", passed=False, detail="the RHT of 16 is not orthogonal by 0.5")


def on(device: str, *checks: Check, seed: int = 0):
    found = Preflight(device=device, seconds=0.5, checks=checks)
    return replace(finished(seed=seed), preflight=found)


def test_runs_are_counted_by_device_and_what_failed_there_is_told():
    records = [
        on("cuda: NVIDIA H200", GOOD, seed=0),
        on("cuda: NVIDIA H200", GOOD, seed=1),
        on("cpu: plain torch, AVX2", GOOD, BAD, seed=2),
        finished(seed=3),
    ]
    assert devices_sheet(records).rows == (
        (
            "cpu: plain torch, AVX2",
            "1",
            "2",
            "the preflight of cpu: plain torch, AVX2 failed: rht: "
            "the RHT of 16 is not orthogonal by 0.5",
        ),
        ("cuda: NVIDIA H200", "2", "1", "none"),
    )


def test_a_report_has_the_table_only_where_there_is_something_to_tell():
    def page(record) -> str:
        at = datetime(2026, 3, 1, tzinfo=UTC)
        return render(answer([record], resamples=100), name="a-1", spec="name: a", made_at=at)

    assert "cuda: NVIDIA H200" in page(on("cuda: NVIDIA H200", GOOD))
    assert "A run whose preflight fails does not start" not in page(finished())
