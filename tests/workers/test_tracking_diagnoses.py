"""Diagnoses in a real MLflow store."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.store import Store
from tests.orchestrator.values import BATCH, START, diagnosis, heard, plan_of, step
from tests.workers.mlflow_stage import Stage

# MLflow 3.17 under SQLAlchemy 2.1.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader:sqlalchemy.exc.SADeprecationWarning"
)

SHORT = 40960


@pytest.mark.slow
def test_a_diagnosis_that_fills_several_calls_is_there_once(tmp_path):
    store = Store(
        f"sqlite:///{tmp_path / 'gridlaw.db'}", runs=tmp_path, lease=timedelta(seconds=60)
    )
    sweep = store.submit(plan_of(recipes=("ufp4",), diagnostics={"every": 1}), START)
    stage = Stage(store, sweep, f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)
    stage.claim()  # the baseline
    task = stage.claim()
    assert task.spec.recipe.name == "ufp4"
    layer = diagnosis(BATCH).layers[0]
    layers = tuple(replace(layer, layer=f"blocks.{place}.mlp.down") for place in range(100))
    told = replace(diagnosis(BATCH), layers=layers)
    again = replace(diagnosis(2 * BATCH, horizon=SHORT), layers=layers[:1])
    stage.store.apply(heard(task, step(BATCH), told, again), START)
    for marks in ("kept", "lost"):  # as after a crash between the calls
        stage.level()
        run = stage.runs()[task.key.run_id]
        for place in (0, 99):
            name = f"numerics/blocks.{place}.mlp.down/fprop/x/sqnr"
            assert stage.history(task, name) == [(BATCH, 20.5)], marks
        branch = f"cooldown_{SHORT}/numerics/blocks.0.mlp.down/weight/flips"
        assert stage.history(task, branch) == [(2 * BATCH, 0.1)]
        stage.client.set_tag(run.info.run_id, "gridlaw.sent", "{}")
    told_once = [name for name in run.data.metrics if name.startswith("numerics/")]
    assert len(told_once) == 1200 + 1  # the numbers of 100 layers, and their mean underflow
    store.close()
