"""What both front doors say about planning, as JSON."""

from typing import Any

from api.schemas import View
from sweeps.claims.claim_json import judgements_json
from sweeps.design.advice import resolution_line
from sweeps.design.next_seeds import NextSeeds
from sweeps.design.resolving import Resolution
from sweeps.design.suggested import NextCells
from sweeps.plain import plain

NEXT_CONVENTIONS = {
    "unit": "of guess and half_width; empty for a constant of the law",
    "guess": "the quantity at the constants that are reckoned with",
    "half_width": "of the 95 % interval that the runs are expected to give; null where they do not "
    "determine the quantity, with the reason",
    "flops": "of the runs of a suggestion, beside what is planned and suggested before it",
    "bend": "what a law misses for each unit of ln-distance from the place, nats per token",
    "N": "non-embedding parameters",
    "D": "training tokens",
}
POWER_CONVENTIONS = {
    "at_one": "smallest gap found with the power at one model and budget, nats per token",
    "at_mean": "the same of the mean over models",
    "distance": "of a claim's contrast from its boundary, at which it is decided with the power",
    "interval": "two-sided t over seeds; budgets of one run share its trunk and add nothing",
}


class NextView(View):
    """Runs to make next: cells for a quantity, or seeds for a claim; the other is null."""

    sweep_id: str
    conventions: dict[str, str]
    cells: dict[str, Any] | None
    claim: dict[str, Any] | None

    @classmethod
    def of(cls, sweep_id: str, found: NextCells | NextSeeds) -> "NextView":
        """From the answer."""
        cells, claim = None, None
        match found:
            case NextCells():
                cells = plain(found)
            case NextSeeds():
                (judged,) = judgements_json([found.judgement])
                claim = judged | {"budget": found.budget, "paid_seeds": found.paid}
                claim |= {"sentences": list(found.sentences)}
        return cls(sweep_id=sweep_id, conventions=NEXT_CONVENTIONS, cells=cells, claim=claim)


class PowerView(View):
    """What the seeds of a sweep will resolve, and each of its claims."""

    conventions: dict[str, str]
    sentence: str
    power: dict[str, Any]

    @classmethod
    def of(cls, found: Resolution) -> "PowerView":
        """From the answer."""
        return cls(
            conventions=POWER_CONVENTIONS, sentence=resolution_line(found), power=plain(found)
        )
