"""What the scheduler reads of the store at each turn, and what it notes about attempts."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, func, select, update

from orchestrator.asks import IS_LACKING, IS_WANTED, lacks_for
from orchestrator.executor import AttemptKey, Ended, Watch
from orchestrator.snapshot import Snapshot, Underway, Waiting
from orchestrator.states import Reason, State
from orchestrator.tables import AttemptRow, RunRow

NEWEST = (AttemptRow.run_id == RunRow.run_id) & (AttemptRow.number == RunRow.attempt)


def watches(connection: Connection) -> tuple[Watch, ...]:
    """Attempts believed to be running, and how much of each was heard."""
    query = (
        select(RunRow.run_id, RunRow.attempt, AttemptRow.heard)
        .join(AttemptRow, NEWEST)
        .where(RunRow.state == State.RUNNING, AttemptRow.ended_at.is_(None))
        .order_by(RunRow.position)
    )
    return tuple(
        Watch(key=AttemptKey(run_id=row.run_id, attempt=row.attempt), offset=row.heard)
        for row in connection.execute(query)
    )


def snapshot(connection: Connection, *, room: int, sweep_id: str | None) -> Snapshot:
    """What is to be decided: all running runs, the unwanted, and the next `room` that wait.

    Args:
        connection: Of one transaction, so that the view is consistent.
        room: How many waiting runs to list.
        sweep_id: List waiting runs of this sweep alone, of all sweeps if None.
    """
    is_next = IS_LACKING if sweep_id is None else IS_LACKING & lacks_for(sweep_id)
    return Snapshot(
        waiting=_waiting(connection, is_next, limit=room),
        unwanted=_waiting(connection, ~IS_LACKING, limit=None),
        underway=_underway(connection),
    )


def extend_leases(connection: Connection, until: datetime) -> None:
    """Give every attempt under way at least until then."""
    running = select(RunRow.run_id).where(RunRow.state == State.RUNNING)
    connection.execute(
        update(AttemptRow)
        .where(
            AttemptRow.run_id.in_(running),
            AttemptRow.ended_at.is_(None),
            AttemptRow.lease_expires_at < until,
        )
        .values(lease_expires_at=until)
    )


def note_stop(connection: Connection, key: AttemptKey, stop_by: datetime) -> None:
    """Remember that an attempt was asked to stop; the first time counts."""
    connection.execute(
        update(AttemptRow)
        .where(
            AttemptRow.run_id == key.run_id,
            AttemptRow.number == key.attempt,
            AttemptRow.stop_by.is_(None),
        )
        .values(stop_by=stop_by)
    )


def _waiting(
    connection: Connection, condition: ColumnElement[bool], *, limit: int | None
) -> tuple[Waiting, ...]:
    query = (
        select(RunRow.run_id, RunRow.version)
        .where(RunRow.state == State.QUEUED, condition)
        .order_by(RunRow.position)
        .limit(limit)
    )
    return tuple(
        Waiting(run_id=row.run_id, version=row.version) for row in connection.execute(query)
    )


def _underway(connection: Connection) -> tuple[Underway, ...]:
    query = (
        select(
            RunRow.run_id,
            RunRow.version,
            AttemptRow.number,
            AttemptRow.lease_expires_at,
            AttemptRow.stop_by,
            AttemptRow.reason,
            AttemptRow.detail,
            IS_WANTED.label("is_wanted"),
            IS_LACKING.label("is_lacking"),
        )
        .join(AttemptRow, NEWEST)
        .where(RunRow.state == State.RUNNING)
        .order_by(RunRow.position)
    )
    strikes = _strikes(connection)
    return tuple(
        Underway(
            key=AttemptKey(run_id=row.run_id, attempt=row.number),
            version=row.version,
            lease_expires_at=row.lease_expires_at,
            stop_by=row.stop_by,
            ended=None if row.reason is None else Ended(reason=row.reason, detail=row.detail),
            strikes=strikes[row.run_id],
            is_wanted=row.is_wanted,
            is_complete=row.is_wanted and not row.is_lacking,
        )
        for row in connection.execute(query)
    )


def _strikes(connection: Connection) -> Mapping[str, Mapping[Reason, int]]:
    query = (
        select(RunRow.run_id, AttemptRow.reason, func.count())
        .join(AttemptRow, AttemptRow.run_id == RunRow.run_id)
        .where(
            RunRow.state == State.RUNNING,
            AttemptRow.reason.is_not(None),
            AttemptRow.number >= RunRow.strikes_from,
            AttemptRow.number < RunRow.attempt,
        )
        .group_by(RunRow.run_id, AttemptRow.reason)
    )
    strikes: defaultdict[str, dict[Reason, int]] = defaultdict(dict)
    for run_id, reason, count in connection.execute(query):
        if reason is not None:
            strikes[run_id][reason] = count
    return strikes
