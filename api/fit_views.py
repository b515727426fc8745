"""What both front doors say about fits, as JSON: of a sweep, of a file, and those that are kept."""

from collections.abc import Sequence
from typing import Any

from pydantic import AwareDatetime

from api.schemas import View
from orchestrator.summaries import FitSummary
from sweeps.answer import CONVENTIONS
from sweeps.fit_json import Size, fit_json, sizes_of
from sweeps.fits.result import Fit
from sweeps.tables.kept_fit import fit_id


class FitsView(View):
    """Fits of a sweep or of a file, the baseline first, with status, verdict and intervals.

    One of `sweep_id` and `file` is null.
    """

    sweep_id: str | None
    file: str | None
    conventions: dict[str, str]
    fits: list[dict[str, Any]]

    @classmethod
    def of_sweep(cls, sweep_id: str, fits: Sequence[Fit], sizes: Sequence[Size]) -> "FitsView":
        """From the fits of a sweep whose models are these."""
        found = [_with_id(fit, sizes) for fit in fits]
        return cls(sweep_id=sweep_id, file=None, conventions=CONVENTIONS, fits=found)

    @classmethod
    def of_file(cls, file: str, fits: Sequence[Fit]) -> "FitsView":
        """From the fits of a file."""
        found = [_with_id(fit, sizes_of(fit)) for fit in fits]
        return cls(sweep_id=None, file=file, conventions=CONVENTIONS, fits=found)


class KeptFitView(View):
    """A kept fit in a list."""

    fit_id: str
    label: str
    source: str
    law: str
    status: str
    input_hash: str
    method_version: int
    created_at: AwareDatetime

    @classmethod
    def of(cls, summary: FitSummary) -> "KeptFitView":
        """From a summary."""
        return cls(
            fit_id=summary.fit_id,
            label=summary.label,
            source=summary.source,
            law=summary.law,
            status=summary.status,
            input_hash=summary.input_hash,
            method_version=summary.method_version,
            created_at=summary.created_at,
        )


class KeptFitsView(View):
    """Kept fits, newest first."""

    fits: list[KeptFitView]


def _with_id(fit: Fit, sizes: Sequence[Size]) -> dict[str, Any]:
    return {"fit_id": fit_id(fit)} | fit_json(fit, sizes)
