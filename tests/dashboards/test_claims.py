"""Claims on the report: every claim has a row, a mark beside where it should lie, and its words."""

from datetime import UTC, datetime

import plotly.graph_objects as go
import pytest

from dashboards.captions import claims_caption
from dashboards.claim_bars import ClaimBar, claim_bars, draw, table
from dashboards.claims_sheet import claims_sheet
from dashboards.report import render
from sweeps.answer import answer
from sweeps.claims.judge import Judgement, judge
from sweeps.claims.section import ClaimSection
from tests.dashboards.html_check import read
from tests.sweeps.claims.made_sweeps import estimate_of, noisy, records

RUNS = records(noisy({"ufp4": 0.02, "e2m1-ref": 0.03}, 0.0005), widths=(32, 64))
STATEMENTS = {
    "better": "gap(ufp4) < gap(e2m1-ref)",
    "worse": "gap(ufp4) > gap(e2m1-ref)",
    "close": "gap(ufp4) < 0.02",
    "small": "abs(gap(ufp4)) < 0.025",
    "far": "abs(gap(ufp4)) > 0.01",
    "unknown": "gap(int8) < 1",
}


@pytest.fixture(scope="module")
def judgements() -> tuple[Judgement, ...]:
    claims = [ClaimSection(name=name, statement=text) for name, text in STATEMENTS.items()]
    return judge(claims, RUNS)


@pytest.fixture(scope="module")
def bars(judgements: tuple[Judgement, ...]) -> tuple[ClaimBar, ...]:
    return claim_bars(judgements)


def traces(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data if trace.name}


def test_a_claim_stands_at_its_contrast_with_its_interval(bars, judgements):
    shown = traces(draw(bars))
    (mark,) = [one for one in bars if one.name == "better"]
    found = estimate_of(judgements[0])
    assert (mark.value, mark.low, mark.high) == (found.value, found.low, found.high)
    place = list(shown["supported"].y).index("better")
    assert shown["supported"].x[place] == found.value
    assert found.value + shown["supported"].error_x.array[place] == pytest.approx(found.high)
    assert found.value - shown["supported"].error_x.arrayminus[place] == pytest.approx(found.low)
    assert list(shown["contradicted"].y) == ["worse"]
    assert list(shown["undecided"].y) == ["close"]


def test_the_means_of_single_models_average_to_the_contrast(bars):
    for bar in bars[:5]:
        assert [model for model, _ in bar.models] == ["w32", "w64"]
        assert sum(value for _, value in bar.models) / 2 == pytest.approx(bar.value)


def test_triangles_point_into_what_is_claimed(bars):
    (ends,) = [trace for trace in draw(bars).data if trace.marker.size == 11]
    tips: dict[str, dict[float, str]] = {}
    for name, end, symbol in zip(ends.y, ends.x, ends.marker.symbol, strict=True):
        tips.setdefault(name, {})[end] = symbol.removeprefix("triangle-")
    assert tips == {
        "better": {0.0: "left"},
        "worse": {0.0: "right"},
        "close": {0.02: "left"},
        "small": {-0.025: "right", 0.025: "left"},
        "far": {-0.01: "left", 0.01: "right"},
        "unknown": {1.0: "left"},
    }


def test_the_table_of_the_figure_has_every_claim_and_model(bars):
    numbers = table(bars)
    assert {len(row) for row in numbers.rows} == {len(numbers.columns)}
    kinds = [row[0] for row in numbers.rows]
    assert (kinds.count("claim"), kinds.count("model")) == (6, 10)
    assert "inf" not in numbers.csv()


def test_what_cannot_be_judged_is_named_in_the_caption(bars):
    assert claims_caption(bars)[-1] == "Without a row, as too few runs have ended: unknown."
    assert claims_caption(bars[:5])[-1].startswith("n = 5 claims")
    assert draw(bars[5:]).layout.annotations[-1].text == "No claim can be judged yet."


def test_the_sheet_has_a_row_for_each_claim(judgements):
    sheet = claims_sheet(judgements)
    assert [row[0] for row in sheet.rows] == list(STATEMENTS)
    assert {len(row) for row in sheet.rows} == {len(sheet.columns)}
    verdicts = [row[1] for row in sheet.rows]
    assert verdicts == ["supported", "contradicted", "undecided", *["supported"] * 2, "undecided"]
    assert sheet.rows[0][3].endswith("95 %")
    assert sheet.rows[0][4] == "4 seeds"
    assert sheet.rows[5][2:7] == ("–", "–", "–", "-", "-")


@pytest.mark.slow
def test_the_page_holds_the_claims_and_none_without_them(judgements):
    found = answer(RUNS, resamples=100)
    made_at = datetime(2026, 1, 1, tzinfo=UTC)
    pages = [
        render(found, name="x", spec="name: x", made_at=made_at, judgements=some)
        for some in (judgements, ())
    ]
    ids = [[element.attributes.get("id") for element in read(page)] for page in pages]
    assert {"claims", "table-claims", "figure-claim-bars"} <= set(ids[0])
    assert not {"claims", "table-claims", "figure-claim-bars"} & set(ids[1])
    assert len(ids[0]) - ids[0].count(None) == len(set(ids[0]) - {None})
    assert "6 claims: 3 supported, 1 contradicted, 2 undecided." in pages[0]
    assert "better: supported" in pages[0]
