"""What both front doors say about the gaps of a sweep, as JSON."""

from typing import Any

from api.schemas import View
from sweeps.answer import CONVENTIONS, Answer
from sweeps.gap_json import effective_json, gaps_json, row_json


class GapsView(View):
    """Every planned endpoint, paired gaps, what has no pair, and each recipe's gap and worth.

    `level` is that of intervals and tests, `margin` the nats per token within which the equivalence
    test counts a gap as none.
    """

    sweep_id: str
    conventions: dict[str, str]
    headline: list[str]
    level: float
    margin: float
    endpoints: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    unpaired: list[dict[str, Any]]
    summaries: list[dict[str, Any]]
    effective: list[dict[str, Any]]

    @classmethod
    def of(cls, sweep_id: str, answer: Answer) -> "GapsView":
        """From an answer."""
        return cls(
            sweep_id=sweep_id,
            conventions=CONVENTIONS,
            headline=list(answer.headline),
            endpoints=[row_json(row) for row in answer.rows],
            effective=effective_json(answer.formats.effective),
            **gaps_json(answer.gaps),
        )
