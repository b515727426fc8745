"""The scheduler's process, started as a person or the command line starts it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.scheduler_lock import only_scheduler
from orchestrator.service import Service, lay_out
from orchestrator.settings import load_settings
from orchestrator.states import State
from orchestrator.summaries import SweepSummary
from sweeps.spec import parse_spec

# MLflow 3.17 under SQLAlchemy 2.1.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader:sqlalchemy.exc.SADeprecationWarning"
)

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
SHORT, LONG = "2560tok", "40000000tok"


class Home:
    """A home with a tiny sweep in it, and schedulers started on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = load_settings(env={}, home=folder / "home", executor="local")
        self.service = Service.open(self.settings)
        self.text = folder / "text"
        self.text.mkdir()
        for number in range(12):
            words = " ".join(f"line {number} holds the number {number * k}." for k in range(40))
            (self.text / f"{number:02d}.txt").write_text(words)
        self.started: list[subprocess.Popen[bytes]] = []

    def submit(self, budget: str) -> str:
        """A BF16 run and a 4-bit run of one model."""
        spec = {
            "name": "tiny",
            "corpus": str(self.text),
            "models": [{"name": "m", "layers": 1, "width": 16, "heads": 1, "mlp_width": 16}],
            "recipes": ["bf16", "ufp4"],
            "budgets": [budget],
            "train": {
                "context": 16,
                "batch": "128tok",
                "learning_rate": 0.01,
                "max_epochs": 10**5,
                "warmup": "256tok",
            },
            "eval": {"held_out": 0.3, "tokens": "256tok"},
        }
        return self.service.submit(lay_out(parse_spec(spec))).sweep_id

    def start(self, *arguments: str, through: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "workers", "--home", str(self.settings.home), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [*through, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def show(self, sweep_id: str) -> SweepSummary:
        return self.service.show(sweep_id)

    def training(self, sweep_id: str) -> bool:
        """Whether a step of a run was heard."""
        return any(record.curve for record in self.service.records(sweep_id))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline, tick = time.monotonic() + PATIENCE, threading.Event()
        while not condition():
            assert time.monotonic() < deadline, self.log()
            tick.wait(0.1)

    def log(self) -> str:
        path = self.settings.home / "scheduler.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        self.service.store.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_a_sweep_is_carried_out_drawn_and_mirrored_without_a_word(home):
    sweep_id = home.submit(SHORT)
    process = home.start("--sweep", sweep_id, "--executor", "local")
    assert process.communicate(timeout=PATIENCE) == (b"", b""), home.log()
    assert process.returncode == 0
    assert home.show(sweep_id).runs[State.SUCCEEDED] == 2
    report = home.settings.layout.reports / sweep_id / "report.html"
    assert "<html" in report.read_text()
    assert "WARNING" not in home.log()

    client = MlflowClient(tracking_uri=home.settings.mlflow_url)
    experiment = client.get_experiment_by_name(sweep_id)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert [run.info.status for run in runs] == ["FINISHED"] * 3
    losses = [run.data.metrics["val_loss"] for run in runs if "gridlaw.run_id" in run.data.tags]
    measured = [record.endpoints[0].loss for record in home.service.records(sweep_id)]
    assert sorted(losses) == sorted(measured)
    (parent,) = (run for run in runs if "gridlaw.run_id" not in run.data.tags)
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert files == {"sweep.yaml", "report.html"}


@pytest.mark.slow
def test_a_signal_puts_the_runs_back_and_the_same_command_goes_on(home):
    sweep_id = home.submit(LONG)
    process = home.start("--sweep", sweep_id, "--executor", "local")
    home.wait_for(lambda: home.training(sweep_id))
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE) == (b"", b""), home.log()
    assert process.returncode == 0
    assert home.show(sweep_id).runs[State.QUEUED] == 2
    assert list(home.settings.layout.runs.glob("*/trunk-*.json"))

    reached = furthest(home, sweep_id)
    again = home.start("--sweep", sweep_id, "--executor", "local")
    home.wait_for(lambda: furthest(home, sweep_id) > reached)
    again.send_signal(signal.SIGINT)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=PATIENCE)
    assert again.returncode in (0, 128 + signal.SIGINT)


def furthest(home: Home, sweep_id: str) -> int:
    records = home.service.records(sweep_id)
    return max((point.tokens for record in records for point in record.curve), default=0)


@pytest.mark.slow
def test_the_scheduler_ends_with_the_process_that_started_it(home):
    sweep_id = home.submit(LONG)
    script = "import subprocess, sys; subprocess.run([*sys.argv[1:], '--parent', str(os.getpid())])"
    through = (sys.executable, "-c", f"import os; {script}")
    parent = home.start("--sweep", sweep_id, "--executor", "local", through=through)
    home.wait_for(lambda: home.training(sweep_id))
    parent.kill()
    home.wait_for(lambda: home.show(sweep_id).runs[State.QUEUED] == 2)
    parent.communicate(timeout=PATIENCE)  # its pipes close when the scheduler has ended
    with only_scheduler(home.settings.layout):
        pass


def test_an_unknown_sweep_is_one_sentence_and_exit_code_1(home):
    process = home.start("--sweep", "nowhere", "--executor", "local")
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (1, b"")
    assert err == b"there is no sweep 'nowhere'\n"


def test_a_second_scheduler_is_refused_before_it_starts_anything(home):
    sweep_id = home.submit(SHORT)
    with only_scheduler(home.settings.layout):
        process = home.start("--sweep", sweep_id)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (1, b"")
    assert err.startswith(b"another scheduler (process ")
    assert err.count(b"\n") == 1
