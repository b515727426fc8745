"""The mirror against real MLflow stores: SQLite files, and a server that is started late."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.scheduler import Move, decide
from orchestrator.states import Reason
from orchestrator.store import Store
from orchestrator.summaries import SweepSummary
from sweeps.metrics import Diverged, TrainEvent
from tests.orchestrator.values import BATCH, START, endpoint, heard, plan_of, step
from tests.workers.mlflow_stage import PATIENCE, Stage

# MLflow 3.17 under SQLAlchemy 2.1.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader:sqlalchemy.exc.SADeprecationWarning"
)

SHORT, LONG = 40960, 81920


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(
        f"sqlite:///{tmp_path / 'gridlaw.db'}",
        runs=tmp_path / "runs",
        lease=timedelta(seconds=60),
    )
    yield opened
    opened.close()


@pytest.fixture
def sweep(store: Store) -> SweepSummary:
    """Two runs, two horizons each."""
    return store.submit(plan_of(), START)


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database, copied by each test: making one takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def url(tmp_path: Path, blank: Path) -> str:
    folder = tmp_path / "mlflow"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes(blank.read_bytes())
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture
def stage(store: Store, sweep: SweepSummary, url: str, tmp_path: Path) -> Stage:
    return Stage(store, sweep, url, tmp_path)


def settle(stage: Stage) -> None:
    """Carry out what the scheduler decides about ended attempts."""
    snapshot = stage.store.snapshot(room=0)
    for decision in decide(snapshot, START, free_slots=0, is_draining=False):
        assert isinstance(decision, Move)
        assert stage.store.move(
            decision.run_id,
            decision.source,
            decision.target,
            decision.reason,
            now=START,
            detail=decision.detail,
        )


def artifacts(stage: Stage, run: Run) -> set[str]:
    return {file.path for file in stage.client.list_artifacts(run.info.run_id)}


def test_a_run_appears_with_its_parameters_metrics_by_tokens_and_status(stage):
    task = stage.claim()
    branch = task.spec.branch_tokens(SHORT)
    events: list[TrainEvent] = [
        step(BATCH, loss=5.0),
        step(branch, loss=4.0),
        step(SHORT, horizon=SHORT, loss=3.0),
        endpoint(SHORT, loss=2.5),
        step(SHORT, loss=3.5),
    ]
    stage.store.apply(heard(task, *events), START + timedelta(seconds=90))
    stage.level()

    run = stage.runs()[task.key.run_id]
    assert run.info.run_name == task.spec.label
    assert run.info.status == "RUNNING"
    assert run.data.params["training.learning_rate"] == "0.001"
    assert run.data.params["model.width"] == "32"
    assert run.data.params["recipe.name"] == "bf16"
    assert run.data.tags["gridlaw.horizons"] == f"[{SHORT}, {LONG}]"
    assert stage.history(task, "train_loss") == [(BATCH, 5.0), (branch, 4.0), (SHORT, 3.5)]
    assert stage.history(task, f"cooldown_{SHORT}/train_loss") == [(SHORT, 3.0)]
    assert stage.history(task, "val_loss") == [(SHORT, 2.5)]
    assert stage.history(task, "learning_rate") == [(BATCH, 1e-3), (branch, 1e-3), (SHORT, 1e-3)]
    bits = run.data.metrics["val_bits_per_byte"]
    assert bits == pytest.approx(2.5 * 1.4426950408889634)
    (point, *_) = stage.client.get_metric_history(run.info.run_id, "train_loss")
    assert point.timestamp - run.info.start_time == round(1000 * point.step / 1000)


def test_a_run_that_never_trained_is_not_shown(stage):
    stage.level()
    assert set(stage.runs()) == {stage.sweep.sweep_id}


def test_looking_again_and_starting_again_change_nothing(stage):
    task = stage.claim()
    stage.store.apply(heard(task, step(BATCH), step(2 * BATCH)), START)
    stage.level()
    before = {key: (run.info, run.data) for key, run in stage.runs().items()}
    stage.level()
    after = {key: (run.info, run.data) for key, run in stage.runs().items()}
    assert {key: dict(info) for key, (info, _) in after.items()} == {
        key: dict(info) for key, (info, _) in before.items()
    }
    assert stage.history(task, "train_loss") == [(BATCH, 3.0), (2 * BATCH, 3.0)]

    stage.store.apply(heard(task, step(3 * BATCH), offset=2), START)
    stage.level()
    assert [tokens for tokens, _ in stage.history(task, "train_loss")] == [
        BATCH,
        2 * BATCH,
        3 * BATCH,
    ]


def test_a_batch_sent_twice_is_there_once(stage):
    task = stage.claim()
    stage.store.apply(heard(task, step(BATCH), step(2 * BATCH), endpoint(SHORT)), START)
    stage.level()
    run = stage.runs()[task.key.run_id]
    # As after a crash between the metrics and the note that they were sent.
    stage.client.set_tag(run.info.run_id, "gridlaw.sent", "{}")
    stage.level()
    assert stage.history(task, "train_loss") == [(BATCH, 3.0), (2 * BATCH, 3.0)]
    assert stage.history(task, "val_loss") == [(SHORT, 2.5)]


def test_what_a_resumed_run_trains_again_is_not_sent_again(stage):
    first = stage.claim()
    steps = [step(number * BATCH) for number in (1, 2, 3)]
    stage.store.apply(heard(first, *steps, ended=Reason.WORKER_LOST), START)
    stage.level()
    settle(stage)
    second = stage.claim()
    assert second.key.run_id == first.key.run_id
    again = [replace(step(number * BATCH), seconds=99.0 + number) for number in (2, 3, 4)]
    stage.store.apply(heard(second, *again), START)
    stage.level()
    assert stage.history(first, "train_loss") == [(number * BATCH, 3.0) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("reason", "status", "outcome"),
    [
        (Reason.NON_FINITE, "FINISHED", "diverged"),
        (Reason.OUT_OF_MEMORY, "FAILED", "failed"),
        (Reason.INTERRUPTED, "SCHEDULED", "queued"),
    ],
)
def test_the_status_says_how_a_run_ended(stage, reason, status, outcome):
    task = stage.claim()
    event = Diverged(horizon=None, step=2, tokens=2 * BATCH, detail="training loss is nan")
    events: list[TrainEvent] = [step(BATCH), *([event] if reason is Reason.NON_FINITE else [])]
    stage.store.apply(heard(task, *events, ended=reason, detail="why"), START)
    settle(stage)
    stage.level()
    run = stage.runs()[task.key.run_id]
    assert run.info.status == status
    assert run.data.tags["gridlaw.outcome"] == outcome
    assert run.data.tags["gridlaw.attempt"] == "1"


def test_a_finished_sweep_has_its_file_and_its_report(stage):
    for _ in range(2):
        task = stage.claim()
        points: list[TrainEvent] = [step(BATCH), *(endpoint(horizon) for horizon in task.horizons)]
        stage.store.apply(heard(task, *points, ended=Reason.COMPLETED), START)
    settle(stage)
    stage.level()
    parent = stage.runs()[stage.sweep.sweep_id]
    assert parent.info.status == "FINISHED"
    assert {run.info.status for run in stage.runs().values()} == {"FINISHED"}
    assert artifacts(stage, parent) == {"sweep.yaml"}

    report = stage.folder / "reports" / stage.sweep.sweep_id / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("<p>first</p>")
    stage.level()
    report.write_text("<p>second</p>")
    stage.level()
    assert artifacts(stage, parent) == {"sweep.yaml", "report.html"}
    folder = Path(stage.client.download_artifacts(parent.info.run_id, ""))
    assert (folder / "report.html").read_text() == "<p>second</p>"
    assert "name: small" in (folder / "sweep.yaml").read_text()
    child = stage.runs()[stage.tasks[0].key.run_id]
    assert artifacts(stage, child) == {"spec.json"}
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id


def test_what_a_person_deleted_in_mlflow_stays_deleted(stage):
    task = stage.claim()
    stage.store.apply(heard(task, step(BATCH)), START)
    stage.level()
    stage.client.delete_run(stage.runs()[task.key.run_id].info.run_id)
    stage.store.apply(heard(task, step(2 * BATCH), offset=1), START)
    stage.level()
    assert stage.runs()[task.key.run_id].info.lifecycle_stage == "deleted"
    assert stage.history(task, "train_loss") == [(BATCH, 3.0)]
    stage.client.delete_experiment(stage.experiment.experiment_id)
    stage.store.apply(heard(task, step(3 * BATCH), offset=2), START)
    stage.level()
    assert stage.experiment.lifecycle_stage == "deleted"


def test_more_points_than_fit_into_one_call_all_arrive(stage):
    task = stage.claim()
    points = [step(number) for number in range(1, 701)]
    stage.store.apply(heard(task, *points), START)
    stage.level()
    assert stage.history(task, "train_loss") == [(number, 3.0) for number in range(1, 701)]


def test_a_store_that_cannot_be_opened_is_caught_up_with_when_it_can(stage, blank):
    database = stage.folder / "mlflow" / "mlflow.db"
    database.unlink()
    database.mkdir()  # which nobody can open as a file, not even root
    mirror = stage.mirror()
    mirror.start()
    task = stage.claim()
    stage.store.apply(heard(task, step(BATCH)), START)
    assert not mirror.flush(0.3)
    database.rmdir()
    database.write_bytes(blank.read_bytes())
    assert mirror.close(PATIENCE)
    assert stage.history(task, "train_loss") == [(BATCH, 3.0)]


def test_a_sweep_that_cannot_be_sent_does_not_hold_up_the_others(stage):
    task = stage.claim()
    stage.store.apply(heard(task, step(BATCH)), START)
    other = stage.store.submit(plan_of(name="other", seeds=(1,)), START)
    report = stage.folder / "reports" / other.sweep_id / "report.html"
    report.parent.mkdir(parents=True)
    report.write_text("<p>drawn</p>")
    stage.level()
    artifacts_folder = stage.folder / "mlflow" / "artifacts" / other.sweep_id
    shutil.rmtree(artifacts_folder)
    artifacts_folder.write_text("a file where the folder should be")
    report.write_text("<p>drawn again</p>")
    stage.store.apply(heard(task, step(2 * BATCH), offset=1), START)
    mirror = stage.mirror()
    mirror.start()
    assert not mirror.close(PATIENCE)
    assert stage.history(task, "train_loss") == [(BATCH, 3.0), (2 * BATCH, 3.0)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def mlflow_server(port: int, folder: Path) -> Iterator[None]:
    """`mlflow server` over the store in a folder; it ends with the block."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(folder / "served")]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "MLFLOW_DISABLE_TELEMETRY": "true",
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # three times as fast to start
            },
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(PATIENCE)


@pytest.mark.slow
def test_a_server_that_comes_late_gets_everything(stage):
    port = free_port()
    stage.url = f"http://127.0.0.1:{port}"
    mirror = stage.mirror()
    mirror.start()
    task = stage.claim()
    stage.store.apply(heard(task, step(BATCH), step(2 * BATCH), endpoint(SHORT)), START)
    assert not mirror.flush(PATIENCE)
    with mlflow_server(port, stage.folder / "mlflow"):
        deadline = time.monotonic() + PATIENCE
        while not mirror.flush(PATIENCE):
            assert time.monotonic() < deadline
        stage.store.apply(heard(task, step(3 * BATCH), offset=3), START)
        assert mirror.close(PATIENCE)
        assert [tokens for tokens, _ in stage.history(task, "train_loss")] == [
            BATCH,
            2 * BATCH,
            3 * BATCH,
        ]
        run = stage.runs()[task.key.run_id]
        assert run.data.params["model.width"] == "32"
        assert artifacts(stage, run) == {"spec.json"}
