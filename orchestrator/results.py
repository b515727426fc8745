"""What came of runs: summaries for lists, records for pairing, fitting and drawing.

A record holds what its sweep asked for and nothing more: the endpoints at its horizons, the trunk
up to its last branch and its own branches. So an answer does not change when another sweep asks
more of the same run. The number of queries does not grow with the number of runs.
"""

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, select

from kernels.verdict import Preflight
from orchestrator.encoding import preflight_from_text, run_from_text, unpack, unpack_layers
from orchestrator.states import State
from orchestrator.summaries import Event, RunSummary, as_seen
from orchestrator.tables import (
    AskRow,
    AttemptRow,
    CurveRow,
    DiagnosisRow,
    EndpointRow,
    EventRow,
    MemberRow,
    RunRow,
)
from sweeps.metrics import Diagnosis, Endpoint, StepMetrics
from sweeps.records import Outcome, RunRecord

OUTCOMES: Mapping[State, Outcome] = {
    State.QUEUED: Outcome.WAITING,
    State.RUNNING: Outcome.WAITING,
    State.SUCCEEDED: Outcome.SUCCEEDED,
    State.DIVERGED: Outcome.DIVERGED,
    State.FAILED: Outcome.FAILED,
    State.CANCELLED: Outcome.CANCELLED,
}


def runs(connection: Connection, sweep_id: str) -> tuple[RunSummary, ...]:
    """The runs of a sweep in plan order."""
    asked = _horizons(connection, sweep_id)
    measured = _endpoints(connection, sweep_id)
    preflights = _preflights(connection, sweep_id)
    query = (
        select(RunRow, MemberRow.spec.label("named_spec"))
        .join(MemberRow, MemberRow.run_id == RunRow.run_id)
        .where(MemberRow.sweep_id == sweep_id)
        .order_by(MemberRow.position)
    )
    return tuple(
        RunSummary(
            run_id=row.run_id,
            spec=run_from_text(row.named_spec),
            N=row.N,
            flops_per_token=row.flops_per_token,
            horizons=asked[row.run_id],
            measured=tuple(point.tokens for point in measured[row.run_id]),
            state=as_seen(
                row.state, horizons=len(asked[row.run_id]), measured=len(measured[row.run_id])
            ),
            reason=row.reason,
            detail=row.detail,
            version=row.version,
            attempt=row.attempt,
            preflight=preflights.get(row.run_id),
            created_at=row.created_at,
            changed_at=row.changed_at,
        )
        for row in connection.execute(query)
    )


def records(connection: Connection, sweep_id: str) -> tuple[RunRecord, ...]:
    """The runs of a sweep as data, in plan order."""
    measured = _endpoints(connection, sweep_id)
    curves = _curves(connection, sweep_id)
    return tuple(
        RunRecord(
            spec=run.spec,
            N=run.N,
            flops_per_token=run.flops_per_token,
            horizons=run.horizons,
            outcome=OUTCOMES[run.state],
            detail=run.detail if run.state.is_terminal and run.state != State.SUCCEEDED else "",
            endpoints=measured[run.run_id],
            curve=_asked_part(curves[run.run_id], run),
            preflight=run.preflight,
        )
        for run in runs(connection, sweep_id)
    )


def events(connection: Connection, run_id: str) -> tuple[Event, ...]:
    """The moves of a run, oldest first."""
    query = select(EventRow).where(EventRow.run_id == run_id).order_by(EventRow.version)
    return tuple(
        Event(
            run_id=row.run_id,
            version=row.version,
            source=row.source,
            target=row.target,
            reason=row.reason,
            detail=row.detail,
            attempt=row.attempt,
            at=row.at,
        )
        for row in connection.execute(query)
    )


def diagnoses(connection: Connection, run_id: str) -> tuple[Diagnosis, ...]:
    """What was diagnosed of a run, in the order in which it was trained."""
    query = (
        select(DiagnosisRow)
        .where(DiagnosisRow.run_id == run_id)
        .order_by(DiagnosisRow.attempt, DiagnosisRow.event)
    )
    return tuple(
        Diagnosis(
            horizon=row.horizon,
            step=row.step,
            tokens=row.tokens,
            layers=unpack_layers(row.layers),
        )
        for row in connection.execute(query)
    )


def measured_horizons(connection: Connection) -> dict[str, tuple[int, ...]]:
    """Token counts with an endpoint, ascending, for every run that has one."""
    found: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
    query = select(EndpointRow.run_id, EndpointRow.tokens).order_by(EndpointRow.tokens)
    for run_id, tokens in connection.execute(query):
        found[run_id] += (tokens,)
    return dict(found)


def _horizons(connection: Connection, sweep_id: str) -> dict[str, tuple[int, ...]]:
    asked: defaultdict[str, tuple[int, ...]] = defaultdict(tuple)
    query = (
        select(AskRow.run_id, AskRow.horizon)
        .where(AskRow.sweep_id == sweep_id)
        .order_by(AskRow.horizon)
    )
    for run_id, horizon in connection.execute(query):
        asked[run_id] += (horizon,)
    return asked


def _preflights(connection: Connection, sweep_id: str) -> dict[str, Preflight]:
    """The newest one of each run that has any."""
    query = (
        select(AttemptRow.run_id, AttemptRow.preflight)
        .join(MemberRow, MemberRow.run_id == AttemptRow.run_id)
        .where(MemberRow.sweep_id == sweep_id, AttemptRow.preflight.is_not(None))
        .order_by(AttemptRow.number)
    )
    newest = {row.run_id: row.preflight for row in connection.execute(query)}
    return {run_id: preflight_from_text(text) for run_id, text in newest.items() if text}


def _endpoints(connection: Connection, sweep_id: str) -> defaultdict[str, tuple[Endpoint, ...]]:
    """Endpoints at the horizons that the sweep asks for, by run, ascending."""
    query = (
        select(EndpointRow)
        .join(
            AskRow,
            (AskRow.run_id == EndpointRow.run_id) & (AskRow.horizon == EndpointRow.tokens),
        )
        .where(AskRow.sweep_id == sweep_id)
        .order_by(EndpointRow.tokens)
    )
    found: defaultdict[str, tuple[Endpoint, ...]] = defaultdict(tuple)
    for row in connection.execute(query):
        found[row.run_id] += (
            Endpoint(
                tokens=row.tokens,
                loss=row.loss,
                loss_se=row.loss_se,
                loss_bf16=row.loss_bf16,
                train_loss=row.train_loss,
                eval_tokens=row.eval_tokens,
                bytes_per_token=row.bytes_per_token,
                unigram_entropy=row.unigram_entropy,
            ),
        )
    return found


def _curves(connection: Connection, sweep_id: str) -> defaultdict[str, list[StepMetrics]]:
    """Live training metrics by run, in the order in which they were trained."""
    query = (
        select(CurveRow)
        .join(MemberRow, MemberRow.run_id == CurveRow.run_id)
        .where(MemberRow.sweep_id == sweep_id)
        .order_by(CurveRow.run_id, CurveRow.attempt, CurveRow.first_event)
    )
    curves: defaultdict[str, list[StepMetrics]] = defaultdict(list)
    for row in connection.execute(query):
        end = row.superseded_from
        curves[row.run_id].extend(
            point
            for point in unpack(row.columns, row.horizon, row.num_columns)
            if end is None or point.tokens < end
        )
    return curves


def _asked_part(curve: list[StepMetrics], run: RunSummary) -> tuple[StepMetrics, ...]:
    trunk_end = max(map(run.spec.branch_tokens, run.horizons))
    return tuple(
        point
        for point in curve
        if point.horizon in run.horizons or (point.horizon is None and point.tokens <= trunk_end)
    )
