"""Tables of the store, and the column types that keep values exact on every database.

    sweeps ─< members >─ runs ─< attempts    one row per execution
              │             ├──< events      one row per move; folding them gives the run's row
              └──< asks     ├──< endpoints   one row per measured horizon; these answer the asks
                            ├──< curves      one row per batch of StepMetrics on one path
                            └──< diagnoses   one row per Diagnosis
    fits                                     one row per fit that somebody asked for

A run belongs to as many sweeps as ask for it; each keeps the names that it gave. `runs.version`
counts its moves, `runs.attempt` its attempts. The schema is changed by a migration only; a test
holds both to be the same.
"""

from datetime import UTC, datetime
from math import nan
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from orchestrator.states import Reason, State


class UtcTime(TypeDecorator[datetime]):
    """A moment; SQLite drops the offset, so every moment is stored and read as UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """A naive moment has no meaning and is refused."""
        if value is not None and value.tzinfo is None:
            raise ValueError(f"a moment needs a time zone, got {value}")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Aware, whatever the database gives."""
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class ExactDouble(TypeDecorator[float]):
    """A float64 that may be NaN. SQLite turns NaN into NULL, so NULL reads as NaN."""

    impl = Double
    cache_ok = True

    def process_result_value(self, value: float | None, dialect: Dialect) -> float:  # noqa: ARG002
        """Never None: columns of this type hold no missing values."""
        return nan if value is None else value


def _enum(kind: type[State] | type[Reason]) -> Enum:
    return Enum(
        kind,
        native_enum=False,
        length=32,
        values_callable=lambda members: [member.value for member in members],
    )


class Table(DeclarativeBase):
    """Names every constraint, so that a later migration can drop it by name."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own declaration
        datetime: UtcTime(),
        State: _enum(State),
        Reason: _enum(Reason),
        float: Double(),
        int: BigInteger(),
        list[int]: JSON(),
    }


class SweepRow(Table):
    """What a person asked; `cancelled_at` is the wish to stop."""

    __tablename__ = "sweeps"

    sweep_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(Text, index=True)
    spec: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    cancelled_at: Mapped[datetime | None]


class RunRow(Table):
    """A run and where it stands; lost attempts count from number `strikes_from` on.

    `spec` is as the latest sweep wrote it: its corpus path is the one to read.
    """

    __tablename__ = "runs"
    __table_args__ = (Index(None, "state", "position"),)

    run_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    spec: Mapped[str] = mapped_column(Text)
    N: Mapped[int]
    flops_per_token: Mapped[float]
    position: Mapped[int] = mapped_column(index=True)
    state: Mapped[State]
    reason: Mapped[Reason]
    detail: Mapped[str] = mapped_column(Text)
    version: Mapped[int]
    attempt: Mapped[int]
    strikes_from: Mapped[int]
    created_at: Mapped[datetime]
    changed_at: Mapped[datetime]


class MemberRow(Table):
    """That a run belongs to a sweep, at which place in its plan; `spec` has this sweep's names."""

    __tablename__ = "members"

    sweep_id: Mapped[str] = mapped_column(ForeignKey(SweepRow.sweep_id), primary_key=True)
    run_id: Mapped[str] = mapped_column(ForeignKey(RunRow.run_id), primary_key=True)
    position: Mapped[int]
    spec: Mapped[str] = mapped_column(Text)


class AskRow(Table):
    """That a sweep asks a run for the endpoint at one horizon."""

    __tablename__ = "asks"
    __table_args__ = (
        ForeignKeyConstraint(["sweep_id", "run_id"], [MemberRow.sweep_id, MemberRow.run_id]),
        Index(None, "run_id", "horizon"),
    )

    sweep_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    run_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    horizon: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class AttemptRow(Table):
    """One execution of a run towards `horizons`; the first `heard` of its events are stored.

    `preflight` is None until one was heard: an attempt that has nothing to train runs none.
    """

    __tablename__ = "attempts"

    run_id: Mapped[str] = mapped_column(ForeignKey(RunRow.run_id), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    horizons: Mapped[list[int]]
    heard: Mapped[int]
    lease_expires_at: Mapped[datetime]
    stop_by: Mapped[datetime | None]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    reason: Mapped[Reason | None]
    detail: Mapped[str] = mapped_column(Text)
    preflight: Mapped[str | None] = mapped_column(Text)


class EventRow(Table):
    """One move, written in the transaction that made it; `source` is None for the first."""

    __tablename__ = "events"

    run_id: Mapped[str] = mapped_column(ForeignKey(RunRow.run_id), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    source: Mapped[State | None]
    target: Mapped[State]
    reason: Mapped[Reason]
    detail: Mapped[str] = mapped_column(Text)
    attempt: Mapped[int]
    at: Mapped[datetime]


class EndpointRow(Table):
    """The measurement at one horizon; the first one stands."""

    __tablename__ = "endpoints"

    run_id: Mapped[str] = mapped_column(ForeignKey(RunRow.run_id), primary_key=True)
    tokens: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    loss: Mapped[float] = mapped_column(ExactDouble, nullable=True)
    loss_se: Mapped[float] = mapped_column(ExactDouble, nullable=True)
    loss_bf16: Mapped[float] = mapped_column(ExactDouble, nullable=True)
    train_loss: Mapped[float] = mapped_column(ExactDouble, nullable=True)
    eval_tokens: Mapped[int]
    bytes_per_token: Mapped[float | None]
    unigram_entropy: Mapped[float] = mapped_column(ExactDouble, nullable=True)
    measured_at: Mapped[datetime]


class CurveRow(Table):
    """Consecutive StepMetrics of one attempt on one path, packed by column (`encoding.pack`).

    `first_event` numbers the first of them within the attempt; `horizon` is None on the trunk.
    Points from `superseded_from` tokens on were trained again from a checkpoint: kept, but no
    longer part of the curve.
    """

    __tablename__ = "curves"
    __table_args__ = (Index(None, "run_id", "horizon", "last_tokens"),)

    run_id: Mapped[str] = mapped_column(ForeignKey(RunRow.run_id), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    first_event: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    horizon: Mapped[int | None]
    first_tokens: Mapped[int]
    last_tokens: Mapped[int]
    superseded_from: Mapped[int | None]
    columns: Mapped[bytes] = mapped_column(LargeBinary)
    num_columns: Mapped[int]


class DiagnosisRow(Table):
    """What the recipe did to some layers at one step of one path, packed (`encoding.pack_layers`).

    `event` numbers it within the attempt. One that a later attempt trains again is removed.
    """

    __tablename__ = "diagnoses"

    run_id: Mapped[str] = mapped_column(ForeignKey(RunRow.run_id), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    event: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    horizon: Mapped[int | None]
    step: Mapped[int]
    tokens: Mapped[int]
    layers: Mapped[bytes] = mapped_column(LargeBinary)


class FitRow(Table):
    """A fit that somebody asked for, whole in `result`; its id says what was asked."""

    __tablename__ = "fits"

    fit_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    label: Mapped[str] = mapped_column(Text)
    source: Mapped[str] = mapped_column(Text)
    law: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text)
    input_hash: Mapped[str] = mapped_column(String(16))
    method_version: Mapped[int]
    result: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(index=True)
