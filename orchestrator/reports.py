"""Taking in what attempts report: exactly once, and only from the attempt that holds the run.

    offset          events of the attempt before those in the report
    heard           events of the attempt that the store has
    events[heard - offset:]  are new; a report that starts beyond `heard` left something out

Events, their count, the renewed lease and the move at the end are one transaction. An ending that
leads to a result or a failure moves the run at once; one that may lead to another attempt is noted
and left to the scheduler's decision.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, delete, insert, or_, select, update

from kernels.verdict import Preflight
from orchestrator.asks import lacking_horizons
from orchestrator.encoding import NUM_COLUMNS, pack, pack_layers, preflight_to_text
from orchestrator.executor import AttemptKey, Ended, Report
from orchestrator.moves import end_attempt, move
from orchestrator.states import REASON_STATE, RETRY_BUDGET, Reason, State
from orchestrator.tables import AttemptRow, CurveRow, DiagnosisRow, EndpointRow, RunRow
from sweeps.errors import ConflictError
from sweeps.metrics import Diagnosis, Diverged, Endpoint, StepMetrics, TrainEvent


class Verdict(StrEnum):
    """What became of a report."""

    TAKEN = "taken"  # its new events are stored, if it had any
    FENCED = "fenced"  # the attempt no longer holds the run; it should stop
    GAP = "gap"  # events are missing before it; nothing was stored, the lease not renewed


def apply(connection: Connection, report: Report, now: datetime, lease: timedelta) -> Verdict:
    """Store what is new in a report and renew the attempt's lease.

    Raises:
        ConflictError: If the ending's reason is none that ends an attempt.
    """
    key = report.key
    attempt = connection.execute(
        select(AttemptRow.heard, AttemptRow.horizons, AttemptRow.detail)
        .join(RunRow, RunRow.run_id == AttemptRow.run_id)
        .where(
            AttemptRow.run_id == key.run_id,
            AttemptRow.number == key.attempt,
            AttemptRow.ended_at.is_(None),
            RunRow.attempt == key.attempt,
            RunRow.state == State.RUNNING,
        )
    ).one_or_none()
    if attempt is None:
        return Verdict.FENCED
    heard = attempt.heard
    if report.offset > heard:
        return Verdict.GAP
    fresh = report.events[heard - report.offset :]
    _of(key, connection, heard=heard + len(fresh), lease_expires_at=now + lease)
    _store_curves(connection, key, fresh, heard)
    detail = attempt.detail
    for place, event in enumerate(fresh, start=heard):
        _store(connection, key, event, place, now)
        if isinstance(event, Diverged):
            detail = event.detail
    if report.ended is not None:
        _end(connection, key, report.ended, attempt.horizons, detail, now)
    return Verdict.TAKEN


def _store(
    connection: Connection, key: AttemptKey, event: TrainEvent, place: int, now: datetime
) -> None:
    """Store one event, the `place`-th of its attempt, unless it belongs to a curve."""
    match event:
        case Endpoint():
            _store_endpoint(connection, key, event, now)
        case Diverged():
            _of(key, connection, detail=event.detail)
        case Diagnosis():
            _store_diagnosis(connection, key, event, place)
        case Preflight():
            _of(key, connection, preflight=preflight_to_text(event))
        case StepMetrics():
            pass


def _of(key: AttemptKey, connection: Connection, **values: object) -> None:
    connection.execute(
        update(AttemptRow)
        .where(AttemptRow.run_id == key.run_id, AttemptRow.number == key.attempt)
        .values(**values)
    )


def _store_endpoint(
    connection: Connection, key: AttemptKey, endpoint: Endpoint, now: datetime
) -> None:
    """The first measurement stands; it also clears the count of lost attempts."""
    known = select(EndpointRow.tokens).where(
        EndpointRow.run_id == key.run_id, EndpointRow.tokens == endpoint.tokens
    )
    if connection.scalar(known) is not None:
        return
    connection.execute(
        insert(EndpointRow).values(
            run_id=key.run_id, attempt=key.attempt, measured_at=now, **asdict(endpoint)
        )
    )
    connection.execute(
        update(RunRow).where(RunRow.run_id == key.run_id).values(strikes_from=key.attempt)
    )


def _store_curves(
    connection: Connection, key: AttemptKey, events: Sequence[TrainEvent], heard: int
) -> None:
    for first, points in _stretches(events):
        path, start = points[0].horizon, points[0].tokens
        _forget_diagnoses(connection, key, path, start)
        connection.execute(
            update(CurveRow)
            .where(
                CurveRow.run_id == key.run_id,
                CurveRow.horizon.is_not_distinct_from(path),
                CurveRow.last_tokens >= start,
                or_(CurveRow.superseded_from.is_(None), CurveRow.superseded_from > start),
            )
            .values(superseded_from=start)
        )
        connection.execute(
            insert(CurveRow).values(
                run_id=key.run_id,
                attempt=key.attempt,
                first_event=heard + first,
                horizon=path,
                first_tokens=start,
                last_tokens=points[-1].tokens,
                columns=pack(points),
                num_columns=NUM_COLUMNS,
            )
        )


def _store_diagnosis(
    connection: Connection, key: AttemptKey, diagnosis: Diagnosis, place: int
) -> None:
    _forget_diagnoses(connection, key, diagnosis.horizon, diagnosis.tokens)
    connection.execute(
        insert(DiagnosisRow).values(
            run_id=key.run_id,
            attempt=key.attempt,
            event=place,
            horizon=diagnosis.horizon,
            step=diagnosis.step,
            tokens=diagnosis.tokens,
            layers=pack_layers(diagnosis.layers),
        )
    )


def _forget_diagnoses(
    connection: Connection, key: AttemptKey, path: int | None, start: int
) -> None:
    """Remove those of earlier attempts that are trained again from so many tokens on."""
    connection.execute(
        delete(DiagnosisRow).where(
            DiagnosisRow.run_id == key.run_id,
            DiagnosisRow.attempt < key.attempt,
            DiagnosisRow.horizon.is_not_distinct_from(path),
            DiagnosisRow.tokens >= start,
        )
    )


def _stretches(events: Sequence[TrainEvent]) -> Iterator[tuple[int, list[StepMetrics]]]:
    """Points on one path with rising tokens, and the place of the first among the events."""
    stretch: list[StepMetrics] = []
    start = 0
    for place, event in enumerate(events):
        match event:
            case StepMetrics():
                last = stretch[-1] if stretch else None
                if last and (last.horizon != event.horizon or last.tokens >= event.tokens):
                    yield start, stretch
                    stretch = []
                if not stretch:
                    start = place
                stretch.append(event)
            case Endpoint() | Diverged() | Diagnosis() | Preflight():
                pass
    if stretch:
        yield start, stretch


def _end(
    connection: Connection,
    key: AttemptKey,
    ended: Ended,
    horizons: Sequence[int],
    heard_detail: str,
    now: datetime,
) -> None:
    reason, detail = ended.reason, ended.detail or heard_detail
    if reason not in ENDINGS:
        raise ConflictError(f"reason {reason} does not end an attempt")
    if reason is Reason.COMPLETED:
        lacking = set(horizons) & set(lacking_horizons(connection, key.run_id))
        if lacking:
            reason = Reason.TRAINING_ERROR
            detail = f"ended without an endpoint at {', '.join(map(str, sorted(lacking)))} tokens"
    end_attempt(connection, key.run_id, key.attempt, reason, detail=detail, now=now)
    target = REASON_STATE[reason]
    if not target.is_terminal:
        return
    move(connection, key.run_id, State.RUNNING, target, reason, now=now, detail=detail)
    if target is State.SUCCEEDED and lacking_horizons(connection, key.run_id):
        move(
            connection,
            key.run_id,
            State.SUCCEEDED,
            State.QUEUED,
            Reason.HORIZON_ADDED,
            now=now,
        )


ENDINGS = frozenset(
    {reason for reason, state in REASON_STATE.items() if state.is_terminal} | set(RETRY_BUDGET)
)
"""Reasons that an attempt can end for."""
