"""What both front doors say about the gaps of a sweep, as JSON."""

from typing import Any

from api.schemas import View
from sweeps.answer import CONVENTIONS, Answer
from sweeps.gap_json import formats_json, gaps_json, row_json


class GapsView(View):
    """Every planned endpoint, paired gaps, what has no pair, and each recipe's gap and worth.

    Beside them whether the gaps of parts add up to that of the whole, and published laws against
    the measured gaps: their sizes, their order of the recipes, and their signs.
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
    additivity: list[dict[str, Any]]
    predicted: list[dict[str, Any]]
    orders: list[dict[str, Any]]
    signs: list[dict[str, Any]]

    @classmethod
    def of(cls, sweep_id: str, answer: Answer) -> "GapsView":
        """From an answer."""
        return cls(
            sweep_id=sweep_id,
            conventions=CONVENTIONS,
            headline=list(answer.headline),
            endpoints=[row_json(row) for row in answer.rows],
            **formats_json(answer.formats),
            **gaps_json(answer.gaps),
        )
