"""Which sweeps there are, and the one that a person means."""

from collections import defaultdict

from sqlalchemy import Connection, func, select

from orchestrator.asks import UNMEASURED
from orchestrator.states import State
from orchestrator.summaries import SweepSummary
from orchestrator.tables import AskRow, MemberRow, RunRow, SweepRow
from sweeps.errors import InputError, NotFoundError

SHOWN = 5  # candidates named in a message


def sweeps(connection: Connection, sweep_id: str | None = None) -> tuple[SweepSummary, ...]:
    """All sweeps, newest first, or the one of this id."""
    query = select(SweepRow).order_by(SweepRow.created_at.desc(), SweepRow.sweep_id)
    if sweep_id is not None:
        query = query.where(SweepRow.sweep_id == sweep_id)
    counts = _counts(connection, sweep_id)
    return tuple(
        SweepSummary(
            sweep_id=row.sweep_id,
            name=row.name,
            created_at=row.created_at,
            cancelled_at=row.cancelled_at,
            runs={state: counts[row.sweep_id][state] for state in State},
        )
        for row in connection.execute(query)
    )


def find(connection: Connection, word: str) -> str:
    """Id of the sweep that a word names: its id, else a name or the start of an id, if only one.

    Raises:
        NotFoundError: If no sweep is named so.
        InputError: If several are.
    """
    if connection.scalar(select(SweepRow.sweep_id).where(SweepRow.sweep_id == word)):
        return word
    newest_first = select(SweepRow.sweep_id).order_by(SweepRow.created_at.desc())
    matches = connection.scalars(newest_first.where(SweepRow.name == word)).all()
    if not matches and word:
        start = func.substr(SweepRow.sweep_id, 1, len(word))  # unlike LIKE, minds the case
        matches = connection.scalars(newest_first.where(start == word)).all()
    if not matches:
        raise NotFoundError(f"there is no sweep {word!r}")
    if len(matches) > 1:
        some = ", ".join(matches[:SHOWN])
        more = f" and {len(matches) - SHOWN} more" if len(matches) > SHOWN else ""
        raise InputError(f"sweep {word!r} may be any of {some}{more}; give the id")
    return matches[0]


def _counts(
    connection: Connection, sweep_id: str | None
) -> defaultdict[str, defaultdict[State, int]]:
    """Runs by sweep and state; one whose asks are all measured counts as succeeded."""
    lacks = (
        select(AskRow.run_id)
        .where(AskRow.sweep_id == MemberRow.sweep_id, AskRow.run_id == MemberRow.run_id, UNMEASURED)
        .exists()
        .label("lacks")
    )
    query = select(MemberRow.sweep_id, RunRow.state, lacks).join(
        RunRow, RunRow.run_id == MemberRow.run_id
    )
    if sweep_id is not None:
        query = query.where(MemberRow.sweep_id == sweep_id)
    seen = query.subquery()
    grouped = select(seen.c.sweep_id, seen.c.state, seen.c.lacks, func.count()).group_by(
        seen.c.sweep_id, seen.c.state, seen.c.lacks
    )
    counts: defaultdict[str, defaultdict[State, int]] = defaultdict(lambda: defaultdict(int))
    for owner, state, is_lacking, count in connection.execute(grouped):
        counts[owner][state if is_lacking else State.SUCCEEDED] += count
    return counts
