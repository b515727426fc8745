"""How far a sweep is and when it will be over, for a display that asks every second.

    tokens of a run = trunk up to its last branch + every branch
    tokens left     = what its curve has not reached of these, over the horizons not measured
    ETA             = makespan of all tokens left over the slots, at the speeds measured here

The speed of a kind of run is the newest that a run of it reported, in this sweep or among the runs
that changed last.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from orchestrator.encoding import run_from_text, unpack
from orchestrator.results import runs
from orchestrator.states import State
from orchestrator.summaries import Progress, RunningNow, RunSummary
from orchestrator.tables import CurveRow, MemberRow, RunRow
from sweeps.metrics import StepMetrics
from sweeps.plan import PlannedRun
from sweeps.rates import Rates, makespan, rates_from
from sweeps.records import Outcome, RunRecord

RECENT_RUNS = 64  # enough kinds of runs for a first estimate, few enough to read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One run's tokens: all of them, and those still to train."""

    run: RunSummary
    total: int
    left: int


def progress(connection: Connection, sweep_id: str, *, slots: int) -> Progress:
    """Where a sweep stands, with `slots` runs training at once."""
    members = runs(connection, sweep_id)
    works = _works(connection, sweep_id, members)
    newest = _newest_points(connection, _is_member(sweep_id))
    alive = [work for work in works if not _ended_short(work.run)]
    ended = sum(len(run.horizons) - len(run.measured) for run in members if _ended_short(run))
    rates = recent_rates(connection, slots=slots, sweep_id=sweep_id)
    return Progress(
        cells_done=sum(len(run.measured) for run in members) + ended,
        cells_total=sum(len(run.horizons) for run in members),
        runs=count_states(members),
        running=tuple(
            _running_now(work, newest.get(work.run.run_id))
            for work in works
            if work.run.state is State.RUNNING
        ),
        tokens_done=sum(work.total - work.left for work in alive),
        tokens_total=sum(work.total for work in alive),
        eta_seconds=_eta([work for work in alive if work.left], rates),
    )


def recent_rates(connection: Connection, *, slots: int, sweep_id: str | None = None) -> Rates:
    """Speeds of the runs that moved last, and of all runs of one sweep if it is named."""
    recent = select(RunRow.run_id).order_by(RunRow.changed_at.desc()).limit(RECENT_RUNS)
    chosen: ColumnElement[bool] = RunRow.run_id.in_(recent)
    if sweep_id is not None:
        chosen = chosen | _is_member(sweep_id)
    points = _newest_points(connection, chosen)
    rows = connection.execute(
        select(RunRow.run_id, RunRow.spec, RunRow.N, RunRow.flops_per_token).where(chosen)
    )
    return rates_from(
        (
            RunRecord(
                spec=run_from_text(row.spec),
                N=row.N,
                flops_per_token=row.flops_per_token,
                horizons=(),
                outcome=Outcome.WAITING,
                curve=(points[row.run_id],),
            )
            for row in rows
            if row.run_id in points
        ),
        slots=slots,
    )


def count_states(members: tuple[RunSummary, ...]) -> dict[State, int]:
    """How many runs are in each state; states without runs are 0."""
    counts = Counter(run.state for run in members)
    return {state: counts[state] for state in State}


def _ended_short(run: RunSummary) -> bool:
    return run.state.is_terminal and run.state is not State.SUCCEEDED


def _eta(works: list[_Work], rates: Rates) -> float | None:
    if not works:
        return 0.0
    if not rates.measured:
        return None
    works.sort(key=lambda work: work.run.state is not State.RUNNING)
    seconds = [work.left / rates.tokens_per_second(work.run.spec) for work in works]
    return makespan(seconds, rates.slots)


def _works(connection: Connection, sweep_id: str, members: tuple[RunSummary, ...]) -> list[_Work]:
    reached = _reached(connection, sweep_id)
    return [
        _Work(
            run=run,
            total=PlannedRun(
                run_id=run.run_id,
                spec=run.spec,
                horizons=run.horizons,
                N=run.N,
                flops_per_token=round(run.flops_per_token),
            ).tokens,
            left=_tokens_left(run, reached[run.run_id]),
        )
        for run in members
    ]


def _tokens_left(run: RunSummary, reached: Mapping[int | None, int]) -> int:
    """Of the trunk, then of each branch whose horizon is not measured."""
    pending = [horizon for horizon in run.horizons if horizon not in run.measured]
    if not pending:
        return 0
    branch = run.spec.branch_tokens
    left = max(0, branch(pending[-1]) - reached.get(None, 0))
    for horizon in pending:
        left += horizon - min(horizon, max(branch(horizon), reached.get(horizon, 0)))
    return left


def _reached(connection: Connection, sweep_id: str) -> defaultdict[str, dict[int | None, int]]:
    """Tokens at the end of each path's live curve, by run."""
    end = func.max(func.coalesce(CurveRow.superseded_from, CurveRow.last_tokens))
    query = (
        select(CurveRow.run_id, CurveRow.horizon, end)
        .join(MemberRow, MemberRow.run_id == CurveRow.run_id)
        .where(MemberRow.sweep_id == sweep_id)
        .group_by(CurveRow.run_id, CurveRow.horizon)
    )
    found: defaultdict[str, dict[int | None, int]] = defaultdict(dict)
    for run_id, horizon, tokens in connection.execute(query):
        found[run_id][horizon] = tokens
    return found


def _newest_points(connection: Connection, chosen: ColumnElement[bool]) -> dict[str, StepMetrics]:
    """The last training metrics heard of each chosen run that has any."""
    age = func.row_number().over(
        partition_by=CurveRow.run_id,
        order_by=(CurveRow.attempt.desc(), CurveRow.first_event.desc()),
    )
    ranked = (
        select(CurveRow.run_id, CurveRow.attempt, CurveRow.first_event, age.label("age"))
        .join(RunRow, RunRow.run_id == CurveRow.run_id)
        .where(chosen)
        .subquery()
    )
    query = select(CurveRow).join(
        ranked,
        (ranked.c.run_id == CurveRow.run_id)
        & (ranked.c.attempt == CurveRow.attempt)
        & (ranked.c.first_event == CurveRow.first_event)
        & (ranked.c.age == 1),
    )
    return {
        row.run_id: unpack(row.columns, row.horizon, row.num_columns)[-1]
        for row in connection.execute(query)
    }


def _is_member(sweep_id: str) -> ColumnElement[bool]:
    return RunRow.run_id.in_(select(MemberRow.run_id).where(MemberRow.sweep_id == sweep_id))


def _running_now(work: _Work, point: StepMetrics | None) -> RunningNow:
    return RunningNow(
        run_id=work.run.run_id,
        label=work.run.spec.label,
        horizon=point.horizon if point else None,
        tokens=work.total - work.left,
        total_tokens=work.total,
        loss=point.loss if point else None,
        tokens_per_second=point.tokens_per_second if point else None,
    )
