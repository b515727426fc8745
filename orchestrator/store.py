"""The store: the one door to all state. Every method is one transaction and gives frozen values.

    people       submit, wish_cancel, retry, keep_fits
    scheduler    watches, apply, snapshot, claim, move, note_stop, extend_leases
    readers      sweeps, sweep, spec, runs, events, diagnoses, records, progress, rates,
                 measured_horizons, fits, fit

The database is the store's own: what it raises comes out as a StorageError of one sentence.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection, select

from orchestrator import (
    catalogue,
    kept_fits,
    moves,
    progress as progress_reading,
    reports,
    results,
    submissions,
    watching,
)
from orchestrator.database import open_engine, reading, writing
from orchestrator.encoding import run_from_text
from orchestrator.executor import AttemptKey, Report, Task, Watch
from orchestrator.reports import Verdict
from orchestrator.schema import upgrade
from orchestrator.settings import Settings
from orchestrator.snapshot import Snapshot
from orchestrator.states import Reason, State
from orchestrator.summaries import Event, FitSummary, Progress, RunSummary, SweepSummary
from orchestrator.tables import RunRow, SweepRow
from sweeps.errors import GridlawError, NotFoundError
from sweeps.fits.result import Fit
from sweeps.metrics import Diagnosis
from sweeps.plan import Plan
from sweeps.rates import Rates
from sweeps.records import RunRecord
from sweeps.spec import SweepSpec, stored_spec


class Store:
    """All state of a home, in one database; safe to share between threads and processes."""

    def __init__(self, url: str, *, runs: Path, lease: timedelta) -> None:
        """Open the database and bring its schema up to date.

        Args:
            url: SQLAlchemy URL.
            runs: Folder of the runs' folders.
            lease: How long an attempt may be silent.

        Raises:
            InputError: If the URL makes no sense.
            StorageError: If the database cannot be used or is newer than this code.
        """
        self._engine = open_engine(url)
        self._runs = runs
        self._lease = lease
        try:
            upgrade(self._engine)
        except GridlawError:
            self._engine.dispose()
            raise

    @classmethod
    def open(cls, settings: Settings) -> "Store":
        """The store of these settings."""
        return cls(
            settings.database_url,
            runs=settings.layout.runs,
            lease=timedelta(seconds=settings.lease_seconds),
        )

    def close(self) -> None:
        """Give up all connections."""
        self._engine.dispose()

    def submit(self, plan: Plan, now: datetime) -> SweepSummary:
        """Store a plan and queue what is missing; the same plan again adds nothing.

        Raises:
            InputError: If a run's spec does not survive being written down.
        """
        texts = submissions.write_down(plan)
        with writing(self._engine) as connection:
            submissions.submit(connection, plan, texts, now)
            return catalogue.sweeps(connection, plan.sweep_id)[0]

    def wish_cancel(self, sweep: str, now: datetime) -> SweepSummary:
        """Ask for a sweep to stop; runs that other sweeps want go on.

        Raises:
            NotFoundError: If there is no such sweep.
        """
        with self._changing(sweep) as (connection, sweep_id):
            submissions.cancel(connection, sweep_id, now)
            return catalogue.sweeps(connection, sweep_id)[0]

    def retry(self, sweep: str, now: datetime) -> SweepSummary:
        """Queue what failed or was cancelled in a sweep.

        Raises:
            NotFoundError: If there is no such sweep.
        """
        with self._changing(sweep) as (connection, sweep_id):
            submissions.retry(connection, sweep_id, now)
            return catalogue.sweeps(connection, sweep_id)[0]

    def watches(self) -> tuple[Watch, ...]:
        """Attempts believed to be running, and how much of each was heard."""
        with reading(self._engine) as connection:
            return watching.watches(connection)

    def snapshot(self, *, room: int, sweep_id: str | None = None) -> Snapshot:
        """One consistent view; lists at most `room` waiting runs, of one sweep if it is given."""
        with reading(self._engine) as connection:
            return watching.snapshot(connection, room=room, sweep_id=sweep_id)

    def claim(self, run_id: str, now: datetime, *, version: int | None = None) -> Task | None:
        """Give a queued run its next attempt; None if another was faster or nothing is wanted."""
        with writing(self._engine) as connection:
            claimed = moves.claim(connection, run_id, now=now, lease=self._lease, version=version)
            if claimed is None:
                return None
            number, horizons = claimed
            text = connection.scalars(select(RunRow.spec).where(RunRow.run_id == run_id)).one()
            return Task(
                spec=run_from_text(text),
                horizons=horizons,
                attempt=number,
                folder=self._runs / run_id,
            )

    def move(
        self,
        run_id: str,
        source: State,
        target: State,
        reason: Reason,
        *,
        now: datetime,
        detail: str = "",
        version: int | None = None,
    ) -> bool:
        """Move a run; False if it is no longer in `source` (or at `version`).

        Raises:
            ConflictError: If the tables of moves and reasons do not allow it.
        """
        with writing(self._engine) as connection:
            moved = moves.move(
                connection,
                run_id,
                source,
                target,
                reason,
                now=now,
                detail=detail,
                version=version,
            )
            return moved is not None

    def apply(self, report: Report, now: datetime) -> Verdict:
        """Store what is new in a report, exactly once, and renew the attempt's lease.

        Raises:
            ConflictError: If the ending's reason is none that ends an attempt.
        """
        with writing(self._engine) as connection:
            return reports.apply(connection, report, now, self._lease)

    def note_stop(self, key: AttemptKey, stop_by: datetime) -> None:
        """Remember that an attempt was asked to stop, and until when to wait for it."""
        with writing(self._engine) as connection:
            watching.note_stop(connection, key, stop_by)

    def extend_leases(self, now: datetime) -> None:
        """Renew every lease: the scheduler was away or deaf, which says nothing about workers."""
        with writing(self._engine) as connection:
            watching.extend_leases(connection, now + self._lease)

    def sweeps(self) -> tuple[SweepSummary, ...]:
        """All sweeps, newest first."""
        with reading(self._engine) as connection:
            return catalogue.sweeps(connection)

    def sweep(self, sweep: str) -> SweepSummary:
        """The sweep of this id, unique name or unique start of an id.

        Raises:
            NotFoundError: If there is none.
            InputError: If there are several.
        """
        with self._seeing(sweep) as (connection, sweep_id):
            return catalogue.sweeps(connection, sweep_id)[0]

    def spec(self, sweep: str) -> SweepSpec:
        """What was submitted."""
        with self._seeing(sweep) as (connection, sweep_id):
            query = select(SweepRow.spec).where(SweepRow.sweep_id == sweep_id)
            return stored_spec(connection.scalars(query).one())

    def runs(self, sweep: str) -> tuple[RunSummary, ...]:
        """The runs of a sweep in plan order."""
        with self._seeing(sweep) as (connection, sweep_id):
            return results.runs(connection, sweep_id)

    def events(self, run_id: str) -> tuple[Event, ...]:
        """The moves of a run, oldest first.

        Raises:
            NotFoundError: If there is no such run.
        """
        with reading(self._engine) as connection:
            found = results.events(connection, run_id)
        if not found:
            raise NotFoundError(f"there is no run {run_id!r}")
        return found

    def diagnoses(self, run_id: str) -> tuple[Diagnosis, ...]:
        """What was diagnosed of a run, in the order in which it was trained.

        Raises:
            NotFoundError: If there is no such run.
        """
        self.events(run_id)
        with reading(self._engine) as connection:
            return results.diagnoses(connection, run_id)

    def records(self, sweep: str) -> tuple[RunRecord, ...]:
        """The runs of a sweep as data, in plan order."""
        with self._seeing(sweep) as (connection, sweep_id):
            return results.records(connection, sweep_id)

    def progress(self, sweep: str, *, slots: int) -> Progress:
        """Where a sweep stands, with `slots` runs training at once."""
        with self._seeing(sweep) as (connection, sweep_id):
            return progress_reading.progress(connection, sweep_id, slots=slots)

    def rates(self, *, slots: int) -> Rates:
        """Training speeds of the latest runs."""
        with reading(self._engine) as connection:
            return progress_reading.recent_rates(connection, slots=slots)

    def measured_horizons(self) -> Mapping[str, tuple[int, ...]]:
        """Token counts with an endpoint, for every run that has one."""
        with reading(self._engine) as connection:
            return results.measured_horizons(connection)

    def keep_fits(self, found: Iterable[Fit], source: str, now: datetime) -> tuple[str, ...]:
        """Keep fits that were made from a sweep or a file; those that are kept already stay."""
        with writing(self._engine) as connection:
            return tuple(kept_fits.keep(connection, fit, source, now) for fit in found)

    def fits(self) -> tuple[FitSummary, ...]:
        """All kept fits, newest first."""
        with reading(self._engine) as connection:
            return kept_fits.fits(connection)

    def fit(self, fit: str) -> Fit:
        """The kept fit of this id or unique start of an id.

        Raises:
            NotFoundError: If there is none.
            InputError: If there are several.
        """
        with reading(self._engine) as connection:
            return kept_fits.fit_of(connection, fit)

    @contextmanager
    def _seeing(self, sweep: str) -> Iterator[tuple[Connection, str]]:
        with reading(self._engine) as connection:
            yield connection, catalogue.find(connection, sweep)

    @contextmanager
    def _changing(self, sweep: str) -> Iterator[tuple[Connection, str]]:
        with writing(self._engine) as connection:
            yield connection, catalogue.find(connection, sweep)
