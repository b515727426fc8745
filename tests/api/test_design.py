"""Planning at the two front doors: the same answer at both, and a sentence for what makes none."""

import json

import pytest

from sweeps.design.noise_level import stated
from tests.api.homes import finish, mapping, write_spec

WANT = "gap(ufp4) at N=1e5, D=2e6"
CLAIM = {"name": "ufp4-is-close", "statement": "gap(ufp4) < 0.1"}


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    """A home in which a sweep of three seeds with a claim is over."""
    folder = tmp_path_factory.mktemp("claimed")
    spec_file = write_spec(folder, name="claimed", seeds=[0, 1, 2], claims=[CLAIM])
    finish(folder / "home", spec_file)
    return folder / "home", spec_file


def test_next_runs_are_the_same_at_both_doors(gridlaw, reader, finished):
    said = gridlaw(
        "next", "tiny", "--want", WANT, "--budget", "1e13", "--home", finished.home, "--json"
    )
    assert said.code == 0
    found = json.loads(said.out)
    served = reader.get("/v1/sweeps/tiny/next", params={"want": WANT, "budget": 1e13})
    assert served.json() == found
    assert found["sweep_id"] == finished.sweep_id
    assert found["claim"] is None
    cells = found["cells"]
    assert cells["suggestions"]
    assert cells["flops"] <= cells["budget"] == 1e13
    assert set(cells["now"]) == {"half_width", "reason", "n_cells"}


def test_next_runs_are_a_table_with_the_interval_now_and_after(gridlaw, finished):
    said = gridlaw("next", "tiny", "--want", WANT, "--budget", "1e13", "--home", finished.home)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{WANT}: about ")
    assert " nats per token at N = 1e+05, D = 2e+06 (gap = " in lines[0]
    assert lines[1].startswith("Now: ")
    assert any(line.startswith("With the runs below: ") for line in lines)
    (header,) = [line for line in lines if line.startswith("model")]
    assert header.split() == [
        *("model", "tokens", "D/N", "seed", "FLOPs", "then", "+-", "recipes", "why")
    ]
    start = lines.index(header)
    assert max(map(len, lines[start : lines.index("", start)])) <= 80
    assert "Reckoned with an s.d. of " in said.out


def test_the_noise_is_the_askers_then_the_sweeps_own_then_that_of_public_runs(
    gridlaw, finished, claimed
):
    home, _ = claimed

    def source(*options: object) -> str:
        said = gridlaw("next", *options, "--want", WANT, "--budget", "1e12", "--json")
        assert said.code == 0, said.err
        return str(json.loads(said.out)["cells"]["noise"]["source"])

    assert source("tiny", "--home", finished.home, "--sd", "0.003") == "as given"
    assert source("tiny", "--home", finished.home) == stated([5e4]).source
    # The losses of these homes have no noise, so that their repeats measure none.
    assert source("claimed", "--home", home) == stated([5e4]).source


def test_a_claim_says_which_runs_would_decide_it_or_that_none_is_needed(gridlaw, claimed):
    home, _ = claimed
    said = gridlaw("next", "claimed", "--want", "claim ufp4-is-close", "--home", home)
    assert said.code == 0
    assert said.out.startswith("ufp4-is-close: ")
    found = json.loads(
        gridlaw("next", "claimed", "--want", "claim ufp4-is-close", "--home", home, "--json").out
    )
    assert found["cells"] is None
    assert found["claim"]["name"] == "ufp4-is-close"
    assert found["claim"]["sentences"]


@pytest.mark.parametrize("budget", ["-5", "nan", "inf", "0flops"])
def test_what_a_claim_may_cost_is_a_positive_number_too(gridlaw, claimed, budget):
    home, _ = claimed
    want = ("--want", "claim ufp4-is-close", "--budget", budget)
    said = gridlaw("next", "claimed", *want, "--home", home)
    assert said.code == 2
    assert "must be a positive number of FLOPs" in said.err


@pytest.mark.parametrize(
    ("want", "budget", "words"),
    [
        ("alfa", "1e12", "did you mean alpha?"),
        ("gap(upf4) at N=1e5, D=2e6", "1e12", "did you mean ufp4?"),
        ("gap(ufp4)", "1e12", "write it as in gap(ufp4) at N=1e9, D=20e9"),
        ("claim nothing", "1e12", "claim = nothing"),
        (WANT, "1e6tpp", "budget = 1e6tpp: must be a number of FLOPs"),
        ("loss(ufp4) at N=1e30, D=1e40", "1e12", "N = 1e+30: must lie from 1 to 1e+15"),
        (WANT, "-1", "budget = -1: must be a positive number of FLOPs"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_and_code_2(gridlaw, finished, want, budget, words):
    said = gridlaw("next", "tiny", "--want", want, "--budget", budget, "--home", finished.home)
    assert said.code == 2
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_over_http_it_is_a_problem_document(reader):
    answer = reader.get("/v1/sweeps/tiny/next", params={"want": "alfa"})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "did you mean alpha?" in answer.json()["detail"]
    assert reader.get("/v1/sweeps/none/next", params={"want": "alpha"}).status_code == 404
    assert reader.get("/v1/sweeps/tiny/next").status_code == 422


def test_power_is_the_same_at_both_doors_and_stores_nothing(gridlaw, client, claimed, tmp_path):
    _, spec_file = claimed
    home = tmp_path / "none"
    said = gridlaw("power", spec_file, "--sd", "0.01", "--gap", "0.02", "--home", home, "--json")
    assert said.code == 0
    assert not home.exists()
    body = mapping(
        name="claimed",
        seeds=[0, 1, 2],
        claims=[CLAIM],
        corpus=str(spec_file.parent / "texts"),
    )
    served = client.post("/v1/power", json=body, params={"sd": 0.01, "gap": 0.02})
    assert served.json() == json.loads(said.out)
    power = served.json()["power"]
    assert power["seeds"] == 3
    assert power["at_mean"] < power["at_one"]
    assert [claim["name"] for claim in power["claims"]] == ["ufp4-is-close"]


def test_power_for_people_says_gap_seeds_and_claims(gridlaw, claimed, tmp_path):
    _, spec_file = claimed
    said = gridlaw("power", spec_file, "--sd", "0.01", "--gap", "0.02", "--home", tmp_path / "none")
    assert said.out.startswith("3 seeds tell a gap of ")
    assert "A gap of 0.02 nats needs " in said.out
    assert "ufp4-is-close" in said.out


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--sd", "0", "sd = 0: must lie between 1e-06 and 10"),
        ("--level", "1.5", "level = 1.5"),
        ("--gap", "0", "gap = 0: must be"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(gridlaw, claimed, option, value, words):
    home, spec_file = claimed
    said = gridlaw("power", spec_file, option, value, "--home", home)
    assert said.code == 2
    assert words in said.err


def test_a_plan_says_what_its_design_cannot_tell_at_both_doors(gridlaw, client, tmp_path):
    spec_file = write_spec(tmp_path, claims=[CLAIM])
    said = gridlaw("plan", spec_file, "--home", tmp_path / "home")
    assert "What the design can tell" in said.out
    found = json.loads(gridlaw("plan", spec_file, "--home", tmp_path / "home", "--json").out)
    assert any("One seed decides no claim" in note for note in found["design"])
    assert all(note in said.out for note in found["design"])
    body = mapping(corpus=str(tmp_path / "texts"), claims=[CLAIM])
    assert client.post("/v1/plans", json=body).json()["design"] == found["design"]
