"""The REST routes of laws over real HTTP: fits asked for and kept, and tables to take elsewhere."""

import csv
import io
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeps.tables.exports import OF_A_FIT, What
from sweeps.tables.kept_fit import fit_id, kept_fit
from sweeps.tables.table import Form
from tests.api.homes import finish, write_spec

QUICK = {"resamples": 100}


@pytest.fixture(scope="module")
def served(serve, tmp_path_factory):
    """A client of a home of its own in which the sweep `tiny` is over."""
    folder = tmp_path_factory.mktemp("own")
    models = [{"layers": n, "width": w, "heads": 1} for n, w in ((1, 16), (1, 32), (2, 32))]
    budgets = ["8192tok", "16384tok", "32768tok"]
    finish(folder / "home", write_spec(folder, models=models, budgets=budgets))
    return serve(folder / "home")


def test_a_fit_that_is_read_is_not_kept_and_one_that_is_posted_is_kept_once(served):
    read = served.get("/v1/sweeps/tiny/fits", params=QUICK).json()
    assert served.get("/v1/fits").json() == {"fits": []}
    posted = served.post("/v1/sweeps/tiny/fits", params=QUICK).json()
    assert posted == read
    served.post("/v1/sweeps/tiny/fits", params=QUICK)
    kept = served.get("/v1/fits").json()["fits"]
    assert {one["fit_id"] for one in kept} == {fit["fit_id"] for fit in posted["fits"]}
    assert len(kept) == 3
    assert all(one["created_at"].endswith("Z") for one in kept)


def test_a_kept_fit_is_given_whole_and_stands_under_its_own_id(served):
    posted = served.post("/v1/sweeps/tiny/fits", params=QUICK | {"seed": 3}).json()["fits"]
    for fit in posted:
        whole = served.get(f"/v1/fits/{fit['fit_id']}").json()
        assert fit_id(kept_fit(whole)) == fit["fit_id"]
        assert whole["settings"]["seed"] == 3
        assert whole["verdict"] == fit["verdict"]


def test_the_settings_of_a_fit_are_its_query(served):
    query = {"law": "tied", "delta": 0.01, "residual": "linear", "diverged": "drop cell", **QUICK}
    for fit in served.get("/v1/sweeps/tiny/fits", params=query).json()["fits"]:
        assert {key: fit["settings"][key] for key in query} == query


@pytest.mark.parametrize(
    "query",
    [
        {"law": "chincilla"},
        {"delta": -1},
        {"residual": "cubic"},
        {"diverged": "drop"},
        {"resamples": 3},
        {"resamples": 10**9},
        {"seed": -1},
    ],
)
def test_settings_that_make_no_sense_are_a_problem_document(served, query):
    answer = served.get("/v1/sweeps/tiny/fits", params=query)
    assert answer.status_code == 422
    ((key, value),) = query.items()
    assert key in answer.json()["detail"]
    assert str(value) in answer.text


@pytest.mark.parametrize("what", What)
def test_every_table_of_a_sweep_is_there_in_every_form(served, what):
    said = {form: served.get(f"/v1/sweeps/tiny/export/{what}.{form}") for form in map(str, Form)}
    assert {answer.status_code for answer in said.values()} == {200}
    assert said["csv"].headers["content-type"].startswith("text/csv")
    assert f"-{what}.parquet" in said["parquet"].headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(said["csv"].text)))
    table = parquet.read_table(pa.BufferReader(said["parquet"].content))
    listed = json.loads(said["json"].text)
    assert len(rows) == table.num_rows == len(listed["rows"])
    assert table.column_names == [column["name"] for column in listed["columns"]]


@pytest.mark.parametrize("what", OF_A_FIT)
def test_a_kept_fit_gives_its_tables(served, what):
    fit = served.post("/v1/sweeps/tiny/fits", params=QUICK).json()["fits"][0]
    answer = served.get(f"/v1/fits/{fit['fit_id']}/export/{what}.csv")
    assert answer.status_code == 200
    assert list(csv.DictReader(io.StringIO(answer.text)))


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/v1/fits/zzzz", 404, "there is no fit 'zzzz'"),
        ("/v1/fits/zzzz/export/curves.csv", 404, "there is no fit 'zzzz'"),
        ("/v1/sweeps/tiny/export/everything.csv", 422, "everything"),
        ("/v1/sweeps/tiny/export/points.xls", 422, "xls"),
        ("/v1/sweeps/other/export/points.csv", 404, "there is no sweep 'other'"),
    ],
)
def test_what_is_not_there_is_a_problem_document(served, path, status, word):
    answer = served.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert word in answer.json()["detail"] or word in answer.text


def test_a_kept_fit_has_no_runs_to_give(served):
    fit = served.post("/v1/sweeps/tiny/fits", params=QUICK).json()["fits"][0]
    answer = served.get(f"/v1/fits/{fit['fit_id']}/export/points.csv")
    assert answer.status_code == 422
    assert "not its runs" in answer.json()["detail"]
