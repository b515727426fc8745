"""Fits that somebody asked for: each kept once, found by its id or the start of it.

The result is the JSON of `sweeps.tables.kept_fit`; the other columns are what a list shows. Its id
says what was asked, so the same fit again is no new row, and no row ever changes.
"""

import json
from datetime import datetime

from sqlalchemy import Connection, func, insert, select

from orchestrator.catalogue import SHOWN
from orchestrator.summaries import FitSummary
from orchestrator.tables import FitRow
from sweeps.errors import InputError, NotFoundError
from sweeps.fits.result import Fit
from sweeps.tables.kept_fit import fit_id, kept_fit, kept_json


def keep(connection: Connection, fit: Fit, source: str, now: datetime) -> str:
    """Keep a fit unless it is kept already.

    Args:
        connection: That writes.
        fit: What was fitted.
        source: Id of the sweep, or name of the file, that it was first fitted from.
        now: The moment.

    Returns:
        Its id.
    """
    identity = fit_id(fit)
    if connection.scalar(select(FitRow.fit_id).where(FitRow.fit_id == identity)) is None:
        connection.execute(
            insert(FitRow).values(
                fit_id=identity,
                label=fit.label,
                source=source,
                law=fit.law_name,
                status=fit.status.value,
                input_hash=fit.input_hash,
                method_version=fit.method_version,
                result=json.dumps(kept_json(fit), allow_nan=False),
                created_at=now,
            )
        )
    return identity


def fits(connection: Connection) -> tuple[FitSummary, ...]:
    """All of them, newest first."""
    shown = (
        FitRow.fit_id,
        FitRow.label,
        FitRow.source,
        FitRow.law,
        FitRow.status,
        FitRow.input_hash,
        FitRow.method_version,
        FitRow.created_at,
    )
    query = select(*shown).order_by(FitRow.created_at.desc(), FitRow.fit_id)
    return tuple(FitSummary(**row._mapping) for row in connection.execute(query))


def fit_of(connection: Connection, word: str) -> Fit:
    """The fit of this id or unique start of an id.

    Raises:
        NotFoundError: If there is none.
        InputError: If there are several.
    """
    start = func.substr(FitRow.fit_id, 1, len(word))
    found = connection.execute(
        select(FitRow.fit_id, FitRow.result).where(start == word).limit(SHOWN + 1)
    ).all()
    if not found or not word:
        raise NotFoundError(f"there is no fit {word!r}; `gridlaw fits` lists those that are kept")
    if len(found) > 1:
        some = ", ".join(row.fit_id for row in found[:SHOWN])
        raise InputError(f"fit {word!r} may be any of {some}; give the id")
    return kept_fit(json.loads(found[0].result))
