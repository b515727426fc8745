"""Fits that somebody asked for, kept whole. Nothing that was stored before changes."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a table."""
    op.create_table(
        "fits",
        sa.Column("fit_id", sa.String(16), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("law", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("input_hash", sa.String(16), nullable=False),
        sa.Column("method_version", sa.BigInteger, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("fit_id", name="pk_fits"),
    )
    op.create_index("ix_fits_created_at", "fits", ["created_at"])
