"""Stores that older versions of Gridlaw wrote, opened by this one.

`homes/v0001.sql` is the dump of a store of schema 0001, made at numerics version 1 by `gridlaw run`
of a sweep `done` of four runs (bf16; E2M1 blocks of 32 with rules; INT4 blocks of 16 and 32) and
`gridlaw submit` of a sweep `waiting`, which asks a longer horizon of three of them.
`homes/v0001.csv` is what `gridlaw export done` printed then.
"""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.blocks import Block
from kernels.operands import Rounding
from kernels.recipes import BF16_RECIPE, NUMERICS_VERSION, Precision, Rht, Rule, Signs
from orchestrator.service import Service
from orchestrator.settings import load_settings
from orchestrator.states import Reason, State
from orchestrator.store import Store
from sweeps.answer import to_csv
from tests.orchestrator.bench import Bench
from tests.orchestrator.values import LEASE

HOMES = Path(__file__).parent / "homes"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """The store as it was, which nothing opens but SQLite itself."""
    file = tmp_path_factory.mktemp("before") / "gridlaw.db"
    connection = sqlite3.connect(file)
    connection.executescript((HOMES / "v0001.sql").read_text())
    connection.close()
    return file


@pytest.fixture
def home(before, tmp_path):
    (tmp_path / "home").mkdir()
    shutil.copy(before, tmp_path / "home" / "gridlaw.db")
    return tmp_path / "home"


@pytest.fixture
def store(home):
    opened = Store(f"sqlite:///{home / 'gridlaw.db'}", runs=home / "runs", lease=LEASE)
    yield opened
    opened.close()


def rows(file: Path, table: str) -> list[dict[str, object]]:
    connection = sqlite3.connect(file)
    connection.row_factory = sqlite3.Row
    found = [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]
    connection.close()
    return found


def test_nothing_but_the_words_of_specs_changes(before, store, home):
    for table in ("runs", "members", "sweeps", "asks", "events", "endpoints", "curves", "attempts"):
        old, new = rows(before, table), rows(home / "gridlaw.db", table)
        assert old
        for row in (*old, *new):
            row.pop("spec", None)
            row.pop("preflight", None)
        assert new == old, table


def test_every_run_keeps_its_identity_its_version_and_its_meaning(before, store):
    old = {
        (row["sweep_id"], row["run_id"]): json.loads(str(row["spec"]))
        for row in rows(before, "members")
    }
    sweeps = {str(sweep_id) for sweep_id, _ in old}
    seen = [(sweep, run) for sweep in sweeps for run in store.runs(sweep)]
    assert len(seen) == 7
    for sweep, run in seen:
        assert run.spec.run_id == run.run_id
        assert run.spec.numerics_version == 1
        assert run.spec.recipe.gemm is Precision.FP32
        given = old[sweep, run.run_id]
        assert run.spec.recipe.name == given["recipe"]["name"]
        for name in ("fprop", "dgrad", "wgrad"):
            then, now = given["recipe"][name], getattr(run.spec.recipe, name)
            rht = then["rht"]
            assert now.rht == (None if rht is None else Rht(size=rht, signs=Signs.LAYER))
            for operand, said in ((now.left, then["left"]), (now.right, then["right"])):
                assert operand.block == Block(along=said["block"], across=1)
                assert operand.rounding.value == said["rounding"]
                assert (operand.grid is None) == (said["grid"] is None)
                assert (operand.random_bits, operand.half_offset) == (8, True)


def test_a_recipe_that_was_written_out_is_read_whole(store):
    (own,) = [run for run in store.runs("done") if run.spec.recipe.name == "own"]
    wgrad = own.spec.recipe.wgrad
    assert wgrad.rht == Rht(size=32)
    assert wgrad.left.block == Block(along=32)
    assert wgrad.left.rounding is Rounding.SR
    assert own.spec.recipe.rules == (Rule(pattern="blocks.0.mlp.*", quantize=False),)


def test_the_answer_is_the_one_that_was_given_then(home):
    service = Service.open(load_settings({}, home=home))
    try:
        assert to_csv(service.answer("done")) == (HOMES / "v0001.csv").read_text()
        assert service.progress("done").cells_done == 8
    finally:
        service.store.close()


@pytest.mark.parametrize("sweep", ["done", "waiting"])
def test_what_was_submitted_can_be_read(before, store, sweep):
    specs = {row["name"]: json.loads(str(row["spec"])) for row in rows(before, "sweeps")}
    old = specs[sweep]
    spec = store.spec(sweep)
    assert spec.name == sweep
    assert [str(budget) for budget in spec.budgets] == old["budgets"]
    asked = {replace(recipe, name="") for recipe in (*spec.all_recipes(), BF16_RECIPE)}
    assert {replace(run.spec.recipe, name="") for run in store.runs(sweep)} == asked


def test_a_run_of_older_numerics_is_not_trained_under_new_ones(store, home):
    bench = Bench(store, home)
    bench.ticks(4)
    runs = store.runs("waiting")
    assert [run.measured for run in runs] == [(2048,)] * 3
    for run in runs:
        assert (run.state, run.reason) == (State.FAILED, Reason.INVALID_RUN)
        assert run.detail == (
            "planned under version 1 of the numerics and this Gridlaw trains version "
            f"{NUMERICS_VERSION}; submit its sweep again"
        )
    assert bench.executor.launched == []
    assert store.sweep("done").runs[State.SUCCEEDED] == 4
