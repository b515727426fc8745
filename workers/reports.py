"""Reports of sweeps that are over, written off the scheduler's thread.

A report is read from the store, fitted and drawn, which takes seconds; runs of other sweeps are
launched and heard meanwhile. Where one lies: `<reports>/<sweep_id>/report.html`.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dashboards.report import render
from orchestrator.clock import Clock
from orchestrator.store import Store
from sweeps.answer import answer
from sweeps.spec import spec_text
from workers import durable

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Between two looks for sweeps that have ended."""


class Reports:
    """Writes the report of every sweep once it is over, and again when it has changed since."""

    def __init__(self, store: Store, folder: Path, clock: Clock) -> None:
        self._store = store
        self._folder = folder
        self._clock = clock
        self._written: dict[str, object] = {}
        self._looked = -LOOK_SECONDS
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reports")

    def look(self) -> None:
        """Have reports written that are due; returns at once."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for sweep in self._store.sweeps():
            state = dict(sweep.runs)
            is_known = sweep.sweep_id in self._written or self._path(sweep.sweep_id).is_file()
            known = self._written.setdefault(sweep.sweep_id, state if is_known else None)
            if sweep.is_over and known != state:
                self._written[sweep.sweep_id] = state
                self._pool.submit(self.write, sweep.sweep_id).add_done_callback(_complain)

    def write(self, sweep_id: str) -> Path:
        """Write one report now.

        Raises:
            StorageError: If the store cannot be read or the file cannot be written.
        """
        path = self._path(sweep_id)
        page = render(
            answer(self._store.records(sweep_id)),
            name=sweep_id,
            spec=spec_text(self._store.spec(sweep_id)),
            made_at=self._clock(),
        )
        durable.write(path, page.encode())
        return path

    def close(self) -> None:
        """Wait for the reports that are due."""
        self._pool.shutdown()

    def _path(self, sweep_id: str) -> Path:
        return self._folder / sweep_id / "report.html"


def _complain(written: Future[Path]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        logger.error("a report could not be written", exc_info=error)
