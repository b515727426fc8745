"""What `gridlaw claims FILE --json` prints."""

from collections.abc import Sequence
from typing import Any

from api.file_claim_tables import file_claim_sentences
from api.schemas import View
from sweeps.claims.claim_json import CLAIM_CONVENTIONS
from sweeps.plain import plain
from sweeps.tables.file_claims import FileJudgement

CONVENTIONS = {name: CLAIM_CONVENTIONS[name] for name in ("p", "p_holm")} | {
    "estimate": "the contrast of gaps, nats per token, at equal N, D and, where named, seed",
    "interval": "two-sided Student t at the level asked for, over what `over` says",
    "verdict": "supported: the interval lies where the statement says; contradicted: elsewhere; "
    "undecided: neither",
}


class FileClaimsView(View):
    """Every statement about a file with verdict, estimate, interval and p."""

    file: str
    baseline: str
    conventions: dict[str, str]
    claims: list[dict[str, Any]]

    @classmethod
    def of(cls, file: str, baseline: str, found: Sequence[FileJudgement]) -> "FileClaimsView":
        """From the judgements."""
        claims = [
            {
                "statement": one.text,
                "contrast": one.statement.contrast,
                "region": one.statement.region,
                "verdict": one.verdict,
                "level": one.level,
                "estimate": one.estimate,
                "over": one.over,
                "n_pairs": one.n_pairs,
                "n_cells": one.n_cells,
                "left_out": one.left_out,
                "p": one.p,
                "p_holm": one.p_holm,
                "holds_after_holm": one.holds_after_holm,
                "n_claims": one.n_claims,
                "detectable": one.detectable,
                "reason": one.reason,
                "sentences": tuple(file_claim_sentences(one)),
            }
            for one in found
        ]
        return cls(
            file=file,
            baseline=baseline,
            conventions=CONVENTIONS,
            claims=[plain(claim) for claim in claims],
        )
