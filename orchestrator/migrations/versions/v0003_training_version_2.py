"""Runs say which version of training they mean; curves, how many columns they have.

    run      training_version: 1         what trained before: the id stays, nothing more is trained
    curve    num_columns: 7              up to `seconds`

Sweeps keep the meaning that their words had, where the usual one has changed since.
"""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add a column and rewrite all specs."""
    op.add_column(
        "curves", sa.Column("num_columns", sa.BigInteger, nullable=False, server_default="7")
    )
    _rewrite("runs", ("run_id",), _run)
    _rewrite("members", ("sweep_id", "run_id"), _run)
    _rewrite("sweeps", ("sweep_id",), _sweep)


def _rewrite(name: str, key: tuple[str, ...], change: Callable[[dict[str, Any]], None]) -> None:
    table = sa.table(name, sa.column("spec"), *map(sa.column, key))
    connection = op.get_bind()
    for row in connection.execute(sa.select(table)).all():
        spec = json.loads(row.spec)
        change(spec)
        this = [table.c[column] == row._mapping[column] for column in key]
        text = json.dumps(spec, separators=(",", ":"), ensure_ascii=False)
        connection.execute(sa.update(table).where(*this).values(spec=text))


def _run(spec: dict[str, Any]) -> None:
    spec["training_version"] = 1


def _sweep(spec: dict[str, Any]) -> None:
    spec["train"]["order"] = "windows"
