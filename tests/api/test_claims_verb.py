"""`gridlaw claims` and its route on a finished home whose losses are known."""

import json
import random

import pytest

from orchestrator.executor import Ended
from orchestrator.states import Reason
from tests.api.homes import finish, loss, write_spec
from tests.orchestrator.values import endpoint, preflight

CLAIMS = [
    {"name": "costs", "statement": "gap(ufp4) > 0.04"},
    {"name": "free", "statement": "gap(ufp4) < 0.01", "models": "each"},
    {"name": "close", "statement": "gap(ufp4) < 0.05"},
]


def measures(task):
    """Losses of the homes with noise by seed and recipe."""
    yield preflight()
    for horizon in task.horizons:
        noise = random.Random(f"{task.spec.label} {horizon}").gauss(0, 0.003)
        yield endpoint(horizon, loss=loss(task, horizon) + noise)
    yield Ended(reason=Reason.COMPLETED)


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    """Home and sweep, and the sweep file."""
    folder = tmp_path_factory.mktemp("claimed")
    spec = write_spec(folder, recipes=["bf16", "ufp4"], seeds=[0, 1, 2, 3], claims=CLAIMS)
    return folder / "home", finish(folder / "home", spec, measures), spec


def test_each_claim_has_a_line_in_the_table_and_sentences(gridlaw, claimed):
    home, sweep_id, _ = claimed
    said = gridlaw("claims", sweep_id, "--home", home)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0].startswith("3 claims: 1 supported, 1 contradicted, 1 undecided.")
    for name, verdict in (("costs", "supported"), ("free", "contradicted"), ("close", "undecided")):
        assert any(line.split()[:2] == [name, verdict] for line in lines)
        assert f"{name}: {verdict}" in lines
    assert "seeds decide it in 80 % of cases: add seed" in said.out
    assert "\x1b" not in said.out


def test_both_front_doors_give_the_same_json(gridlaw, serve, claimed):
    home, sweep_id, _ = claimed
    said = json.loads(gridlaw("claims", sweep_id, "--home", home, "--json").out)
    assert sorted(said) == ["claims", "conventions", "sweep_id"]
    assert [one["name"] for one in said["claims"]] == [claim["name"] for claim in CLAIMS]
    with serve(home) as client:
        assert client.get(f"/v1/sweeps/{sweep_id}/claims").json() == said
        assert client.get("/v1/sweeps/nobody/claims").status_code == 404


def test_one_claim_can_be_asked_for_and_its_p_still_counts_the_others(gridlaw, claimed):
    home, sweep_id, _ = claimed
    ask = ("claims", sweep_id, "--home", home, "--json", "--claim", "costs")
    (one,) = json.loads(gridlaw(*ask).out)["claims"]
    assert (one["name"], one["n_claims"]) == ("costs", 3)
    said = gridlaw("claims", sweep_id, "--home", home, "--claim", "cost")
    assert (said.code, said.out) == (2, "")
    assert "claim = cost: the sweep has no claim of this name; did you mean 'costs'?" in said.err


def test_claims_that_are_added_later_are_judged_without_a_run(gridlaw, claimed, tmp_path):
    _, _, spec = claimed
    home = tmp_path / "home"
    text = spec.read_text()
    bare = spec.with_name("bare.yaml")
    bare.write_text(text[: text.index("claims:")])
    sweep_id = finish(home, bare, measures)
    assert "has no claims" in gridlaw("claims", sweep_id, "--home", home).out
    named = gridlaw("claims", sweep_id, "--home", home, "--claim", "costs")
    assert (named.code, named.out) == (2, "")
    assert "claim = costs: the sweep file makes no claims" in named.err
    assert gridlaw("submit", spec, "--home", home).code == 0
    assert gridlaw("claims", sweep_id, "--home", home).out.startswith("3 claims: ")
