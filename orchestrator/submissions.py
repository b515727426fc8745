"""What people ask of the store: submit a plan, cancel a sweep, retry what failed.

Submitting is idempotent: a run that exists is shared, an ask that exists is left, and only what
is missing is queued. These are wishes; a running run is stopped by the scheduler alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from orchestrator.asks import IS_LACKING, lacks_for
from orchestrator.encoding import run_from_text, run_to_text
from orchestrator.moves import move_all
from orchestrator.states import Reason, State
from orchestrator.tables import AskRow, EventRow, MemberRow, RunRow, SweepRow
from sweeps.errors import InputError
from sweeps.plan import Plan, PlannedRun

BATCH = 500  # run ids in one query; SQLite of old takes at most 999 parameters


def write_down(plan: Plan) -> dict[str, str]:
    """Every run's spec as text, by run id.

    Raises:
        InputError: If a spec does not survive being written down.
    """
    return {run.run_id: _exact_text(run) for run in plan.runs}


def submit(connection: Connection, plan: Plan, texts: Mapping[str, str], now: datetime) -> None:
    """Store a plan: its sweep, the runs that are new, and what it asks of all of them.

    Runs that succeeded go back to the queue if a horizon is added to them, and cancelled ones
    because somebody asks for them again. Failed ones wait for a retry. Of a sweep that is known the
    newest words count: its claims, its purpose and the names of its recipes and models.
    """
    _insert_new_runs(connection, plan.runs, texts, now)
    known = select(SweepRow.sweep_id).where(SweepRow.sweep_id == plan.sweep_id)
    if connection.scalar(known) is None:
        _insert_sweep(connection, plan, texts, now)
    else:
        _reword_sweep(connection, plan, texts)
        _lift_wish(connection, plan.sweep_id)
    _requeue(connection, plan.sweep_id, State.SUCCEEDED, Reason.HORIZON_ADDED, now)
    _requeue(connection, plan.sweep_id, State.CANCELLED, Reason.RETRY_ASKED, now)


def cancel(connection: Connection, sweep_id: str, now: datetime) -> None:
    """Note the wish to stop a sweep, and cancel what it queued unless another sweep wants it.

    A sweep that is over stays as it is.
    """
    active = select(RunRow.run_id).where(
        _is_member(sweep_id),
        RunRow.state.in_((State.QUEUED, State.RUNNING)),
        lacks_for(sweep_id),
    )
    if connection.scalar(active.limit(1)) is None:
        return
    connection.execute(
        update(SweepRow)
        .where(SweepRow.sweep_id == sweep_id, SweepRow.cancelled_at.is_(None))
        .values(cancelled_at=now)
    )
    move_all(
        connection,
        _is_member(sweep_id) & ~IS_LACKING,
        State.QUEUED,
        State.CANCELLED,
        Reason.CANCELLED_BY_USER,
        now=now,
    )


def retry(connection: Connection, sweep_id: str, now: datetime) -> None:
    """Lift a sweep's cancellation and queue what failed, was cancelled or is still missing."""
    _lift_wish(connection, sweep_id)
    _requeue(connection, sweep_id, State.SUCCEEDED, Reason.HORIZON_ADDED, now)
    _requeue(connection, sweep_id, State.CANCELLED, Reason.RETRY_ASKED, now)
    _requeue(connection, sweep_id, State.FAILED, Reason.RETRY_ASKED, now)


def _exact_text(run: PlannedRun) -> str:
    text = run_to_text(run.spec)
    if run_from_text(text).run_id != run.run_id:
        raise InputError(f"run {run.spec.label}: its spec changes when it is written down: {text}")
    return text


def _insert_new_runs(
    connection: Connection, runs: Sequence[PlannedRun], texts: Mapping[str, str], now: datetime
) -> None:
    known: dict[str, str] = {}
    for batch in _batches(list(texts)):
        rows = connection.execute(
            select(RunRow.run_id, RunRow.spec).where(RunRow.run_id.in_(batch))
        )
        known.update({row.run_id: row.spec for row in rows})
    for run_id, text in known.items():
        if text != texts[run_id]:  # the same run under other names, or its corpus elsewhere
            renamed = update(RunRow).where(RunRow.run_id == run_id).values(spec=texts[run_id])
            connection.execute(renamed)
    last = connection.scalar(select(func.max(RunRow.position)))
    new = [run for run in runs if run.run_id not in known]
    if not new:
        return
    connection.execute(
        insert(RunRow),
        [
            {
                "run_id": run.run_id,
                "spec": texts[run.run_id],
                "N": run.N,
                "flops_per_token": run.flops_per_token,
                "position": position,
                "state": State.QUEUED,
                "reason": Reason.PLANNED,
                "detail": "",
                "version": 1,
                "attempt": 0,
                "strikes_from": 1,
                "created_at": now,
                "changed_at": now,
            }
            for position, run in enumerate(new, start=0 if last is None else last + 1)
        ],
    )
    connection.execute(
        insert(EventRow),
        [
            {
                "run_id": run.run_id,
                "version": 1,
                "target": State.QUEUED,
                "reason": Reason.PLANNED,
                "detail": "",
                "attempt": 0,
                "at": now,
            }
            for run in new
        ],
    )


def _insert_sweep(
    connection: Connection, plan: Plan, texts: Mapping[str, str], now: datetime
) -> None:
    connection.execute(
        insert(SweepRow).values(
            sweep_id=plan.sweep_id,
            name=plan.spec.name,
            spec=plan.spec.model_dump_json(),
            created_at=now,
        )
    )
    connection.execute(
        insert(MemberRow),
        [
            {
                "sweep_id": plan.sweep_id,
                "run_id": run.run_id,
                "position": position,
                "spec": texts[run.run_id],
            }
            for position, run in enumerate(plan.runs)
        ],
    )
    connection.execute(
        insert(AskRow),
        [
            {"sweep_id": plan.sweep_id, "run_id": run.run_id, "horizon": horizon}
            for run in plan.runs
            for horizon in run.horizons
        ],
    )


def _reword_sweep(connection: Connection, plan: Plan, texts: Mapping[str, str]) -> None:
    """Claims speak of recipes by name, so that a sweep's spec and its runs are worded alike."""
    sweep = update(SweepRow).where(SweepRow.sweep_id == plan.sweep_id)
    connection.execute(sweep.values(spec=plan.spec.model_dump_json()))
    mine = MemberRow.sweep_id == plan.sweep_id
    members = connection.execute(select(MemberRow.run_id, MemberRow.spec).where(mine)).all()
    for run_id, text in members:
        if text != texts[run_id]:
            renamed = update(MemberRow).where(mine, MemberRow.run_id == run_id)
            connection.execute(renamed.values(spec=texts[run_id]))


def _lift_wish(connection: Connection, sweep_id: str) -> None:
    connection.execute(
        update(SweepRow).where(SweepRow.sweep_id == sweep_id).values(cancelled_at=None)
    )


def _requeue(
    connection: Connection, sweep_id: str, source: State, reason: Reason, now: datetime
) -> None:
    lacking = _is_member(sweep_id) & lacks_for(sweep_id)
    move_all(connection, lacking, source, State.QUEUED, reason, now=now)


def _is_member(sweep_id: str) -> ColumnElement[bool]:
    members = select(MemberRow.run_id).where(MemberRow.sweep_id == sweep_id)
    return RunRow.run_id.in_(members)


def _batches(run_ids: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(run_ids)
    while batch := list(islice(rest, BATCH)):
        yield batch
