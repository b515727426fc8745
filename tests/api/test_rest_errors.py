"""Every HTTP error is a problem document (RFC 9457), whatever was sent."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from api.body import MAX_BYTES, MAX_DEPTH
from api.errors import STATUS, pointer
from sweeps.errors import GridlawError
from tests.api.homes import TRAIN, finish, mapping, write_spec

JSON = {"content-type": "application/json"}
YAML = {"content-type": "application/yaml"}


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The document of an answer, checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert set(document) == {"type", "title", "status", "detail", "instance", "errors"}
    assert document["status"] == status
    assert document["type"].startswith("urn:gridlaw:problem:")
    assert document["instance"] == answer.request.url.path
    assert document["detail"]
    return document


BAD_BODIES = {
    "unknown key": (mapping(corpus="stdlib", modles=3), "/modles", "did you mean 'models'?"),
    "size that no block divides": (
        mapping(corpus="stdlib", models=[{"layers": 1, "width": 24, "heads": 1}]),
        "/models/0/width",
        "not divisible by the block 16",
    ),
    "budget without a unit": (mapping(corpus="stdlib", budgets=["9"]), "/budgets/0", "no unit"),
    "unit error deep inside": (
        mapping(corpus="stdlib", train=TRAIN | {"warmup": "3 days"}),
        "/train/warmup",
        "unknown unit 'days'",
    ),
    "relative corpus of another kind": (
        mapping(corpus={"jsonl": "a/*.jsonl"}),
        "/corpus/jsonl",
        "absolute path on the server",
    ),
    "relative tokenizer": (
        mapping(corpus="stdlib", tokenizer={"ids": 9, "file": "a.json"}),
        "/tokenizer/file",
        "must be an absolute path on the server",
    ),
    "relative corpus": (mapping(), "/corpus", "stdlib or an absolute path on the server"),
}


@pytest.mark.parametrize("route", ["/v1/plans", "/v1/sweeps"])
@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_bad_spec_is_422_with_the_place_of_each_fault(client, route, case):
    body, place, words = BAD_BODIES[case]
    document = problem(client.post(route, json=body), 422)
    (error,) = [error for error in document["errors"] if error["pointer"] == place]
    assert words in error["message"]
    assert error["message"] in document["detail"]


BROKEN = {
    "no JSON": (b"{", JSON, "is not JSON"),
    "NaN": (b'{"name": NaN}', JSON, "NaN is no JSON number"),
    "a key twice": (b'{"name": "a", "name": "b"}', JSON, "'name' stands twice"),
    "a list": (b"[]", JSON, "must be an object"),
    "nothing": (b"", JSON, "is not JSON"),
    "no UTF-8": (b"\xff\xfe", JSON, "not UTF-8"),
    "half a surrogate pair": (b'{"name": "\\ud800"}', JSON, "surrogate"),
    "a NUL": (b'{"name": "a\\u0000"}', JSON, "NUL"),
    "a number with too many digits": (b'{"name": ' + b"1" * 9999 + b"}", JSON, "is not JSON"),
    "nested deeply": (b'{"a":' * 30 + b"1" + b"}" * 30, JSON, f"{MAX_DEPTH} levels"),
    "nested very deeply": (b"[" * 100_000, JSON, f"{MAX_DEPTH} levels"),
    "no YAML": (b"a: [", YAML, "is not YAML"),
    "a YAML list": (b"- a", YAML, "but is a list"),
    "YAML aliases that multiply": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"%c: &%c [%s]\n" % (new, new, b",".join([b"*%c" % old] * 9))
            for old, new in zip(b"abcdefgh", b"bcdefghi", strict=True)
        ),
        YAML,
        "values",
    ),
    "a YAML list in itself": (b"name: &a [*a]", YAML, f"{MAX_DEPTH} levels"),
    "a YAML tag": (b"name: !!python/object:os.system x", YAML, "is not YAML"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_body_that_is_no_mapping_is_422(client, case):
    content, headers, words = BROKEN[case]
    document = problem(client.post("/v1/plans", content=content, headers=headers), 422)
    assert words in document["detail"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"eval": {"held_out": 0.2, "tokens": "1Mtok"}}, "/eval/tokens"),
     ({"train": TRAIN | {"batch": "65536tok"}, "budgets": ["1Mtok"]}, "/train/batch"),
     ({"budgets": ["1Mtok"]}, "/train/max_epochs")],
)  # fmt: skip
def test_a_corpus_that_is_too_small_is_422(client, tmp_path, changes, place):
    write_spec(tmp_path)
    body = mapping(corpus=str(tmp_path / "texts"), **changes)
    document = problem(client.post("/v1/sweeps", json=body), 422)
    assert [error["pointer"] for error in document["errors"]] == [place]


def test_a_corpus_that_is_not_there_is_422(client, tmp_path):
    body = mapping(corpus=str(tmp_path / "nowhere"))
    assert "matches no file" in problem(client.post("/v1/sweeps", json=body), 422)["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_other_media_types_are_415(client, kind):
    headers = {} if kind is None else {"content-type": kind}
    document = problem(client.post("/v1/sweeps", content=b"a: 1", headers=headers), 415)
    assert "application/json" in document["detail"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_body_that_is_too_large_is_413(client, is_streamed):
    chunks = [b" " * (MAX_BYTES // 2)] * 3
    content = iter(chunks) if is_streamed else b"".join(chunks)
    document = problem(client.post("/v1/plans", content=content, headers=JSON), 413)
    assert str(MAX_BYTES) in document["detail"]


def test_what_is_not_there_is_404(client):
    assert "/v1/nope" in problem(client.get("/v1/nope"), 404)["detail"]
    for part in ("", "/runs", "/gaps", "/fits", "/report", "/export/endpoints.csv"):
        document = problem(client.get(f"/v1/sweeps/nope{part}"), 404)
        assert document["detail"] == "there is no sweep 'nope'"
    for wish in ("cancel", "retry"):
        problem(client.post(f"/v1/sweeps/nope/{wish}"), 404)


def test_a_method_that_a_route_does_not_take_is_405(client):
    answer = client.delete("/v1/sweeps")
    problem(answer, 405)
    assert answer.headers["allow"] == "GET, POST"


def test_every_route_says_which_methods_it_takes(client):
    for path, item in client.get("/v1/openapi.json").json()["paths"].items():
        answer = client.request("PATCH", re.sub(r"{\w+}", "csv", path))
        problem(answer, 405)
        assert answer.headers["allow"] == ", ".join(sorted(map(str.upper, item))), path


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "cursor=!", "cursor=YQ=="])
def test_a_bad_page_is_422(client, query):
    document = problem(client.get(f"/v1/sweeps?{query}"), 422)
    assert query.partition("=")[0] in document["detail"]


def test_an_ambiguous_name_is_422(client, tmp_path):
    write_spec(tmp_path)
    for budget in ("8192tok", "16384tok"):
        body = mapping(corpus=str(tmp_path / "texts"), name="twins", budgets=[budget])
        client.post("/v1/sweeps", json=body)
    assert "may be any of" in problem(client.get("/v1/sweeps/twins"), 422)["detail"]


def in_database(home: Path, statement: str) -> None:
    connection = sqlite3.connect(home / "gridlaw.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


def test_an_unforeseen_error_is_500_without_its_inside(serve, tmp_path):
    client = serve(tmp_path / "home")
    finish(tmp_path / "home", write_spec(tmp_path))
    in_database(tmp_path / "home", "UPDATE members SET spec = '{}'")
    document = problem(client.get("/v1/sweeps/tiny/runs"), 500)
    assert "the server's log has it" in document["detail"]
    assert "Traceback" not in document["detail"]


def test_a_store_that_refuses_is_507(serve, tmp_path):
    client = serve(tmp_path / "home")
    in_database(tmp_path / "home", "DROP TABLE sweeps")
    assert "gridlaw.db refused" in problem(client.get("/healthz"), 507)["detail"]


def test_every_error_of_the_tree_has_one_status():
    kinds = [GridlawError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    ours = [kind for kind in kinds if kind.__module__ == "sweeps.errors"]
    assert set(ours) == set(STATUS)


def test_pointers_follow_rfc_6901():
    assert pointer("models[0].width") == "/models/0/width"
    assert pointer("a/b~c") == "/a~1b~0c"
    assert pointer("seeds[12]") == "/seeds/12"


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["bf16", "ufp4", "1e30tok", "0tok", "-3tpp", "9" * 40 + "tok", "stdlib"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = st.sampled_from([*mapping(), "grid", "purpose", "seeds", "tokenizer"]) | st.text(max_size=8)


@pytest.mark.slow
@given(changes=st.dictionaries(KEYS, VALUES, max_size=4), start=st.sampled_from([{}, mapping()]))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_body_makes_the_server_fail(client, changes, start):
    content = json.dumps({**start, **changes})
    answer = client.post("/v1/plans", content=content, headers=JSON)
    if answer.status_code != 200:
        problem(answer, 422)


@pytest.mark.slow
@given(content=st.binary(max_size=60) | st.text("ab:-[]{}&*!|>\n '\"#,?0e.", max_size=40))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_yaml_makes_the_server_fail(client, content):
    problem(client.post("/v1/plans", content=content, headers=YAML), 422)


PATH_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.slow
@given(word=PATH_TEXT.filter(lambda word: not re.fullmatch(r"[./\\]+", word)))
@settings(max_examples=80, deadline=None)
def test_no_sweep_name_makes_the_server_fail(client, word):
    answer = client.get("/v1/sweeps/" + quote(word, safe=""))
    assert answer.status_code < 500
