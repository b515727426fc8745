"""The REST routes over real HTTP: what they say about a finished home, and submitting."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import yaml

from sweeps.spec import parse_spec, spec_text
from tests.api.homes import mapping, write_spec

YAML = {"content-type": "application/yaml"}


@pytest.fixture
def body(tmp_path):
    """A valid body: the corpus by its absolute path."""
    write_spec(tmp_path)
    return mapping(corpus=str(tmp_path / "texts"))


def test_the_list_has_the_sweep_with_times_in_utc(reader, finished):
    page = reader.get("/v1/sweeps").json()
    (sweep,) = page["sweeps"]
    assert sweep["sweep_id"] == finished.sweep_id
    assert sweep["created_at"].endswith("Z")
    assert datetime.now(UTC) - datetime.fromisoformat(sweep["created_at"]) < timedelta(hours=1)
    assert page["next_cursor"] is None


def test_a_sweep_is_shown_with_its_progress_and_a_spec_that_can_be_sent_again(reader, finished):
    sweep = reader.get(f"/v1/sweeps/{finished.sweep_id}").json()
    assert sweep["state"] == "over"
    assert sweep["progress"]["cells_done"] == sweep["progress"]["cells_total"] == 12
    again = reader.post("/v1/plans", json=sweep["spec"]).json()
    assert again["sweep_id"] == finished.sweep_id
    assert again["reused"] == 4


def test_runs_have_their_horizons_and_what_became_of_them(reader, finished):
    runs = reader.get(f"/v1/sweeps/{finished.sweep_id}/runs").json()["runs"]
    assert {(run["recipe"], run["state"]) for run in runs} == {
        ("bf16", "succeeded"),
        ("ufp4", "succeeded"),
        ("e4m3", "diverged"),
    }
    assert all(run["horizons"] == [8192, 16384] for run in runs)


@pytest.mark.parametrize(("path", "verb"), [("gaps", "gaps"), ("fits", "fit")])
def test_both_front_doors_give_the_same_json(reader, finished, gridlaw, path, verb):
    over_http = reader.get(f"/v1/sweeps/{finished.sweep_id}/{path}").json()
    said = gridlaw(verb, finished.sweep_id, "--home", finished.home, "--json")
    assert json.loads(said.out) == over_http


def test_a_diverged_endpoint_is_null_with_a_tag(reader, finished):
    rows = reader.get(f"/v1/sweeps/{finished.sweep_id}/gaps").json()["endpoints"]
    assert {row["loss_tag"] for row in rows if row["loss"] is None} == {"diverged"}


def test_the_export_is_csv_to_be_saved_under_the_sweeps_id(reader, finished):
    answer = reader.get("/v1/sweeps/tiny/export/endpoints.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert f"{finished.sweep_id}-endpoints.csv" in answer.headers["content-disposition"]
    assert len(list(csv.DictReader(io.StringIO(answer.text)))) == 12


def test_the_report_is_a_page_with_a_spec_that_loads_again(reader, finished):
    answer = reader.get("/v1/sweeps/tiny/report")
    assert answer.headers["content-type"].startswith("text/html")
    assert finished.sweep_id in answer.text


def test_the_first_page_links_to_the_report(reader, finished):
    answer = reader.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert f"/v1/sweeps/{finished.sweep_id}/report" in answer.text


def test_the_server_says_that_it_works(reader):
    health = reader.get("/healthz").json()
    assert health["status"] == "ok"
    assert datetime.fromisoformat(health["time"]).tzinfo is not None


def test_a_plan_stores_nothing(client, body):
    before = client.get("/v1/sweeps").json()
    plan = client.post("/v1/plans", json=body)
    assert plan.status_code == 200
    assert plan.json()["cells"] == 12
    assert plan.json()["warnings"] == []
    assert client.get("/v1/sweeps").json() == before


def test_a_new_sweep_is_201_with_its_place_and_the_same_again_is_200(client, body):
    body["name"] = "submitted"
    first = client.post("/v1/sweeps", json=body)
    assert first.status_code == 201
    assert client.get(first.headers["location"]).json()["num_runs"] == 6
    again = client.post("/v1/sweeps", json=body)
    assert again.status_code == 200
    assert again.json() == first.json()


def test_yaml_and_json_are_the_same_sweep(client, body):
    body["name"] = "twice-written"
    first = client.post("/v1/sweeps", content=yaml.safe_dump(body), headers=YAML)
    assert first.status_code == 201
    assert client.post("/v1/sweeps", json=body).json() == first.json()


def test_a_cancelled_sweep_is_cancelled_and_retried(client, body):
    body["name"] = "stopped"
    sweep = client.post("/v1/sweeps", json=body).json()["sweep_id"]
    cancelled = client.post(f"/v1/sweeps/{sweep}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json()["cancelled_at"] is not None
    assert client.post(f"/v1/sweeps/{sweep}/cancel").json() == cancelled.json()
    retried = client.post(f"/v1/sweeps/{sweep}/retry")
    assert retried.status_code == 202
    assert retried.json()["state"] == "queued"


def test_pages_lose_and_repeat_no_sweep_while_new_ones_come(serve, tmp_path):
    write_spec(tmp_path)
    client = serve(tmp_path / "home")

    def submit(name: str) -> str:
        body = mapping(corpus=str(tmp_path / "texts"), name=name)
        return str(client.post("/v1/sweeps", json=body).json()["sweep_id"])

    submitted = [submit(f"sweep-{index}") for index in range(5)]
    seen, cursor = [], None
    while True:
        more: dict[str, str] = {} if cursor is None else {"cursor": cursor}
        page = client.get("/v1/sweeps", params={"limit": 2, **more}).json()
        seen += [sweep["sweep_id"] for sweep in page["sweeps"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        submit(f"later-{len(seen)}")
    assert seen == submitted[::-1]


def test_a_stored_spec_written_as_yaml_is_the_same_spec(reader, finished):
    spec = parse_spec(reader.get("/v1/sweeps/tiny").json()["spec"])
    assert parse_spec(yaml.safe_load(spec_text(spec))) == spec


def test_a_second_application_may_read_the_same_store(serve, finished):
    other: httpx.Client = serve(finished.home)
    assert other.get("/v1/sweeps").json()["sweeps"][0]["sweep_id"] == finished.sweep_id


def test_gaps_are_judged_at_the_level_and_margin_that_are_asked_for(reader, finished, gridlaw):
    path = f"/v1/sweeps/{finished.sweep_id}/gaps"
    asked = reader.get(path, params={"level": 0.9, "margin": 0.2}).json()
    said = gridlaw(
        *("gaps", finished.sweep_id, "--home", finished.home),
        *("--json", "--level", "0.9", "--margin", "0.2"),
    )
    assert json.loads(said.out) == asked != reader.get(path).json()
    assert (asked["level"], asked["margin"]) == (0.9, 0.2)
    tests = [one["certainty"]["equivalence"] for one in asked["summaries"] if one["certainty"]]
    assert {(one["level"], one["margin"], one["verdict"]) for one in tests} == {
        (0.9, 0.2, "within")
    }


@pytest.mark.parametrize("asked", [{"level": 95}, {"margin": 0}, {"level": "high"}])
def test_a_level_or_margin_that_is_none_is_422(reader, finished, asked):
    answer = reader.get(f"/v1/sweeps/{finished.sweep_id}/gaps", params=asked)
    assert answer.status_code == 422
    assert next(iter(asked)) in answer.text
