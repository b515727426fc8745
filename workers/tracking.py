"""One sweep in MLflow: an experiment named by its id, a run for each run, and one above them.

The run above the others stands for the sweep and holds its file and its report. Everything is found
again by name and tag, so a process that knows nothing goes on where another stopped. How far each
path was sent is a tag of the MLflow run, written in the call that brings the metrics; a batch that
is sent twice, after a crash between the two, has the same timestamps (start of the MLflow run +
training time) and is the same rows.

MLflow takes seconds to load, so it is loaded by the thread that uses it and not with this file.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from orchestrator.states import State
from orchestrator.summaries import RunSummary, SweepSummary
from sweeps.metrics import Diagnosis
from sweeps.records import RunRecord
from sweeps.spec import SweepSpec, spec_text
from workers.tracked import STATUS, Marks, Point, new_points, params, tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

T = TypeVar("T")

SENT = "gridlaw.sent"
METRICS_AT_ONCE = 900
PARAMS_AT_ONCE = 90
"""Below MLflow's limits of 1000 entities and 100 parameters in a call."""

QUIET = {
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
"""Unless the user's environment says otherwise; a server that is away is asked again soon."""


class Server:
    """The tracking server at an http URL, or a store that this process opens itself.

    Args:
        url: MLflow tracking URI.
        folder: For a local store and its artifacts; made if it is not there.

    Raises:
        Exception: Whatever MLflow raises if it cannot be used.
    """

    def __init__(self, url: str, folder: Path) -> None:
        for variable, value in QUIET.items():
            os.environ.setdefault(variable, value)
        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)
        folder.mkdir(parents=True, exist_ok=True)
        is_remote = url.startswith(("http://", "https://"))
        self._artifacts = None if is_remote else folder / "artifacts"
        self._client = MlflowClient(tracking_uri=url)
        self._experiments: dict[str, Experiment] = {}

    def experiment(self, sweep: SweepSummary) -> "Experiment":
        """The experiment of a sweep; made if there is none."""
        if sweep.sweep_id not in self._experiments:
            artifacts = self._artifacts and self._artifacts / sweep.sweep_id
            self._experiments[sweep.sweep_id] = Experiment(self._client, sweep, artifacts)
        return self._experiments[sweep.sweep_id]


@dataclass(slots=True, kw_only=True)
class Twin:
    """An MLflow run as far as this process knows it; `started` in milliseconds."""

    mlflow_id: str
    started: int
    status: str
    tags: dict[str, str] = field(default_factory=dict)
    params: frozenset[str] = frozenset()
    is_deleted: bool = False

    @property
    def marks(self) -> Marks:
        """How far each path was sent."""
        marks: Marks = json.loads(self.tags.get(SENT, "{}"))
        return marks


class Experiment:
    """The MLflow experiment of one sweep; what a person deleted there stays deleted.

    Args:
        client: Of the MLflow store.
        sweep: Whose experiment it is; made if there is none.
        artifacts: Folder for its artifacts, None if a server decides.
    """

    def __init__(self, client: "MlflowClient", sweep: SweepSummary, artifacts: Path | None) -> None:
        self._client = client
        self._sweep_id = sweep.sweep_id
        found = client.get_experiment_by_name(sweep.sweep_id)
        self._is_deleted = found is not None and found.lifecycle_stage == "deleted"
        self._id: str = (
            found.experiment_id
            if found is not None
            else client.create_experiment(
                sweep.sweep_id,
                artifact_location=None if artifacts is None else artifacts.as_uri(),
                tags={"gridlaw.name": sweep.name},
            )
        )
        self._twins = {_key(twin, sweep.sweep_id): twin for twin in map(_twin, self._runs())}

    def bring(self, sweep: SweepSummary, spec: SweepSpec, report: Path | None) -> None:
        """Send the sweep's file, its report when there is a new one, and where it stands."""
        if self._is_deleted:
            return
        twin = self._found_or_made(
            self._sweep_id, f"sweep {sweep.name}", sweep.created_at, {"gridlaw.sweep": sweep.name}
        )
        if twin.is_deleted:
            return
        told: dict[str, str] = {}
        if "gridlaw.file" not in twin.tags:
            self._client.log_text(twin.mlflow_id, spec_text(spec), "sweep.yaml")
            told["gridlaw.file"] = "sweep.yaml"
        if report is not None:
            digest = hashlib.sha256(report.read_bytes()).hexdigest()
            if digest != twin.tags.get("gridlaw.report_sha256"):
                self._client.log_artifact(twin.mlflow_id, str(report))
                told["gridlaw.report_sha256"] = digest
        self._tell(twin, told)
        self._set_status(twin, _sweep_status(sweep), None)

    def bring_run(
        self, run: RunSummary, record: RunRecord, diagnoses: Sequence[Diagnosis] = ()
    ) -> None:
        """Send what MLflow lacks of a run; one that never trained is not shown."""
        if self._is_deleted or not run.attempt:
            return
        parent = {"mlflow.parentRunId": self._twins[self._sweep_id].mlflow_id}
        began = run.changed_at
        if run.state.is_terminal and record.curve:
            began -= timedelta(seconds=record.curve[-1].seconds)
        twin = self._found_or_made(run.run_id, run.spec.label, began, tags(run) | parent)
        if twin.is_deleted:
            return
        self._describe(twin, run)
        for points in _batches(new_points(record, twin.marks, diagnoses)):
            self._send(twin, points)
        self._tell(twin, tags(run))
        self._set_status(twin, STATUS[run.state], run.changed_at)

    def _found_or_made(
        self, key: str, name: str, began: datetime, first_tags: dict[str, str]
    ) -> Twin:
        if key not in self._twins:
            made = self._client.create_run(
                self._id, start_time=_milliseconds(began), run_name=name, tags=first_tags
            )
            self._twins[key] = _twin(made)
        return self._twins[key]

    def _describe(self, twin: Twin, run: RunSummary) -> None:
        from mlflow.entities import Param

        wanted = params(run)
        missing = [Param(key, value) for key, value in wanted.items() if key not in twin.params]
        if not missing:
            return
        spec = json.dumps(asdict(run.spec), indent=1)
        self._client.log_text(twin.mlflow_id, spec, "spec.json")
        for some in _chunks(missing, PARAMS_AT_ONCE):
            self._client.log_batch(twin.mlflow_id, params=some)
        twin.params = frozenset(wanted)

    def _send(self, twin: Twin, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric, RunTag

        metrics = [
            Metric(name, value, twin.started + round(1000 * point.seconds), point.tokens)
            for point in points
            for name, value in point.metrics.items()
        ]
        *first, last = _chunks(metrics, METRICS_AT_ONCE) or [()]
        for some in first:  # of a single point that is larger than a call
            self._client.log_batch(twin.mlflow_id, metrics=some)
        marks = json.dumps(twin.marks | {point.path: point.tokens for point in points})
        self._client.log_batch(twin.mlflow_id, metrics=last, tags=[RunTag(SENT, marks)])
        twin.tags[SENT] = marks

    def _tell(self, twin: Twin, wanted: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        news = {key: value for key, value in wanted.items() if twin.tags.get(key) != value}
        if news:
            told = [RunTag(key, value) for key, value in news.items()]
            self._client.log_batch(twin.mlflow_id, tags=told)
            twin.tags |= news

    def _set_status(self, twin: Twin, status: str, at: datetime | None) -> None:
        if status == twin.status:
            return
        if status in ("RUNNING", "SCHEDULED"):
            self._client.update_run(twin.mlflow_id, status=status)
        else:
            ended = None if at is None else _milliseconds(at)
            self._client.set_terminated(twin.mlflow_id, status=status, end_time=ended)
        twin.status = status

    def _runs(self) -> Iterator["Run"]:
        from mlflow.entities import ViewType

        token: str | None = None
        while True:
            page = self._client.search_runs(
                [self._id], run_view_type=ViewType.ALL, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return


def _twin(run: "Run") -> Twin:
    return Twin(
        mlflow_id=run.info.run_id,
        started=run.info.start_time,
        status=run.info.status,
        tags=dict(run.data.tags),
        params=frozenset(run.data.params),
        is_deleted=run.info.lifecycle_stage == "deleted",
    )


def _key(twin: Twin, sweep_id: str) -> str:
    return twin.tags.get("gridlaw.run_id", sweep_id)


def _sweep_status(sweep: SweepSummary) -> str:
    if sweep.is_over:
        return "FINISHED" if sweep.cancelled_at is None else "KILLED"
    return "RUNNING" if sweep.runs[State.RUNNING] else "SCHEDULED"


def _milliseconds(moment: datetime) -> int:
    return round(1000 * moment.timestamp())


def _batches(points: Iterable[Point]) -> Iterator[Sequence[Point]]:
    """Points that fit into a call together, and each that fits into none alone."""
    batch: list[Point] = []
    filled = 0
    for point in points:
        if batch and filled + len(point.metrics) > METRICS_AT_ONCE:
            yield batch
            batch, filled = [], 0
        batch.append(point)
        filled += len(point.metrics)
    if batch:
        yield batch


def _chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
