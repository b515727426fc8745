from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from dashboards.index import SweepRow, render
from tests.dashboards.html_check import of, read

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def row(name: str = "nightly", *, at: datetime = NOON, **changes: Any) -> SweepRow:
    values: dict[str, Any] = {
        "sweep_id": "a1b2c3",
        "name": name,
        "state": "running",
        "runs_done": 3,
        "runs_diverged": 1,
        "runs_failed": 0,
        "runs_total": 9,
        "tokens_done": 5_000_000,
        "tokens_total": 18_000_000,
        "submitted_at": at,
        "report_href": "/v1/sweeps/a1b2c3/report",
    }
    return SweepRow(**(values | changes))


def text_of(page: str) -> list[str]:
    return [" ".join("".join(e.text).split()) for e in of(read(page), "td", "a")]


def test_a_sweep_shows_its_progress_and_links_to_its_report():
    page = render([row()])
    (link,) = [a for a in of(read(page), "a") if not a.attributes["href"].startswith("?")]
    assert link.attributes["href"] == "/v1/sweeps/a1b2c3/report"
    assert {"3 of 9", "5M of 18M", "running", "nightly"} <= set(text_of(page))
    (bar,) = of(read(page), "progress")
    assert (bar.attributes["value"], bar.attributes["max"]) == ("5000000", "18000000")


def test_the_newest_comes_first_whatever_its_time_zone():
    east = timezone(timedelta(hours=5, minutes=30))
    older = row("older", at=datetime(2026, 11, 29, 13, tzinfo=east))
    newer = row("newer", at=datetime(2026, 11, 29, 8, tzinfo=UTC))
    page = render([older, newer])
    assert page.index(">newer<") < page.index(">older<")
    (_, shown) = of(read(page), "time")
    assert shown.text == ["2026-11-29 07:30"]


def test_no_sweep_says_how_to_submit_one():
    page = render([])
    assert "No sweep has been submitted." in page
    assert not of(read(page), "table")


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '" onclick="x', "é🜁" * 100])
def test_a_name_stays_text(name):
    elements = read(render([row(name)]))
    assert len(of(elements, "script")) == 1
    assert name in ["".join(a.text) for a in of(elements, "a")]
    assert not [key for e in elements for key in e.attributes if key.startswith("on")]


def test_a_sweep_without_tokens_has_an_empty_bar():
    (bar,) = of(read(render([row(tokens_done=0, tokens_total=0)])), "progress")
    assert bar.attributes["max"] == "1"
