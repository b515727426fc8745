"""The report in a headless Chromium that reaches no network.

The browser writes what a page logs to its standard error as lines with `CONSOLE`. The report's
policy forbids every request, so one would be logged as a violation; a first test sees that.
"""

import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboards import report
from kernels.presets import PRESETS
from sweeps.answer import answer
from sweeps.records import RunRecord
from tests.dashboards.html_check import of, read
from tests.dashboards.records import diverged, finished, sweep

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason=f"no browser on the path: {', '.join(NAMES)}"),
]


def opened(path: Path, folder: Path, query: str = "", width: int = 1280) -> tuple[str, list[str]]:
    """The page as the browser left it, and what it logged."""
    done = subprocess.run(
        [
            str(BROWSER),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--proxy-server=127.0.0.1:9",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},900",
            "--virtual-time-budget=10000",
            "--enable-logging=stderr",
            "--dump-dom",
            f"{path.as_uri()}{query}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def written(records: Sequence[RunRecord], folder: Path) -> Path:
    path = folder / "report.html"
    when = datetime(2026, 11, 29, tzinfo=UTC)
    found = answer(records, resamples=100)
    page = report.render(found, name="<script>", spec="name: x\n", made_at=when)
    path.write_text(page, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "bad", ['<img src="http://example.com/x.png">', "<script>throw new Error('x')</script>"]
)
def test_a_request_and_an_error_are_noticed(tmp_path, bad):
    page = tmp_path / "bad.html"
    policy = "default-src 'none'; script-src 'unsafe-inline'"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page.write_text(f"<!doctype html>{head}{bad}")
    _, logged = opened(page, tmp_path)
    assert logged


ALWAYS = ("figure-loss-curves", "figure-gap-bars", "figure-gap-law", "figure-compute")


@pytest.mark.parametrize(
    ("records", "query", "width", "more"),
    [
        ((*sweep(), diverged(PRESETS["e4m3"])), "", 1280, ("figure-effective",)),
        (sweep(seeds=(0, 1)), "?theme=dark", 600, ("figure-effective",)),
        ((), "", 1280, ()),
        ((finished(title="<script>alert(1)</script>"),), "?theme=light", 1280, ()),
    ],
    ids=["finished", "narrow and dark", "no records", "a hostile name"],
)
def test_every_figure_is_drawn_and_nothing_is_logged(tmp_path, records, query, width, more):
    dom, logged = opened(written(records, tmp_path), tmp_path, query, width)
    assert logged == []
    elements = read(dom)
    (root,) = of(elements, "html")
    assert root.attributes["data-drawn"] == str(len(ALWAYS) + len(more))
    assert root.attributes.get("data-theme", "") == query.removeprefix("?theme=")
    plots = [e for e in elements if "js-plotly-plot" in e.attributes.get("class", "").split()]
    assert [plot.attributes["id"] for plot in plots] == [*ALWAYS, *more]


def test_lines_bars_and_points_are_on_the_page(tmp_path):
    dom, _ = opened(written(sweep(), tmp_path), tmp_path)
    classes = [e.attributes.get("class", "").split() for e in read(dom)]
    # 3 models x 3 recipes: a trunk and a branch line; 3 x 2 recipes x 2 budgets: bars.
    assert sum("js-line" in c for c in classes) >= 18
    assert sum("point" in c for c in classes) >= 12 + 18 + 18
