"""Preflights and diagnoses; specs of numerics version 1 in the words of version 2.

A run keeps its id and its numerics version. Version 1 had one kind of block, of draws and of signs,
so that its specs say the same in the new words:

    operand              block: n    {along: n, across: 1}, 8 random bits, the half-offset
    GEMM                 rht: n      {size: n, signs: layer}
    recipe of a sweep    block: n    1xn
"""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

GEMMS = ("fprop", "dgrad", "wgrad")


def upgrade() -> None:
    """Add a column and a table, and rewrite all specs."""
    op.add_column("attempts", sa.Column("preflight", sa.Text))
    op.create_table(
        "diagnoses",
        sa.Column("run_id", sa.String(16), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("event", sa.BigInteger, nullable=False),
        sa.Column("horizon", sa.BigInteger),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("layers", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_diagnoses_run_id_runs"),
        sa.PrimaryKeyConstraint("run_id", "attempt", "event", name="pk_diagnoses"),
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
    for name in GEMMS:
        gemm = spec["recipe"][name]
        for operand in (gemm["left"], gemm["right"]):
            block = {"along": operand["block"], "across": 1}
            operand.update(block=block, random_bits=8, half_offset=True)
        if gemm["rht"] is not None:
            gemm["rht"] = {"size": gemm["rht"], "signs": "layer"}


def _sweep(spec: dict[str, Any]) -> None:
    for recipe in spec["recipes"]:
        if isinstance(recipe, dict):
            recipe["block"] = f"1x{recipe['block']}"
    if spec["grid"] is not None:
        spec["grid"]["block"] = [f"1x{block}" for block in spec["grid"]["block"]]
