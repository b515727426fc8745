"""Verbs that look: what people read, and what programs read with --json."""

import csv
import io
import json
import math
from typing import Any

import pytest

from tests.api.homes import write_spec

KEYS = {
    "plan": "cells corpus design eta_seconds flops models planned_cells planned_runs reused runs "
    "sweep_id tokens warnings",
    "list": "sweeps",
    "show": "runs sweep",
    "gaps": "additivity conventions effective endpoints gaps headline level margin orders "
    "predicted signs summaries sweep_id "
    "unpaired",
    "fit": "conventions file fits sweep_id",
}


def strict(text: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    value: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return value


@pytest.fixture
def ask(gridlaw, finished):
    def call(verb, *more):
        what = {"plan": [finished.spec_file], "list": []}.get(verb, [finished.sweep_id])
        said = gridlaw(verb, *what, "--home", finished.home, *more)
        assert said.code == 0, said.err
        return said

    return call


@pytest.mark.parametrize("verb", KEYS)
def test_json_of_every_read_verb_parses_strictly_and_has_its_documented_keys(ask, verb):
    said = ask(verb, "--json")
    assert sorted(strict(said.out)) == KEYS[verb].split()
    assert said.err == ""


@pytest.mark.parametrize("verb", KEYS)
def test_text_of_every_read_verb_holds_no_control_codes_and_no_padding_to_a_screen(ask, verb):
    said = ask(verb)
    assert "\x1b" not in said.out
    assert max(map(len, said.out.splitlines())) < 600


def test_a_plan_counts_cells_runs_and_what_is_left(gridlaw, tmp_path, spec_file):
    said = gridlaw("plan", spec_file, "--home", tmp_path / "home", "--json")
    plan = json.loads(said.out)
    assert (plan["cells"], plan["runs"], plan["reused"]) == (12, 6, 0)
    assert plan["tokens"] == sum(run["tokens"] for run in plan["planned_runs"])
    assert plan["flops"] == sum(run["flops"] for run in plan["planned_runs"])
    assert plan["eta_seconds"] > 0


def test_a_plan_makes_no_home(gridlaw, tmp_path, spec_file):
    assert gridlaw("plan", spec_file, "--home", tmp_path / "home").code == 0
    assert not (tmp_path / "home").exists()


def test_a_plan_reuses_what_another_sweep_measured(gridlaw, finished, tmp_path):
    spec = write_spec(tmp_path, name="other", recipes=["bf16", "ufp4", "e2m1-ref"])
    plan = json.loads(gridlaw("plan", spec, "--home", finished.home, "--json").out)
    assert (plan["runs"], plan["reused"]) == (6, 4)
    assert plan["tokens"] < sum(run["tokens"] for run in plan["planned_runs"])


def test_a_plan_for_people_names_counts_parameters_flops_and_time(ask, finished):
    text = ask("plan").out
    assert f"Sweep {finished.sweep_id}: 12 cells, 6 runs, 4 reused" in text
    for part in ("FLOPs/token", "quantized GEMMs", "1x32h2", "fingerprint", "about"):
        assert part in text


def test_a_plan_warns_on_standard_error_and_in_its_json(gridlaw, tmp_path):
    clipping = {"format": "e2m1", "scale": "e4m3", "sr": ["dy"], "pad": True, "block": 32}
    spec = write_spec(tmp_path, recipes=[clipping])
    said = gridlaw("plan", spec, "--home", tmp_path / "home")
    warned = json.loads(gridlaw("plan", spec, "--home", tmp_path / "home", "--json").out)[
        "warnings"
    ]
    assert [line.partition(": ")[2] for line in said.err.splitlines()] == warned
    assert len(warned) == 2
    assert "headroom 1.0625" in warned[0]
    assert "16 on the 16 features of model 1x16h1" in warned[1]
    assert "Warning" not in said.out


def test_a_list_has_the_sweep_with_its_runs_by_state(ask, finished):
    (sweep,) = json.loads(ask("list", "--json").out)["sweeps"]
    assert sweep["sweep_id"] == finished.sweep_id
    assert sweep["state"] == "over"
    assert sweep["runs"]["succeeded"] == 4
    assert sweep["runs"]["diverged"] == 2
    assert sweep["created_at"].endswith("Z")


def test_show_says_why_a_run_is_in_its_state(ask):
    runs = json.loads(ask("show", "--json").out)["runs"]
    diverged = [run for run in runs if run["state"] == "diverged"]
    assert {run["recipe"] for run in diverged} == {"e4m3"}
    assert {run["reason"] for run in diverged} == {"non_finite"}
    assert all("nan" in run["detail"] for run in diverged)
    assert "loss is nan at step 2" in ask("show").out


def test_a_sweep_is_found_by_its_name_and_by_the_start_of_its_id(gridlaw, finished):
    ids = {
        json.loads(gridlaw("gaps", word, "--home", finished.home, "--json").out)["sweep_id"]
        for word in ("tiny", finished.sweep_id[:-3], finished.sweep_id)
    }
    assert ids == {finished.sweep_id}


def test_gaps_are_the_losses_less_those_of_bf16(ask):
    found = json.loads(ask("gaps", "--json").out)
    assert len(found["gaps"]) == 4
    for gap in found["gaps"]:
        assert gap["recipe"] == "ufp4"
        assert math.isclose(gap["gap"], 0.05, abs_tol=1e-12)
    assert "+0.0500" in ask("gaps").out


def test_a_diverged_run_is_in_the_table_and_in_the_json_as_null_with_a_tag(ask):
    endpoints = json.loads(ask("gaps", "--json").out)["endpoints"]
    diverged = [row for row in endpoints if row["recipe"] == "e4m3"]
    assert len(diverged) == 4
    assert {(row["loss"], row["loss_tag"]) for row in diverged} == {(None, "diverged")}
    rows = [line for line in ask("gaps").out.splitlines() if " e4m3 " in line]
    assert sum(line.rstrip().endswith("diverged") for line in rows) == 4


def test_fits_say_what_cannot_be_identified(ask):
    fits = json.loads(ask("fit", "--json").out)["fits"]
    assert fits[0]["label"] == "bf16"
    text = ask("fit").out
    for fit in fits:
        assert f"Fit of {fit['label']}: {fit['status']}" in text
        assert all(sentence in text for sentence in fit["verdict"])


def test_export_is_csv_with_a_line_for_each_planned_endpoint(ask, tmp_path):
    out = ask("export").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 12
    assert {row["gap"] for row in rows if row["recipe"] != "ufp4"} == {""}
    said = ask("export", "--out", tmp_path / "rows.csv")
    assert said.out == ""
    assert (tmp_path / "rows.csv").read_text() == out


def test_a_report_is_written_where_it_is_asked_for(ask, tmp_path, finished):
    said = ask("report", "--out", tmp_path / "page.html")
    assert said.out == f"{tmp_path / 'page.html'}\n"
    page = (tmp_path / "page.html").read_text()
    assert finished.sweep_id in page
    assert page.startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_report_without_a_place_goes_to_the_home(ask, finished):
    place = finished.home / "reports" / finished.sweep_id / "report.html"
    assert ask("report").out == f"{place}\n"
    assert place.is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--level", "95"), "gridlaw: level = 95.0: must lie between 0.5 and 1, as in 0.95\n"),
        (
            ("--margin", "-1"),
            "gridlaw: margin = -1.0: must be a positive number of nats per token\n",
        ),
    ],
)
def test_a_level_or_margin_that_is_none_is_refused_in_a_sentence(gridlaw, finished, words, said):
    found = gridlaw("gaps", finished.sweep_id, "--home", finished.home, *words)
    assert (found.code, found.out, found.err) == (2, "", said)
