"""What `gridlaw gaps FILE --json` prints."""

from typing import Any

from api.schemas import View
from sweeps.answer import CONVENTIONS
from sweeps.fit_json import fit_json, sizes_of
from sweeps.gap_json import without_draws
from sweeps.plain import plain
from sweeps.tables.file_gaps import FileGaps


class FileGapsView(View):
    """Every arm of a file against its baseline, with gaps, laws of them, worth, and rows left over.

    `law` is the fit to the baseline; `level` is that of the intervals and tests of gaps.
    """

    file: str
    baseline: str
    conventions: dict[str, str]
    level: float
    margin: float
    law: dict[str, Any]
    arms: list[dict[str, Any]]

    @classmethod
    def of(cls, file: str, found: FileGaps) -> "FileGapsView":
        """From the gaps of a file."""
        return cls(
            file=file,
            baseline=found.baseline,
            conventions=CONVENTIONS,
            level=found.level,
            margin=found.margin,
            law=fit_json(found.law, sizes_of(found.law)),
            arms=[plain(without_draws(arm)) for arm in found.arms],
        )
