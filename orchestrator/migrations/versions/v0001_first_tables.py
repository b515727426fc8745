"""The first tables: sweeps, runs, members, asks, attempts, events, endpoints, curves."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TIME = sa.DateTime(timezone=True)
WORD = sa.String(32)


def upgrade() -> None:
    """Make all tables."""
    _sweeps_and_runs()
    _history()
    _measurements()


def _sweeps_and_runs() -> None:
    op.create_table(
        "sweeps",
        sa.Column("sweep_id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("cancelled_at", TIME),
        sa.PrimaryKeyConstraint("sweep_id", name="pk_sweeps"),
    )
    op.create_index("ix_sweeps_name", "sweeps", ["name"])
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("N", sa.BigInteger, nullable=False),
        sa.Column("flops_per_token", sa.Double, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("state", WORD, nullable=False),
        sa.Column("reason", WORD, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("strikes_from", sa.BigInteger, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_index("ix_runs_position", "runs", ["position"])
    op.create_index("ix_runs_state_position", "runs", ["state", "position"])
    op.create_table(
        "members",
        sa.Column("sweep_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["sweep_id"], ["sweeps.sweep_id"], name="fk_members_sweep_id_sweeps"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_members_run_id_runs"),
        sa.PrimaryKeyConstraint("sweep_id", "run_id", name="pk_members"),
    )
    op.create_table(
        "asks",
        sa.Column("sweep_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("horizon", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["sweep_id", "run_id"],
            ["members.sweep_id", "members.run_id"],
            name="fk_asks_sweep_id_run_id_members",
        ),
        sa.PrimaryKeyConstraint("sweep_id", "run_id", "horizon", name="pk_asks"),
    )
    op.create_index("ix_asks_run_id_horizon", "asks", ["run_id", "horizon"])


def _history() -> None:
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("horizons", sa.JSON, nullable=False),
        sa.Column("heard", sa.BigInteger, nullable=False),
        sa.Column("lease_expires_at", TIME, nullable=False),
        sa.Column("stop_by", TIME),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("reason", WORD),
        sa.Column("detail", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_attempts_run_id_runs"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
    )
    op.create_table(
        "events",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("source", WORD),
        sa.Column("target", WORD, nullable=False),
        sa.Column("reason", WORD, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_events_run_id_runs"),
        sa.PrimaryKeyConstraint("run_id", "version", name="pk_events"),
    )


def _measurements() -> None:
    op.create_table(
        "endpoints",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("loss", sa.Double),
        sa.Column("loss_se", sa.Double),
        sa.Column("loss_bf16", sa.Double),
        sa.Column("train_loss", sa.Double),
        sa.Column("eval_tokens", sa.BigInteger, nullable=False),
        sa.Column("bytes_per_token", sa.Double),
        sa.Column("unigram_entropy", sa.Double),
        sa.Column("measured_at", TIME, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_endpoints_run_id_runs"),
        sa.PrimaryKeyConstraint("run_id", "tokens", name="pk_endpoints"),
    )
    op.create_table(
        "curves",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("first_event", sa.BigInteger, nullable=False),
        sa.Column("horizon", sa.BigInteger),
        sa.Column("first_tokens", sa.BigInteger, nullable=False),
        sa.Column("last_tokens", sa.BigInteger, nullable=False),
        sa.Column("superseded_from", sa.BigInteger),
        sa.Column("columns", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_curves_run_id_runs"),
        sa.PrimaryKeyConstraint("run_id", "attempt", "first_event", name="pk_curves"),
    )
    op.create_index(
        "ix_curves_run_id_horizon_last_tokens", "curves", ["run_id", "horizon", "last_tokens"]
    )
