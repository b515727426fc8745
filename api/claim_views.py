"""What both front doors say about the claims of a sweep, as JSON."""

from collections.abc import Sequence
from typing import Any

from api.schemas import View
from sweeps.claims.claim_json import CLAIM_CONVENTIONS, judgements_json
from sweeps.claims.judge import Judgement


class ClaimsView(View):
    """Every claim of a sweep with verdict, estimates, p and the runs that would decide it."""

    sweep_id: str
    conventions: dict[str, str]
    claims: list[dict[str, Any]]

    @classmethod
    def of(cls, sweep_id: str, judgements: Sequence[Judgement]) -> "ClaimsView":
        """From the judgements."""
        return cls(
            sweep_id=sweep_id,
            conventions=CLAIM_CONVENTIONS,
            claims=judgements_json(judgements),
        )
