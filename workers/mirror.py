"""The MLflow mirror: a reconciler beside the scheduler, never in the way of training.

    every few seconds:  what the store holds  -  what MLflow holds  →  sent

It runs in a thread of its own and reads the store, so that MLflow being slow, away or broken costs
nothing but this thread; what MLflow missed follows when it is back. Nothing it meets is raised.
A sweep that is over and sent is left alone until something of it changes.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from orchestrator.summaries import RunSummary, SweepSummary
from sweeps.metrics import Diagnosis
from sweeps.records import RunRecord
from sweeps.spec import SweepSpec
from workers.tracking import Server

T = TypeVar("T")

logger = logging.getLogger(__name__)

REST = 10
"""The mirror rests this many times as long as it worked, so as not to crowd the scheduler."""


class Source(Protocol):
    """What the mirror reads; the store is one."""

    def sweeps(self) -> Sequence[SweepSummary]:
        """All sweeps."""
        ...

    def runs(self, sweep: str) -> Sequence[RunSummary]:
        """The runs of a sweep and where they stand."""
        ...

    def records(self, sweep: str) -> Sequence[RunRecord]:
        """The same runs with their curves and endpoints."""
        ...

    def diagnoses(self, run_id: str) -> Sequence[Diagnosis]:
        """What was diagnosed of a run, in the order in which it was trained."""
        ...

    def spec(self, sweep: str) -> SweepSpec:
        """What was asked."""
        ...


class Mirror:
    """Keeps MLflow level with the store.

    Args:
        source: Where sweeps and records are read.
        url: MLflow tracking URI.
        folder: For a local MLflow store and its artifacts.
        reports: Holds `<sweep_id>/report.html` of sweeps that have one.
        sweep: Id of the only sweep to mirror; None for all.
        seconds: Between two looks, at least.
    """

    def __init__(
        self,
        source: Source,
        *,
        url: str,
        folder: Path,
        reports: Path,
        sweep: str | None = None,
        seconds: float = 3.0,
    ) -> None:
        self._source = source
        self._url = url
        self._folder = folder
        self._reports = reports
        self._sweep = sweep
        self._seconds = seconds
        self._server: Server | None = None
        self._settled: dict[str, object] = {}
        self._complaint = ""
        self._turn = threading.Condition()
        self._asked = 0
        self._done = 0
        self._is_level = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="mlflow-mirror", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def flush(self, timeout: float) -> bool:
        """Wait until MLflow holds what the store holds now, at most so many seconds.

        Returns:
            False if the time was too short or MLflow could not be reached.
        """
        with self._turn:
            self._asked += 1
            ticket = self._asked
            self._turn.notify_all()
            return self._turn.wait_for(lambda: self._done >= ticket, timeout) and self._is_level

    def close(self, timeout: float) -> bool:
        """Flush, then end the thread; what could not be sent is left to the next mirror."""
        deadline = time.monotonic() + timeout
        is_level = self.flush(timeout)
        with self._turn:
            self._is_closing = True
            self._turn.notify_all()
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return is_level

    def _work(self) -> None:
        while not self._is_closing:
            ticket, started = self._asked, time.monotonic()
            is_level = self._look()
            pause = max(self._seconds, REST * (time.monotonic() - started))
            with self._turn:
                self._done, self._is_level = ticket, is_level
                self._turn.notify_all()
                self._turn.wait_for(lambda: self._is_closing or self._asked > self._done, pause)

    def _look(self) -> bool:
        """One comparison of everything; whether all of it went through."""
        sweeps = self._guarded(self._source.sweeps)
        if sweeps is None:
            return False
        chosen = [sweep for sweep in sweeps if self._sweep in (None, sweep.sweep_id)]
        brought = [self._guarded(partial(self._bring, sweep)) for sweep in chosen]
        is_level = all(brought)
        if is_level:
            self._complaint = ""
        return is_level

    def _guarded(self, turn: Callable[[], T]) -> T | None:
        """What a turn gives; None if it failed, which must not reach other sweeps or the loop."""
        try:
            return turn()
        except Exception as error:  # whatever MLflow, its database or ours raise
            if str(error) != self._complaint:
                logger.warning("MLflow falls behind; training is not affected", exc_info=True)
            self._complaint = str(error)
            return None

    def _bring(self, sweep: SweepSummary) -> bool:
        path = self._reports / sweep.sweep_id / "report.html"
        written = path.stat().st_mtime_ns if path.is_file() else None
        seen = (dict(sweep.runs), sweep.cancelled_at, written)
        if self._settled.get(sweep.sweep_id) == seen:
            return True
        self._server = self._server or Server(self._url, self._folder)
        experiment = self._server.experiment(sweep)
        spec = self._source.spec(sweep.sweep_id)
        experiment.bring(sweep, spec, None if written is None else path)
        runs = {run.run_id: run for run in self._source.runs(sweep.sweep_id)}
        for record in self._source.records(sweep.sweep_id):
            experiment.bring_run(runs[record.run_id], record, self._diagnoses(record))
        if sweep.is_over:
            self._settled[sweep.sweep_id] = seen
        return True

    def _diagnoses(self, record: RunRecord) -> Sequence[Diagnosis]:
        return self._source.diagnoses(record.run_id) if record.spec.diagnostics.every else ()
