"""Moving a run: one UPDATE guarded by the state that the mover saw, and one event row beside it.

Everything that changes `runs.state` comes through here. Who loses a race is told so and nothing
is written.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, insert, literal, select, update

from orchestrator.asks import lacking_horizons
from orchestrator.states import MOVES, REASON_STATE, RETRY_BUDGET, Reason, State
from orchestrator.tables import AttemptRow, EventRow, RunRow
from sweeps.errors import ConflictError

FRESH_START = frozenset({Reason.RETRY_ASKED, Reason.HORIZON_ADDED})
"""Reasons after which earlier lost attempts no longer count."""


def move(
    connection: Connection,
    run_id: str,
    source: State,
    target: State,
    reason: Reason,
    *,
    now: datetime,
    detail: str = "",
    version: int | None = None,
) -> int | None:
    """Move a run if it is still in `source`, and at `version` if one is given.

    Leaving RUNNING ends the attempt for the same reason unless it has ended already.

    Returns:
        The run's attempt number after the move; None if somebody else moved it first.

    Raises:
        ConflictError: If the table of moves has no such move or the reason leads elsewhere.
    """
    check(source, target, reason)
    guard = [RunRow.run_id == run_id, RunRow.state == source]
    if version is not None:
        guard.append(RunRow.version == version)
    step = 1 if target is State.RUNNING else 0
    statement = (
        update(RunRow)
        .where(*guard)
        .values(
            state=target,
            reason=reason,
            detail=detail,
            version=RunRow.version + 1,
            attempt=RunRow.attempt + step,
            changed_at=now,
        )
        .returning(RunRow.version, RunRow.attempt)
    )
    if reason in FRESH_START:
        statement = statement.values(strikes_from=RunRow.attempt + 1)
    moved = connection.execute(statement).one_or_none()
    if moved is None:
        return None
    connection.execute(
        insert(EventRow).values(
            run_id=run_id,
            version=moved.version,
            source=source,
            target=target,
            reason=reason,
            detail=detail,
            attempt=moved.attempt,
            at=now,
        )
    )
    if source is State.RUNNING:
        end_attempt(connection, run_id, moved.attempt, reason, detail=detail, now=now)
    number: int = moved.attempt
    return number


def move_all(
    connection: Connection,
    condition: ColumnElement[bool],
    source: State,
    target: State,
    reason: Reason,
    *,
    now: datetime,
) -> None:
    """Move every run in `source` that meets a condition, in two statements however many there are.

    The condition must not depend on events; runs under way are moved one by one, by `move`.

    Raises:
        ConflictError: If the table of moves has no such move or the reason leads elsewhere.
    """
    check(source, target, reason)
    if State.RUNNING in (source, target):
        raise ConflictError("runs start and end one by one")
    chosen = (RunRow.state == source) & condition
    events = select(
        RunRow.run_id,
        RunRow.version + 1,
        literal(source, EventRow.source.type),
        literal(target, EventRow.target.type),
        literal(reason, EventRow.reason.type),
        literal(""),
        RunRow.attempt,
        literal(now, EventRow.at.type),
    ).where(chosen)
    names = ["run_id", "version", "source", "target", "reason", "detail", "attempt", "at"]
    connection.execute(insert(EventRow).from_select(names, events))
    statement = (
        update(RunRow)
        .where(chosen)
        .values(state=target, reason=reason, detail="", version=RunRow.version + 1, changed_at=now)
    )
    if reason in FRESH_START:
        statement = statement.values(strikes_from=RunRow.attempt + 1)
    connection.execute(statement)


def check(source: State, target: State, reason: Reason) -> None:
    """Refuse what the tables of `states` do not have.

    A reason with a retry budget leads to FAILED once the budget is spent.

    Raises:
        ConflictError: If the move or its reason is not allowed.
    """
    if (source, target) not in MOVES:
        raise ConflictError(f"a {source} run cannot become {target}")
    is_spent = target is State.FAILED and RETRY_BUDGET.get(reason) is not None
    if REASON_STATE[reason] is not target and not is_spent:
        raise ConflictError(f"reason {reason} does not make a run {target}")


def claim(
    connection: Connection, run_id: str, *, now: datetime, lease: timedelta, version: int | None
) -> tuple[int, tuple[int, ...]] | None:
    """Give a queued run its next attempt; of many that try, one succeeds.

    Returns:
        Attempt number and horizons to train for; None if the run is no longer queued (at this
        version) or nothing is wanted of it.
    """
    horizons = lacking_horizons(connection, run_id)
    if not horizons:
        return None
    number = move(
        connection,
        run_id,
        State.QUEUED,
        State.RUNNING,
        Reason.LAUNCHED,
        now=now,
        version=version,
    )
    if number is None:
        return None
    connection.execute(
        insert(AttemptRow).values(
            run_id=run_id,
            number=number,
            horizons=list(horizons),
            heard=0,
            lease_expires_at=now + lease,
            started_at=now,
            detail="",
        )
    )
    return number, horizons


def end_attempt(
    connection: Connection, run_id: str, number: int, reason: Reason, *, detail: str, now: datetime
) -> None:
    """Note how an attempt ended; the first note stands."""
    connection.execute(
        update(AttemptRow)
        .where(
            AttemptRow.run_id == run_id,
            AttemptRow.number == number,
            AttemptRow.ended_at.is_(None),
        )
        .values(ended_at=now, reason=reason, detail=detail)
    )
