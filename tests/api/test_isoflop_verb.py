"""`gridlaw isoflop` on a file of runs of a known surface."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

E, A, B, ALPHA, BETA = 1.69, 406.4, 410.7, 0.34, 0.28
"""The published constants of Hoffmann et al. 2022."""

BUDGETS = np.geomspace(6e18, 1e21, 8)


def optimum(flops: float) -> float:
    scale = (ALPHA * A / (BETA * B)) ** (1 / (ALPHA + BETA))
    return float(scale * (flops / 6) ** (BETA / (ALPHA + BETA)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven sizes at six budgets, the largest budget off its minimum."""
    random = np.random.default_rng(0)
    rows = []
    for rank, flops in enumerate(BUDGETS):
        off = 6 if flops == BUDGETS[-1] else 1
        for size in off * optimum(flops) * np.geomspace(0.25, 4, 7):
            tokens = flops / (6 * size)
            loss = E + A / size**ALPHA + B / tokens**BETA
            rows.append((rank, round(size), round(tokens), loss * (1 + random.normal(0, 3e-4))))
    path: Path = tmp_path_factory.mktemp("runs") / "isoflop.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["budget", "params", "tokens", "val"])
        writer.writerows(rows)
    return path


COLUMNS = ("--n-col", "params", "--d-col", "tokens", "--loss-col", "val")


def test_minima_exponents_and_frontier_are_those_of_the_surface(gridlaw, runs):
    said = gridlaw("isoflop", runs, *COLUMNS, "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    *inside, last = found["budgets"]
    for flops, budget in zip(BUDGETS[:-1], inside, strict=True):
        corrected = budget["minimum"]["N"] / budget["bias"]
        assert corrected == pytest.approx(optimum(flops), rel=0.05)
    assert last["minimum"] is None
    assert "at the smallest size" in last["reason"]
    a, b = (one["value"] for one in found["exponents"])
    assert a == pytest.approx(BETA / (ALPHA + BETA), abs=0.02)
    assert a + b == pytest.approx(1)
    exponent = next(one for one in found["frontier"]["constants"] if one["name"] == "alpha_C")
    assert exponent["low"] < ALPHA * BETA / (ALPHA + BETA) < exponent["high"]


def test_people_read_a_line_for_each_budget_and_why_one_is_refused(gridlaw, runs):
    said = gridlaw("isoflop", runs, *COLUMNS)
    assert said.code == 0, said.err
    assert "7 budgets of 8 with a measured minimum" in said.out
    assert "the lowest loss is at the smallest size" in said.out
    assert "N_opt ~ C^a: a = 0.4" in said.out
    assert "L = E + K / C^alpha_C" in said.out


def test_rows_are_chosen_by_an_expression(gridlaw, runs):
    said = gridlaw("isoflop", runs, *COLUMNS, "--where", "budget < 4", "--json")
    assert len(json.loads(said.out)["budgets"]) == 4


def test_one_budget_gives_its_minimum_and_refuses_exponents_and_frontier(gridlaw, runs):
    chosen = ("--where", "budget == 0", "--json")
    found = json.loads(gridlaw("isoflop", runs, *COLUMNS, *chosen).out)
    (budget,) = found["budgets"]
    assert budget["minimum"] is not None
    assert [one["value"] for one in found["exponents"]] == [None, None]
    assert all(one["value"] is None for one in found["frontier"]["constants"])


def test_a_missing_column_is_one_sentence(gridlaw, runs):
    said = gridlaw("isoflop", runs, "--n-col", "param", "--d-col", "tokens", "--loss-col", "val")
    assert (said.code, said.out) == (2, "")
    assert "did you mean params?" in said.err


def test_a_law_without_a_best_size_is_no_surface(gridlaw, runs):
    said = gridlaw("isoflop", runs, *COLUMNS, "--law", "frontier")
    assert said.code == 2
    assert "law = frontier" in said.err
