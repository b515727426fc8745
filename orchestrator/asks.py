"""What sweeps still want of a run, as SQL conditions on `RunRow`.

live ask     an ask of a sweep that is not cancelled
unmeasured   an ask without an endpoint at its horizon
"""

from sqlalchemy import ColumnElement, Connection, exists, select

from orchestrator.tables import AskRow, EndpointRow, RunRow, SweepRow

UNMEASURED: ColumnElement[bool] = ~exists().where(
    EndpointRow.run_id == AskRow.run_id, EndpointRow.tokens == AskRow.horizon
)
"""Of an ask: its endpoint is missing."""

IS_LIVE: ColumnElement[bool] = exists().where(
    SweepRow.sweep_id == AskRow.sweep_id, SweepRow.cancelled_at.is_(None)
)
"""Of an ask: its sweep is not cancelled."""

IS_WANTED: ColumnElement[bool] = exists().where(AskRow.run_id == RunRow.run_id, IS_LIVE)
"""Of a run: some sweep that is not cancelled asks for it."""

IS_LACKING: ColumnElement[bool] = exists().where(
    AskRow.run_id == RunRow.run_id, IS_LIVE, UNMEASURED
)
"""Of a run: something that a sweep wants of it is not measured."""


def lacks_for(sweep_id: str) -> ColumnElement[bool]:
    """Of a run: something that this sweep asks is not measured."""
    return exists().where(AskRow.run_id == RunRow.run_id, AskRow.sweep_id == sweep_id, UNMEASURED)


def lacking_horizons(connection: Connection, run_id: str) -> tuple[int, ...]:
    """Horizons that some sweep wants of a run and that are not measured, ascending."""
    query = (
        select(AskRow.horizon)
        .where(AskRow.run_id == run_id, IS_LIVE, UNMEASURED)
        .distinct()
        .order_by(AskRow.horizon)
    )
    return tuple(connection.scalars(query))
