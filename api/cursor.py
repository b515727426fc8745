"""Pages over the list of sweeps by keyset: a cursor names the last sweep seen, not a position.

Sweeps submitted while someone turns pages are newer than every cursor, so no page loses or repeats
one. A cursor is the base64 of `created_at sweep_id` and means nothing to clients.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime

from orchestrator.summaries import SweepSummary
from sweeps.errors import InputError


def page(
    newest_first: Sequence[SweepSummary], cursor: str | None, limit: int
) -> tuple[Sequence[SweepSummary], str | None]:
    """At most `limit` sweeps after the cursor, and the cursor that goes on, None at the end.

    Raises:
        InputError: If the cursor is none that this function gave.
    """
    if cursor is None:
        rest = newest_first
    else:
        seen = _read(cursor)
        rest = [sweep for sweep in newest_first if _age(sweep) > seen]
    shown = rest[:limit]
    return shown, _write(shown[-1]) if len(rest) > limit else None


def _age(sweep: SweepSummary) -> tuple[float, str]:
    return -sweep.created_at.timestamp(), sweep.sweep_id


def _write(sweep: SweepSummary) -> str:
    text = f"{sweep.created_at.isoformat()} {sweep.sweep_id}"
    return urlsafe_b64encode(text.encode()).decode()


def _read(cursor: str) -> tuple[float, str]:
    try:
        moment, sweep_id = urlsafe_b64decode(cursor).decode().split(" ")
        return -datetime.fromisoformat(moment).timestamp(), sweep_id
    except ValueError as error:
        raise InputError(f"cursor = {cursor}: is none that this server gave") from error
