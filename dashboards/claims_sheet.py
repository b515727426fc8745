"""Claims as rows of text: statement, verdict, contrast with interval, n and p."""

from collections.abc import Sequence

from dashboards.sheets import Sheet
from dashboards.wording import MISSING, interval, signed
from sweeps.claims.judge import Judgement
from sweeps.claims.sentences import p_text, place, seeds_text


def claims_sheet(judgements: Sequence[Judgement]) -> Sheet:
    """Every claim of the sweep file, in its order."""
    return Sheet(
        key="claims",
        caption="Claims of the sweep file: contrast of gaps in nats per token with its t interval "
        "over seeds, noise of each model its own; n seeds of each model. Supported where the "
        "interval lies where the statement says, contradicted where it lies elsewhere. p is "
        "two-sided; the last p is Holm’s, adjusted for all claims together.",
        columns=(
            *("Claim", "Verdict", "#Contrast", "#Interval", "#Seeds", "#p", "#p by Holm"),
            *("Statement", "Where"),
        ),
        rows=tuple(
            (
                judgement.claim.name,
                judgement.verdict.value,
                *_numbers(judgement),
                p_text(judgement.p),
                p_text(judgement.p_holm),
                judgement.claim.statement,
                place(judgement.claim),
            )
            for judgement in judgements
        ),
    )


def _numbers(judgement: Judgement) -> tuple[str, ...]:
    part = judgement.decisive
    if part is None or part.estimate is None:
        return MISSING, MISSING, MISSING
    found, level = part.estimate, f"{100 * judgement.claim.level:g} %"
    ends = f"{interval(found.low, found.high)} {level}"
    return signed(found.value), ends, seeds_text(part.n_seeds)
