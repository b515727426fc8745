"""`gridlaw gaps FILE` and `gridlaw claims FILE`, on public runs and on files that are refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps.fits.public_data import FOLDER, public_rows

ROOT = Path(__file__).resolve().parents[2]
QUARTET = FOLDER / "quartet_formats.csv"
ARMS = ("--arm-col", "fwd_format,bwd_format", "--baseline", "BF16,BF16")
FORWARD, BACKWARD = "QuEST/BF16", "BF16/AlbertTsengQuantizer"
BOTH = "QuEST/AlbertTsengQuantizer"
KNOWN = {
    # pairs, mean, c at 6e7 and 6e9, a (s.e.), b (s.e.), s.d. of residuals
    FORWARD: (21, 0.0792, 0.0775, -0.183, 0.015, 0.100, 0.008, 0.0032),
    BACKWARD: (22, 0.0120, 0.0124, -0.001, 0.047, -0.124, 0.025, 0.0017),
    BOTH: (21, 0.0897, 0.0888, -0.129, 0.012, 0.059, 0.006, 0.0029),
    "BF16/AlbertTsengDeterministic": (17, 0.0099, 0.0098, 0.056, 0.078, 0.111, 0.034, 0.0015),
    "BF16/Eden128": (19, 0.0070, 0.0070, 0.178, 0.054, 0.046, 0.021, 0.0008),
}
FIVE = (
    "fwd_format in ('BF16', 'QuEST') and "
    "bwd_format in ('BF16', 'AlbertTsengQuantizer', 'AlbertTsengDeterministic', 'Eden128')"
)


def process(*arguments: object) -> str:
    """Standard output of `gridlaw` as a process that knows no home."""
    script = "from api.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=FOLDER,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_public_gaps_are_those_known_and_compute_is_worth_what_is_known():
    public_rows(QUARTET.name)
    said = process("gaps", QUARTET, *ARMS, "--law", "gamma", "--where", FIVE, "--json")
    whole = json.loads(said)
    arms: dict[str, dict[str, Any]] = {arm["label"]: arm for arm in whole["arms"]}
    assert whole["baseline"] == "BF16/BF16"
    assert whole["law"]["law"] == "gamma"
    for label, (count, mean, c, a, a_error, b, b_error, sd) in KNOWN.items():
        arm = arms[label]
        assert (arm["n_pairs"], arm["n_cells"], arm["alone"]) == (count, count, [])
        assert arm["mean"] == pytest.approx(mean, abs=5e-5)
        assert arm["certainty"]["basis"] == "cells"
        power = arm["effective"]["gap"]["power"]
        found_c, found_a, found_b = (item["value"] for item in power["estimates"])
        moved = found_c * (6e7 / power["N0"]) ** found_a * (6e9 / power["D0"]) ** found_b
        assert moved == pytest.approx(c, rel=0.02)
        assert (found_a, found_b) == pytest.approx((a, b), abs=6e-4)
        assert power["errors"][1:] == pytest.approx([a_error, b_error], abs=6e-4)
        assert power["sd"] == pytest.approx(sd, abs=6e-5)
    for label, known, ends in (
        (FORWARD, 0.599, (0.578, 0.649)),
        (BACKWARD, 0.899, (0.889, 0.910)),
        (BOTH, 0.539, (0.519, 0.588)),
    ):
        worth = arms[label]["effective"]["C_mult"]
        assert worth["value"] == pytest.approx(known, abs=0.01)
        assert (worth["low"], worth["high"]) == pytest.approx(ends, abs=0.02)
        pays = arms[label]["effective"]["break_even"]
        assert pays["value"] == pytest.approx(1 / worth["value"])
    assert arms[FORWARD]["effective"]["gap"]["chosen"] == "power"
    assert arms[BACKWARD]["effective"]["gap"]["chosen"] == "eff_C"


def test_public_claims_have_estimate_interval_and_verdict():
    public_rows(QUARTET.name)
    said = process(
        *("claims", QUARTET, *ARMS),
        *("--statement", f"gap({BACKWARD}) < gap(QuEST,BF16)"),
        *("--statement", "abs(gap(BF16/Eden128)) < 0.005"),
    )
    lines = said.splitlines()
    assert lines[0] == ("2 claims on gaps to BF16/BF16: 1 supported, 1 contradicted, 0 undecided.")
    assert "95 % t interval over 21 cells -0.0729 to -0.0612, n = 21 pairs in 21 cells" in said
    assert "gap(BF16/Eden128) = +0.0070 nats per token, claimed to be between" in said


def test_the_text_shows_every_arm_with_its_law_and_its_worth(gridlaw):
    public_rows(QUARTET.name)
    where = "fwd_format in ('BF16', 'QuEST') and bwd_format == 'BF16'"
    said = gridlaw("gaps", QUARTET, *ARMS, "--law", "gamma", "--where", where)
    assert said.code == 0, said.err
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert any(line.startswith(f"{FORWARD} 21 21 +0.0792 +0.0739 +0.0846 +2.64") for line in lines)
    assert any(line.startswith(f"{FORWARD} gap = c (N / N0)^a (D / D0)^b c = ") for line in lines)
    assert any(line.startswith(f"{FORWARD} 0.600 (0.578-0.650) 1.666 (") for line in lines)
    assert f"{FORWARD}: no column of seeds is named: the interval is over cells" in lines


def test_what_one_ratio_cannot_tell_is_said_and_not_given(gridlaw):
    public_rows("quest_bits.csv")
    file, arms = FOLDER / "quest_bits.csv", ("--arm-col", "fit_key", "--baseline", "16")
    said = gridlaw("gaps", file, *arms, "--where", "fit_key in ('16', '4', '8')", "--json")
    assert said.code == 0, said.err
    for arm in json.loads(said.out)["arms"]:
        assert arm["mean"] is not None
        assert arm["effective"]["C_mult"]["value"] is None
        assert arm["effective"]["C_mult"]["reason"]
    assert any(one["reason"] == "no baseline" for one in json.loads(said.out)["arms"][0]["alone"])


@pytest.fixture
def runs(tmp_path):
    path = tmp_path / "runs.csv"
    rows = [f"1e7,{D}e8,{arm},gpt2,{loss}" for D, loss in ((1, 3.0), (2, 2.9)) for arm in "ab"]
    path.write_text("\n".join(["N,D,arm,tokenizer,loss", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gaps", "runs"], "arm-col: a gap is between arms; --arm-col says which column"),
        (["gaps", "runs", "--arm-col", "arm"], "baseline: no row is of an arm bf16"),
        (["gaps", "runs", "--arm-col", "arm", "--baseline", "c"], "baseline = c: no row is of"),
        (
            ["gaps", "runs", "--arm-col", "arm", "--baseline", "a", "--law", "cubic"],
            "law = ",
        ),
        (["gaps", "runs", "--arm-col", "format"], "arm-col = format: the file has no such"),
        (
            ["gaps", "runs", "--arm-col", "arm", "--baseline", "a", "--level", "2"],
            "level = 2.0: must lie between 0.5 and 1",
        ),
        (["gaps", "nobody", "--arm-col", "arm"], "--arm-col is for a file of runs, and nobody"),
        (["gaps", "nobody", "--law", "gamma"], "--law is for a file of runs, and nobody"),
        (["claims", "runs", "--arm-col", "arm", "--baseline", "a"], "statement: a file of runs"),
        (
            ["claims", "runs", "--claim", "x", "--statement", "gap(b) < 1"],
            "--claim is for a sweep, and",
        ),
        (["claims", "nobody", "--statement", "gap(b) < 1"], "--statement is for a file of runs"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(gridlaw, runs, arguments, said):
    done = gridlaw(*(runs if word == "runs" else word for word in arguments))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_two_tokenizers_are_never_compared(gridlaw, runs):
    runs.write_text(runs.read_text().replace("b,gpt2", "b,llama"))
    ask = ("--arm-col", "arm", "--baseline", "a")
    for verb in (("gaps", runs, *ask), ("claims", runs, *ask, "--statement", "gap(b) < 1")):
        done = gridlaw(*verb)
        assert (done.code, done.out) == (2, "")
        assert "tokenizer-col = tokenizer: runs holds 2 values, 'gpt2', 'llama'" in done.err


def test_the_points_of_a_sweep_give_the_gaps_of_the_sweep(gridlaw, finished, tmp_path):
    home = ("--home", finished.home)
    points = tmp_path / "points.parquet"
    said = gridlaw("export", finished.sweep_id, "--what", "points", "--out", points, *home)
    assert said.code == 0, said.err
    columns = "--arm-col recipe --seed-col seed --group-col cluster --excluded-col excluded"
    found = json.loads(gridlaw("gaps", points, *columns.split(), "--json").out)
    sweep = json.loads(gridlaw("gaps", finished.sweep_id, *home, "--json").out)
    pairs = [one["gap"] for one in sweep["gaps"] if one["recipe"] == "ufp4"]
    arms = {arm["label"]: arm for arm in found["arms"]}
    assert arms["ufp4"]["n_pairs"] == len(pairs) > 0
    assert arms["ufp4"]["mean"] == pytest.approx(sum(pairs) / len(pairs))
    assert arms["ufp4"]["certainty"]["basis"] == "groups"
    assert arms["e4m3"]["n_pairs"] == 0
    assert {one["reason"].split(" (")[0] for one in arms["e4m3"]["alone"]} == {"diverged"}
    statement = ("--statement", "gap(e4m3) > gap(ufp4)")
    (claim,) = json.loads(gridlaw("claims", points, *columns.split(), *statement, "--json").out)[
        "claims"
    ]
    assert claim["verdict"] == "undecided"
    assert "a run of it diverged" in claim["reason"]
