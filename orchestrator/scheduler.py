"""What happens next, as a pure function: snapshot, time and capacity in, decisions out.

    an attempt ended             Move     result, another attempt, or given up
    asked to stop, and did not   Abandon  as interrupted
    lease expired                Abandon  as lost from sight
    draining, or unwanted        Stop     checkpoint and end
    queued and unwanted          Move     cancelled
    queued, a slot free          Launch   in plan order, never while draining

Where an attempt that brought no result leaves its run:

    everything wanted is measured     SUCCEEDED
    no sweep wants the run any more   CANCELLED
    the reason's retry budget spent   FAILED
    else                              QUEUED
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from orchestrator.executor import AttemptKey, Ended
from orchestrator.snapshot import Snapshot, Underway, Waiting
from orchestrator.states import RETRY_BUDGET, Reason, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Give a waiting run its next attempt."""

    run_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ask an attempt to checkpoint and end."""

    key: AttemptKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move a run that nothing is executing."""

    run_id: str
    version: int
    source: State
    target: State
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abandon:
    """Stop waiting for an attempt: fence it off, then move its run."""

    key: AttemptKey
    move: Move


Decision = Launch | Stop | Move | Abandon


def decide(
    snapshot: Snapshot, now: datetime, *, free_slots: int, is_draining: bool
) -> tuple[Decision, ...]:
    """What to do now.

    Args:
        snapshot: One consistent view of the store.
        now: Of the scheduler's clock, which also set the leases.
        free_slots: How many attempts may be launched.
        is_draining: Whether the scheduler is stopping: everything ends, nothing starts.
    """
    decisions: list[Decision] = []
    for run in snapshot.underway:
        decisions.extend(_of_running(run, now, is_draining=is_draining))
    decisions.extend(_cancelled(waiting) for waiting in snapshot.unwanted)
    if not is_draining:
        decisions.extend(
            Launch(run_id=waiting.run_id, version=waiting.version)
            for waiting in snapshot.waiting[: max(0, free_slots)]
        )
    return tuple(decisions)


def _of_running(run: Underway, now: datetime, *, is_draining: bool) -> Iterator[Decision]:
    if run.ended is not None:
        yield _after(run, run.ended)
    elif run.stop_by is not None and run.stop_by <= now:
        ended = Ended(reason=Reason.INTERRUPTED, detail="did not stop when asked to")
        yield Abandon(key=run.key, move=_after(run, ended))
    elif run.lease_expires_at <= now:
        ended = Ended(reason=Reason.LEASE_EXPIRED, detail="no word from the worker for too long")
        yield Abandon(key=run.key, move=_after(run, ended))
    elif run.stop_by is None and (is_draining or not run.is_wanted):
        yield Stop(key=run.key)


def _after(run: Underway, ended: Ended) -> Move:
    target, reason = _destination(run, ended.reason)
    return Move(
        run_id=run.key.run_id,
        version=run.version,
        source=State.RUNNING,
        target=target,
        reason=reason,
        detail=_detail(run, ended) if target is State.FAILED else ended.detail,
    )


def _destination(run: Underway, reason: Reason) -> tuple[State, Reason]:
    if run.is_complete:
        return State.SUCCEEDED, Reason.COMPLETED
    if not run.is_wanted:
        return State.CANCELLED, Reason.CANCELLED_BY_USER
    budget = RETRY_BUDGET[reason]
    if budget is not None and run.strikes.get(reason, 0) >= budget:
        return State.FAILED, reason
    return State.QUEUED, reason


def _detail(run: Underway, ended: Ended) -> str:
    times = run.strikes.get(ended.reason, 0) + 1
    return f"given up after {times} attempts: {ended.detail or ended.reason}"


def _cancelled(waiting: Waiting) -> Move:
    return Move(
        run_id=waiting.run_id,
        version=waiting.version,
        source=State.QUEUED,
        target=State.CANCELLED,
        reason=Reason.CANCELLED_BY_USER,
    )
