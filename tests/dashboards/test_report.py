import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf, nan
from typing import Any

import pytest

from dashboards import report
from kernels.formats import E4M3
from kernels.presets import PRESETS, compose
from kernels.recipes import BF16_RECIPE
from sweeps.answer import answer
from sweeps.records import RunRecord
from tests.dashboards.html_check import of, read
from tests.dashboards.records import diverged, finished, sweep

WHEN = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SPEC = "name: nightly\nrecipes: [bf16, ufp4]\n"
EVIL = "<script>alert(1)</script>\"'&{{7*7}}</title>"
LONG = "模型 ∂ 🜁 " * 30
UFP4 = PRESETS["ufp4"]
HOSTILE = replace(UFP4, name=EVIL)
ELEVEN = [compose(E4M3, name=f"r{k}") for k in range(11)]


def broken() -> tuple[RunRecord, ...]:
    record = finished(UFP4)
    ends = (replace(record.endpoints[0], loss=nan), replace(record.endpoints[1], loss=inf))
    return (finished(), replace(record, endpoints=ends))


CASES: dict[str, Callable[[], tuple[RunRecord, ...]]] = {
    "finished": sweep,
    "no records": lambda: (),
    "all diverged": lambda: tuple(diverged(r) for r in (BF16_RECIPE, UFP4)),
    "one run": lambda: (finished(UFP4),),
    "baselines only": lambda: sweep(()),
    "several seeds": lambda: sweep(seeds=(0, 1, 2), models=["tiny", "small"]),
    "twelve recipes": lambda: sweep(ELEVEN, models=["tiny"]),
    "a loss that is not finite": broken,
    "unicode and long names": lambda: (finished(title=LONG), finished(UFP4, title="é" * 300)),
    "a hostile name": lambda: (finished(title=EVIL), finished(HOSTILE, title=EVIL)),
}


def page_of(records: Sequence[RunRecord], name: str = "nightly") -> str:
    return report.render(answer(records, resamples=100), name=name, spec=SPEC, made_at=WHEN)


def test_a_long_table_is_folded_and_a_short_one_stands_open():
    few, many = page_of(sweep()), page_of(sweep(seeds=range(5)))
    assert "<summary>Every endpoint (" not in few
    asked = sum(len(record.horizons) for record in sweep(seeds=range(5)))
    assert f"<summary>Every endpoint ({asked} rows)</summary>" in many
    assert 'id="table-cells"' in few
    assert 'id="table-cells"' in many


def test_recipes_stand_by_their_gap_smallest_first():
    found = answer(sweep(), resamples=100)
    means = {one.recipe: one.mean for one in found.gaps.summaries if one.mean is not None}
    page = page_of(sweep())
    table = page[page.index('id="table-recipes"') :]
    shown = re.findall(r'<th scope="row">([^<]*)</th>', table[: table.index("</table>")])
    assert shown == sorted(means, key=lambda recipe: means[recipe])


@pytest.fixture(scope="module", params=CASES)
def page(request):
    return page_of(CASES[request.param]())


@pytest.fixture(scope="module")
def finished_page():
    return page_of(sweep())


def payload(page: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"bare {constant} in JSON")

    (data,) = [e for e in of(read(page), "script") if e.attributes.get("id") == "payload"]
    return json.loads("".join(data.text), parse_constant=refuse)


def test_the_page_nests_names_each_id_once_and_refers_only_to_those(page):
    elements = read(page)
    ids = [element.attributes["id"] for element in elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in elements:
        for key in ("aria-labelledby", "aria-describedby"):
            assert set(element.attributes.get(key, "").split()) <= set(ids)
        if element.attributes.get("href", "").startswith("#"):
            assert element.attributes["href"][1:] in ids


def test_the_page_loads_nothing(page):
    elements = read(page)
    assert not of(elements, "link", "img", "iframe", "object", "embed", "base", "source")
    assert not [
        e for e in elements if {"src", "srcset", "action", "background"} & set(e.attributes)
    ]
    styles = "".join("".join(style.text) for style in of(elements, "style"))
    assert "url(" not in styles
    assert "@import" not in styles
    assert all(a.attributes["href"][0] in "#?" for a in of(elements, "a"))


def test_its_policy_lets_only_its_own_scripts_run(page):
    elements = read(page)
    (policy,) = [
        meta.attributes["content"]
        for meta in of(elements, "meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    scripts = [e for e in of(elements, "script") if "type" not in e.attributes]
    digests = {
        base64.b64encode(hashlib.sha256("".join(e.text).encode()).digest()).decode()
        for e in scripts
    }
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert len(scripts) == 3
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert not [key for e in elements for key in e.attributes if key.startswith("on")]


def test_its_json_has_no_bare_nan_and_holds_every_figure(page):
    data = payload(page)
    always, more = data["figures"][:4], data["figures"][4:]
    keys = ["loss-curves", "gap-bars", "gap-law", "compute"]
    assert [figure["key"] for figure in always] == keys
    assert [figure["key"] for figure in more] in ([], ["effective"])
    assert set(data["templates"]) == {"light", "dark"}
    for figure in data["figures"]:
        assert "template" not in figure["wide"]
        assert figure["key"] in data["texts"]
    for text in data["texts"].values():
        assert not re.search(r"(^|,)-?(nan|inf)(,|\r)", text, re.IGNORECASE)


def test_every_table_is_captioned_scoped_and_reachable_by_keyboard(page):
    elements = read(page)
    tables = of(elements, "table")
    assert len(of(elements, "caption")) == len(tables)
    assert all(head.attributes.get("scope") in ("col", "row") for head in of(elements, "th"))
    regions = [e for e in elements if e.attributes.get("role") == "region"]
    assert len(regions) == len(tables)
    assert all(region.attributes["tabindex"] == "0" for region in regions)


def test_every_download_names_something_in_the_page(page):
    data = payload(page)
    keys = {figure["key"] for figure in data["figures"]}
    for button in of(read(page), "button"):
        known = data["texts"] if button.attributes["data-save"] == "text" else keys
        assert button.attributes["data-of"] in known


def test_a_hostile_name_stays_text():
    page = page_of(CASES["a hostile name"](), name=EVIL)
    assert "<script>alert" not in page
    assert "49" not in "".join(of(read(page), "title")[0].text)
    assert "".join(of(read(page), "h1")[0].text) == EVIL
    names = [t["name"] for f in payload(page)["figures"] for t in f["data"] if "name" in t]
    assert not [name for name in names if "<" in name]


def test_it_opens_with_the_answer(finished_page):
    elements = read(finished_page)
    (first,) = [e for e in elements if e.attributes.get("class") == "answer"]
    assert "".join(first.text).startswith("ufp4 has the lowest loss against BF16: ")
    sections = [e.attributes["id"] for e in of(elements, "section")]
    expected = ["answer", "cells", "figures", "worth", "fits", "missing", "how", "again"]
    assert sections == expected


def test_the_sweep_file_is_on_the_page_and_can_be_saved(finished_page):
    (shown,) = of(read(finished_page), "pre")
    assert "".join(shown.text) == SPEC
    assert payload(finished_page)["texts"]["spec"] == SPEC


def test_run_ids_fingerprint_and_numerics_are_on_the_page(finished_page):
    for record in sweep():
        assert record.run_id in finished_page
    assert finished().spec.corpus.fingerprint in finished_page
    assert "Numerics version" in finished_page


def test_where_bf16_does_not_win_is_listed():
    run = finished(UFP4)
    better = replace(run, endpoints=tuple(replace(e, loss=e.loss - 0.5) for e in run.endpoints))
    assert "Pairs in which BF16 does not have the lower loss" in page_of((finished(), better))
    assert "Nowhere: BF16 has the lower loss in every pair (n = 12)." in page_of(sweep())
    assert "There is no pair to compare." in page_of((finished(),))


def test_the_same_answer_gives_the_same_page(finished_page):
    assert page_of(sweep()) == finished_page


def test_progress_counts_runs_by_outcome_and_endpoints():
    records = (finished(), diverged(UFP4))
    assert report.progress(records) == (
        "2 runs (1 succeeded, 1 diverged), 2 of 4 endpoints measured"
    )
