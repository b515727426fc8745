"""Stores that older versions of Gridlaw wrote, opened by this one.

`homes/v0001.sql` is the dump of a store of schema 0001, made at numerics version 1 by `gridlaw run`
of a sweep `done` of four runs (bf16; E2M1 blocks of 32 with rules; INT4 blocks of 16 and 32) and
`gridlaw submit` of a sweep `waiting`, which asks a longer horizon of three of them.
`homes/v0002.sql` is the same of schema 0002, numerics version 2 and training version 1: bf16, ufp4
and fp16 with one diagnosis, and a longer horizon of the first two.
`homes/v0003.sql` is the same of schema 0003 and training version 2: bf16, nvfp4 and mxfp8.
The `.csv` beside each is what `gridlaw export done` printed then.
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
from sweeps.fits.settings import Settings as FitSettings
from sweeps.runspec import TRAINING_VERSION
from sweeps.tables.results import endpoint_table
from sweeps.tables.table import Form, encode
from sweeps.training import Health, Order
from tests.orchestrator.bench import Bench
from tests.orchestrator.values import LEASE

HOMES = Path(__file__).parent / "homes"


def dumped(version: str, file: Path) -> Path:
    """A store as it was, which nothing opens but SQLite itself."""
    connection = sqlite3.connect(file)
    connection.executescript((HOMES / f"{version}.sql").read_text())
    connection.close()
    return file


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return dumped("v0001", tmp_path_factory.mktemp("before") / "gridlaw.db")


@pytest.fixture
def home(before, tmp_path):
    (tmp_path / "home").mkdir()
    shutil.copy(before, tmp_path / "home" / "gridlaw.db")
    return tmp_path / "home"


@pytest.fixture
def second_home(tmp_path):
    (tmp_path / "second").mkdir()
    dumped("v0002", tmp_path / "second" / "gridlaw.db")
    return tmp_path / "second"


@pytest.fixture
def third_home(tmp_path):
    (tmp_path / "third").mkdir()
    dumped("v0003", tmp_path / "third" / "gridlaw.db")
    return tmp_path / "third"


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
            assert row.pop("num_columns", 7) == 7
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


@pytest.mark.parametrize(
    ("place", "version", "cells"), [("home", 1, 8), ("second_home", 2, 6), ("third_home", 3, 6)]
)
def test_the_answer_is_the_one_that_was_given_then(request, place, version, cells):
    service = Service.open(load_settings({}, home=request.getfixturevalue(place)))
    try:
        given = encode(endpoint_table(service.answer("done").rows), Form.CSV)
        assert given == (HOMES / f"v000{version}.csv").read_bytes()
        assert service.progress("done").cells_done == cells
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


def test_runs_of_the_training_before_keep_ids_curves_and_diagnoses_and_are_not_gone_on_with(
    second_home,
):
    old = {row["run_id"]: row for row in rows(second_home / "gridlaw.db", "runs")}
    store = Store(f"sqlite:///{second_home / 'gridlaw.db'}", runs=second_home / "runs", lease=LEASE)
    try:
        records = store.records("done")
        assert {record.spec.run_id for record in records} == set(old)
        assert all(record.spec.training_version == 1 for record in records)
        assert all(record.spec.training.order is Order.WINDOWS for record in records)
        assert store.spec("done").train.order is Order.WINDOWS
        for record in records:
            assert [point.step for point in record.curve][:3] == [1, 2, 3]
            assert all(point.mfu is None for point in record.curve)
            assert record.spec.health == Health()
        bench = Bench(store, second_home)
        bench.ticks(4)
        assert {run.detail for run in store.runs("waiting")} == {
            f"planned under version 1 of the training and this Gridlaw trains version "
            f"{TRAINING_VERSION}; submit its sweep again"
        }
        assert bench.executor.launched == []
    finally:
        store.close()


def test_a_store_without_kept_fits_gets_a_place_for_them_and_nothing_else(third_home):
    file = third_home / "gridlaw.db"
    tables = ("runs", "members", "sweeps", "asks", "events", "endpoints", "curves", "attempts")
    old = {table: rows(file, table) for table in (*tables, "diagnoses")}
    service = Service.open(load_settings({}, home=third_home))
    try:
        assert service.kept_fits() == ()
        assert {table: rows(file, table) for table in old} == old
        assert all(old.values())
        fits = service.fits_of("done", FitSettings())
        kept = service.keep_fits(fits, "done")
        assert {summary.fit_id for summary in service.kept_fits()} == set(kept)
    finally:
        service.store.close()
