"""Judgements as plain values: what REST and `--json` give out, never a bare NaN."""

from collections.abc import Sequence
from typing import Any

from sweeps.claims.contrasts import Absent
from sweeps.claims.judge import Judgement
from sweeps.claims.parts import Part
from sweeps.claims.sentences import place, sentences
from sweeps.plain import plain

CLAIM_CONVENTIONS = {
    "estimate": "the contrast of gaps, nats per token, from losses of equal seeds",
    "interval": "two-sided Student t over seeds at the level of the claim, each model with its own "
    "noise, degrees by Satterthwaite; models and budgets are those of the sweep",
    "verdict": "supported: every part's interval lies where the claim says; contradicted: that of "
    "one part, corrected for their number, lies elsewhere; undecided: neither",
    "p": "two-sided, of the boundary of the claim; below 1 - level where the verdict is decided",
    "p_holm": "p adjusted by Holm over all claims of the sweep",
    "wanted": "runs that would decide in 80 % of cases if difference and noise are as measured",
}


def judgements_json(judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Every claim with what came of it, in the order of the sweep file."""
    return [_judgement(judgement) for judgement in judgements]


def _judgement(judgement: Judgement) -> dict[str, Any]:
    claim, statement = judgement.claim, judgement.claim.parsed()
    values: dict[str, Any] = {
        **claim.model_dump(mode="json"),
        "contrast": statement.contrast,
        "region": statement.region,
        "place": place(claim),
        "verdict": judgement.verdict,
        "reason": judgement.reason,
        "p": judgement.p,
        "p_holm": judgement.p_holm,
        "holds_after_holm": judgement.holds_after_holm,
        "n_claims": judgement.n_claims,
        "is_complete": judgement.is_complete,
        "varied_streams": judgement.varied,
        "decisive": None if judgement.decisive is None else _part(judgement.decisive),
        "parts": [_part(part) for part in judgement.parts],
        "absent": [_absent(one) for one in judgement.absent],
        "wanted": judgement.wanted,
        "sentences": sentences(judgement),
    }
    return {name: plain(value) for name, value in values.items()}


def _part(part: Part) -> dict[str, Any]:
    return {
        "estimate": part.estimate,
        "reason": part.reason,
        "models": [
            {
                "model": stratum.model,
                "N": stratum.N,
                "tokens": stratum.tokens,
                "seeds": stratum.seeds,
                "values": stratum.values,
            }
            for stratum in part.strata
        ],
    }


def _absent(one: Absent) -> dict[str, Any]:
    values: dict[str, Any] = plain(one)
    return values
