"""A store, its sweep and an MLflow store, and looks at what is in the latter."""

from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Experiment as MlflowExperiment, Run, ViewType

from orchestrator.executor import Task
from orchestrator.store import Store
from orchestrator.summaries import SweepSummary
from tests.orchestrator.values import START
from workers.mirror import Mirror

PATIENCE = 120.0


class Stage:
    """A store, its sweep and an MLflow store, and looks at what is in the latter."""

    def __init__(self, store: Store, sweep: SweepSummary, url: str, folder: Path) -> None:
        self.store = store
        self.sweep = sweep
        self.url = url
        self.folder = folder
        self.tasks: list[Task] = []

    def claim(self) -> Task:
        snapshot = self.store.snapshot(room=1)
        task = self.store.claim(snapshot.waiting[0].run_id, START)
        assert task is not None
        self.tasks.append(task)
        return task

    def mirror(self) -> Mirror:
        return Mirror(
            self.store,
            url=self.url,
            folder=self.folder / "mlflow",
            reports=self.folder / "reports",
            seconds=0.05,
        )

    def level(self) -> None:
        """What a mirror of a process that knows nothing brings about."""
        mirror = self.mirror()
        mirror.start()
        assert mirror.close(PATIENCE)

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(tracking_uri=self.url)

    @property
    def experiment(self) -> MlflowExperiment:
        found = self.client.get_experiment_by_name(self.sweep.sweep_id)
        assert found is not None
        return found

    def runs(self) -> dict[str, Run]:
        """By run id; the sweep's own is under its sweep id."""
        found = self.client.search_runs([self.experiment.experiment_id], run_view_type=ViewType.ALL)
        keyed = [(run.data.tags.get("gridlaw.run_id", self.sweep.sweep_id), run) for run in found]
        assert len(dict(keyed)) == len(keyed), "a run was made twice"
        return dict(keyed)

    def history(self, task: Task, metric: str) -> list[tuple[int, float]]:
        run = self.runs()[task.key.run_id]
        points = self.client.get_metric_history(run.info.run_id, metric)
        return sorted((point.step, point.value) for point in points)
