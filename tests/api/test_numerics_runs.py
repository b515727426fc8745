"""`gridlaw numerics run` and `ptq` on a home in which two small runs were really trained."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from rich.console import RenderableType
from rich.table import Table

from api.numerics_run_tables import logged_lines, ptq_lines
from orchestrator.loop import Loop
from orchestrator.service import Service, lay_out
from orchestrator.settings import Settings
from sweeps.run_questions import CastEndpoint, Difference, PtqAnswer
from sweeps.spec import load_spec
from tests.api.homes import settings_of, write_spec
from tests.orchestrator.values import diagnosis
from workers.local_executor import LocalExecutor

SHORT, LONG = 4096, 8192


@dataclass(frozen=True)
class Trained:
    """A home with a bf16 and a ufp4 run, each to two horizons."""

    settings: Settings
    sweep_id: str
    bf16: str
    ufp4: str

    @property
    def home(self) -> Path:
        return self.settings.home


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    spec = write_spec(
        folder,
        models=[{"layers": 1, "width": 16, "heads": 1}],
        recipes=["bf16", "ufp4"],
        budgets=[f"{SHORT}tok", f"{LONG}tok"],
        diagnostics={"every": 8, "layers": ["*.down"]},
    )
    settings = settings_of(folder / "home")
    service = Service.open(settings)
    sweep_id = service.submit(lay_out(load_spec(spec))).sweep_id
    executor = LocalExecutor(cache=settings.layout.cache)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    Loop(service.store, executor, service.clock, settings).run_until(sweep_id, Event())
    executor.shutdown(settings.stop_grace_seconds)
    torch.set_num_threads(before)
    ids = {run.spec.recipe.name: run.run_id for run in service.runs(sweep_id)}
    service.store.close()
    return Trained(settings, sweep_id, ids["bf16"], ids["ufp4"])


@pytest.fixture
def ask(gridlaw, trained, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def call(verb: str, *arguments: object) -> Any:
        return gridlaw("numerics", verb, *arguments, "--home", trained.home)

    return call


@pytest.mark.slow
def test_a_run_is_measured_under_its_own_recipe_and_drawn(ask, trained, tmp_path):
    said = ask("run", trained.ufp4[:6], "--json", "--out", tmp_path / "page.html")
    assert said.code == 0, said.err
    run = json.loads(said.out)
    (found,) = run["measured"]
    assert (run["run_id"], run["recipe"], found["recipe"]) == (trained.ufp4, "ufp4", "ufp4")
    branch = round(LONG * 0.8 / 256)
    assert (found["horizon"], found["step"], found["measured_step"]) == (None, branch, branch + 3)
    assert [layer["layer"] for layer in found["layers"]] == [
        *(f"blocks.0.attention.{word}" for word in ("query", "key", "value", "output")),
        *(f"blocks.0.mlp.{word}" for word in ("gate", "up", "down")),
    ]
    for layer in found["layers"]:
        assert [one["operand"] for one in layer["operands"]] == ["x", "w", "dy", "w", "dy", "x"]
        assert 0 < layer["motion"]["mismatch"] < 0.2
    for chain in found["gains"]:
        product = 1.0
        for gain, running in zip(chain["gains"], chain["products"], strict=True):
            product *= gain
            assert running == pytest.approx(product)
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert trained.ufp4 in page


@pytest.mark.slow
def test_one_page_compares_recipes_on_the_same_tensors(ask, trained, tmp_path):
    asked = ("--recipe", "e2m1-ref", "--recipe", "ufp4", "--layers", "*.down")
    said = ask("run", trained.bf16, *asked, "--json", "--out", tmp_path / "page.html")
    assert said.code == 0, said.err
    measured = json.loads(said.out)["measured"]
    assert [one["recipe"] for one in measured] == ["e2m1-ref", "ufp4"]
    crests = [one["layers"][0]["operands"][0]["plain"]["crest_factor"] for one in measured]
    assert crests[0] == crests[1]
    assert "Under e2m1-ref and ufp4." in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_a_bf16_run_is_seen_by_people_under_a_recipe_of_their_own(ask, trained):
    said = ask(
        "run", "1x16h1 bf16 s0", "--recipe", "{format: e2m1, rht: [wgrad]}", "--layers", "*.up"
    )
    assert said.code == 0, said.err
    assert "Measured under e2m1-rht.wgrad" in said.out
    rows = [line.split() for line in said.out.splitlines()]
    assert ["blocks.0.mlp.up"] in rows
    assert sum(row[:2] == ["wgrad", "dy"] and row[2:4] == ["after", "RHT"] for row in rows) == 1
    assert sum(row[:2] == ["fprop", "w"] and row[2:5] == ["as", "it", "is"] for row in rows) == 1
    assert "blocks.0.mlp.down" not in said.out
    assert "--logged" not in said.out  # nothing was diagnosed of it


def test_what_was_logged_needs_no_measuring(ask, trained):
    found = json.loads(ask("run", trained.ufp4, "--logged", "--json").out)
    steps = [(one["horizon"], one["step"]) for one in found["diagnoses"]]
    assert steps == [(None, 8), (SHORT, 16), (None, 16), (None, 24), (LONG, 32)]
    lines = ask("run", trained.ufp4, "--logged").out.splitlines()
    assert len([line for line in lines if line.startswith("blocks.0.mlp.down")]) == 5
    assert "Nothing was diagnosed of 1x16h1 bf16 s0" in ask("run", trained.bf16, "--logged").out


@pytest.mark.slow
def test_casting_is_set_beside_the_gap_of_training(ask, gridlaw, trained):
    said = ask("ptq", trained.bf16, "--recipes", "ufp4,nvfp4", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert [(row["tokens"], row["recipe"]) for row in found["endpoints"]] == [
        (SHORT, "ufp4"), (SHORT, "nvfp4"), (LONG, "ufp4"), (LONG, "nvfp4")
    ]  # fmt: skip
    answer = json.loads(gridlaw("gaps", trained.sweep_id, "--home", trained.home, "--json").out)
    gaps = {gap["tokens"]: gap["gap"] for gap in answer["gaps"]}
    for row in found["endpoints"]:
        assert row["cost"]["mean"] == pytest.approx(row["loss"] - row["loss_bf16"])
        assert row["cost"]["se"] > 0
        if row["recipe"] == "ufp4":
            assert row["trained_gap"] == gaps[row["tokens"]]
            assert row["trained"]["mean"] == pytest.approx(gaps[row["tokens"]], abs=1e-5)
        else:
            assert (row["trained_gap"], row["trained"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["run", "feed"], 1, "there is no run 'feed'"),
        (["run", "1x16h1 bf16 s0"], 2, "was trained without quantization; --recipe NAME says"),
        (["run", "1x16h1 bf16 s0", "--recipe", "fp16"], 2, "recipe = fp16: quantizes nothing"),
        (["run", "1x16h1 ufp4 s0", "--recipe", "ufp5"], 2, "recipe = ufp5: is no preset recipe"),
        (["run", "1x16h1 ufp4 s0", "--recipe", "{format: x}"], 2, "recipe.format = x: is no num"),
        (["run", "1x16h1 ufp4 s0", "--logged", "--layers", "*"], 2, "--logged measures nothing"),
        (["ptq", "1x16h1 ufp4 s0", "--recipes", "ufp4"], 2, "only endpoints of a bf16 run can be"),
        (["ptq", "1x16h1 bf16 s0", "--recipes", " , "], 2, "--recipes names no recipe"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_measured(
    ask, trained, arguments, code, sentence
):
    said = ask(*arguments)
    assert said.code == code
    assert sentence in said.err
    assert said.out == ""
    assert len(said.err.splitlines()) == 1


def test_a_run_that_has_not_begun_has_nothing_to_cast(gridlaw, tmp_path):
    spec = write_spec(tmp_path, models=[{"layers": 1, "width": 16, "heads": 1}], recipes=["bf16"])
    assert gridlaw("submit", spec, "--home", tmp_path / "home").code == 0
    said = gridlaw(
        "numerics", "ptq", "1x16h1 bf16 s0", "--recipes", "ufp4", "--home", tmp_path / "home"
    )
    assert (said.code, said.out) == (2, "")
    assert "has no endpoint yet" in said.err


def rows(lines: Iterable[RenderableType]) -> list[tuple[object, ...]]:
    """The cells of the only table among what is printed."""
    (table,) = (line for line in lines if isinstance(line, Table))
    return list(zip(*(column.cells for column in table.columns), strict=True))


def test_a_cast_without_a_finite_loss_is_a_row_without_a_cost():
    row = CastEndpoint(
        tokens=4096, recipe="int8", loss_bf16=3.0, loss=None, cost=None, trained=None
    )
    other = CastEndpoint(
        tokens=4096,
        recipe="ufp4",
        loss_bf16=3.0,
        loss=3.25,
        cost=Difference(mean=0.25, se=0.01),
        trained=Difference(mean=0.1, se=0.02),
    )
    answer = PtqAnswer(sequences=4, eval_tokens=128, weights_only=False, endpoints=(row, other))
    assert rows(ptq_lines("m bf16 s0", answer, {("ufp4", 4096): 0.1})) == [
        ("4.1ktok", "int8", "3.0000", "not finite", "-", "-", "-", "-"),
        ("4.1ktok", "ufp4", "3.0000", "3.2500", "+0.2500", "0.0100", "+0.1000", "0.0200"),
    ]


def test_layers_that_lack_an_operand_have_a_dash():
    found = rows(logged_lines("m ufp4 s0", [diagnosis(1024), diagnosis(2048, horizon=4096)]))
    assert [row[:4] for row in found] == [
        ("blocks.0.mlp.down", "trunk", "1", "20.50"),
        ("blocks.1.mlp.down", "trunk", "1", "-"),
        ("blocks.0.mlp.down", "to 4.1ktok", "2", "20.50"),
        ("blocks.1.mlp.down", "to 4.1ktok", "2", "-"),
    ]
    assert found[1][3:] == ("-",) * 7
