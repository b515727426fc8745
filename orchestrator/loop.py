"""The loop that carries decisions out: poll, apply, snapshot, decide, act, again and again.

It keeps nothing between turns that is not in the store, so it may be killed at any point. Heard
but not stored: heard again. Claimed but not launched: the executor knows no such worker and says
so. What goes wrong with one run ends that run's attempt, never the loop; a full disk or a busy
database makes it wait. Only a loop for one sweep with nothing under way, which could free no space
by waiting, ends on a short disk.
"""

import logging
import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Event
from typing import TypeVar

from kernels.recipes import NUMERICS_VERSION
from orchestrator.clock import Clock
from orchestrator.database import PassingStorageError
from orchestrator.executor import AttemptKey, Ended, Executor, Report
from orchestrator.reports import Verdict
from orchestrator.scheduler import Abandon, Decision, Launch, Move, Stop, decide
from orchestrator.scheduler_lock import only_scheduler
from orchestrator.settings import Settings
from orchestrator.states import Reason
from orchestrator.store import Store
from sweeps.errors import InputError, StorageError
from sweeps.runspec import TRAINING_VERSION, RunSpec

T = TypeVar("T")
LOG = logging.getLogger(__name__)
PAUSE_SECONDS = 2.0


class Loop:
    """The only mover of runs: one for each home."""

    def __init__(self, store: Store, executor: Executor, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._executor = executor
        self._clock = clock
        self._settings = settings
        self._paused: str | None = None

    @property
    def paused(self) -> str | None:
        """Why nothing is launched although there may be slots, in one sentence; else None."""
        return self._paused

    def run_until(
        self,
        sweep: str | None,
        stop: Event,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        """Carry runs out until a sweep is over, or for ever, or until told to stop; then drain.

        Args:
            sweep: Launch runs of this sweep alone and return when it is over; None for all.
            stop: Set by whoever wants the loop to end.
            on_tick: Called after each turn, for a display.

        Raises:
            NotFoundError: If there is no such sweep.
            ConflictError: If this home has a scheduler already.
            StorageError: If the store is unusable for good, or if disk space is too short for the
                one sweep to launch and nothing is under way.
        """
        sweep_id = None if sweep is None else self._store.sweep(sweep).sweep_id
        with only_scheduler(self._settings.layout):
            self._guarded(lambda: self._store.extend_leases(self._clock()))
            while not stop.is_set() and not self._guarded(lambda: self._is_over(sweep_id)):
                self._guarded(lambda: self.tick(sweep_id))
                self._guarded(lambda: self._check_space(sweep_id))
                if on_tick is not None:
                    on_tick()
                stop.wait(self._settings.tick_seconds)
            self._drain()

    def tick(self, sweep_id: str | None = None, *, is_draining: bool = False) -> Sequence[Decision]:
        """One turn. Returns what was decided.

        Raises:
            StorageError: If the store refuses.
        """
        self._listen()
        shortage = self._disk_shortage()
        room = 0 if is_draining or shortage else self._free_slots()
        snapshot = self._store.snapshot(room=room, sweep_id=sweep_id)
        decisions = decide(snapshot, self._clock(), free_slots=room, is_draining=is_draining)
        for decision in decisions:
            try:
                self._act(decision)
            except StorageError:
                raise
            except Exception:
                LOG.exception("could not carry out %s", decision)
        self._pause(None if shortage is None else f"waiting: {shortage}")
        return decisions

    def _is_over(self, sweep_id: str | None) -> bool:
        return sweep_id is not None and self._store.sweep(sweep_id).is_over

    def _check_space(self, sweep_id: str | None) -> None:
        if sweep_id is None:
            return
        shortage = self._disk_shortage()
        if shortage and not self._store.watches() and not self._is_over(sweep_id):
            raise StorageError(shortage)

    def _drain(self) -> None:
        """Ask everything to stop and wait; what does not in the grace time is abandoned.

        A store that still refuses after that time leaves the rest to the next scheduler.
        """
        pause = Event()
        latest = self._clock() + self._grace
        while self._guarded(self._has_watches) is not False:
            heard = self._guarded(lambda: self.tick(is_draining=True))
            if heard is None and self._clock() > latest:
                LOG.error("not everything could be stopped in order: %s", self._paused)
                return
            pause.wait(self._settings.tick_seconds)

    def _has_watches(self) -> bool:
        return bool(self._store.watches())

    @property
    def _grace(self) -> timedelta:
        return timedelta(seconds=self._settings.stop_grace_seconds)

    def _guarded(self, turn: Callable[[], T]) -> T | None:
        """What a turn gives; None after a while if the disk or the database may yet recover."""
        try:
            return turn()
        except PassingStorageError as error:
            self._pause(f"waiting: {error}")
            Event().wait(PAUSE_SECONDS)
            return None

    def _pause(self, sentence: str | None) -> None:
        if sentence is not None and sentence != self._paused:
            LOG.warning("%s", sentence)
        self._paused = sentence

    def _listen(self) -> None:
        # Also when nothing is watched: a poll without an attempt is how its slot becomes free.
        try:
            reports = self._executor.poll(self._store.watches())
        except Exception:
            LOG.exception("no contact with the executor; runs are given more time")
            self._store.extend_leases(self._clock())
            return
        for report in reports:
            self._take(report)

    def _take(self, report: Report) -> None:
        try:
            verdict = self._store.apply(report, self._clock())
        except StorageError:
            raise
        except Exception as error:
            LOG.exception("run %s: a report cannot be stored", report.key.run_id)
            detail = f"its report cannot be stored: {error}"
            self._end(report.key, report.offset, Reason.TRAINING_ERROR, detail)
            self._cancel(report.key)
            return
        match verdict:
            case Verdict.TAKEN:
                pass
            case Verdict.FENCED:
                self._cancel(report.key)
            case Verdict.GAP:
                LOG.warning("run %s: events before %d are lost", report.key.run_id, report.offset)

    def _disk_shortage(self) -> str | None:
        free = shutil.disk_usage(self._settings.home).free
        if free >= self._settings.min_free_bytes:
            return None
        return (
            f"{free / 1e6:.0f} MB free in {self._settings.home}, "
            f"launching needs {self._settings.min_free_bytes / 1e6:.0f} MB"
        )

    def _free_slots(self) -> int:
        try:
            return self._executor.free_slots()
        except Exception:
            LOG.exception("no contact with the executor; nothing is launched")
            return 0

    def _act(self, decision: Decision) -> None:
        match decision:
            case Launch():
                self._launch(decision)
            case Stop(key=key):
                self._store.note_stop(key, self._clock() + self._grace)
                self._cancel(key)
            case Move():
                self._move(decision)
            case Abandon(key=key, move=move):
                self._cancel(key)
                self._move(move)

    def _launch(self, launch: Launch) -> None:
        task = self._store.claim(launch.run_id, self._clock(), version=launch.version)
        if task is None:
            return
        try:
            _refuse_other_versions(task.spec)
            self._executor.launch(task)
        except InputError as error:
            self._end(task.key, 0, Reason.INVALID_RUN, str(error))
        except Exception as error:
            LOG.exception("run %s cannot be launched", task.key.run_id)
            self._end(task.key, 0, Reason.WORKER_LOST, f"could not be launched: {error}")

    def _end(self, key: AttemptKey, offset: int, reason: Reason, detail: str) -> None:
        ended = Ended(reason=reason, detail=detail)
        self._store.apply(Report(key=key, offset=offset, ended=ended), self._clock())

    def _move(self, move: Move) -> None:
        self._store.move(
            move.run_id,
            move.source,
            move.target,
            move.reason,
            now=self._clock(),
            detail=move.detail,
            version=move.version,
        )

    def _cancel(self, key: AttemptKey) -> None:
        try:
            self._executor.cancel(key)
        except Exception:
            LOG.exception("run %s: its worker cannot be asked to stop", key.run_id)


def _refuse_other_versions(spec: RunSpec) -> None:
    """A run of a store that an older Gridlaw wrote would train to other numbers here."""
    for what, planned, trained in (
        ("numerics", spec.numerics_version, NUMERICS_VERSION),
        ("training", spec.training_version, TRAINING_VERSION),
    ):
        if planned != trained:
            raise InputError(
                f"planned under version {planned} of the {what} and this Gridlaw trains version "
                f"{trained}; submit its sweep again"
            )
