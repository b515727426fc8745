"""What `gridlaw claims` prints for people: a table of all claims, then each in words."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table

from api.terminal import heading, number, plain_table
from sweeps.claims.judge import Judgement
from sweeps.claims.sentences import counted, p_text, place, seeds_text, sentences

Lines = Iterator[RenderableType]


def claim_lines(sweep_id: str, judgements: Sequence[Judgement]) -> Lines:
    """The verdicts at a glance, then what each is about and what it rests on."""
    if not judgements:
        yield (
            f"Sweep {sweep_id} has no claims; write them under the key claims of its sweep file "
            "and submit it again, which trains nothing anew."
        )
        return
    yield from verdict_lines(judgements)
    for judgement in judgements:
        claim = judgement.claim
        yield ""
        yield heading(f"{claim.name}: {judgement.verdict}")
        yield f"{claim.statement} ({place(claim)})"
        yield from sentences(judgement)


def verdict_lines(judgements: Sequence[Judgement]) -> Lines:
    """How many claims came out how, and each in a line."""
    yield counted(judgements)
    yield ""
    parts = [part for judgement in judgements for part in judgement.parts]
    seeds = [number for part in parts for number in part.n_seeds]
    n = f", n = {seeds_text(seeds)}" if seeds else ""
    yield heading(f"Nats per token, t interval over seeds{n}; p two-sided, and by Holm")
    yield _table(judgements)


def _table(judgements: Sequence[Judgement]) -> Table:
    table = plain_table(left=("claim", "verdict"), right=("value", "low", "high", "p", "Holm"))
    for judgement in judgements:
        table.add_row(judgement.claim.name, judgement.verdict.value, *_numbers(judgement))
    return table


def _numbers(judgement: Judgement) -> tuple[str, ...]:
    part = judgement.decisive
    found = None if part is None else part.estimate
    ends = (None, None, None) if found is None else (found.value, found.low, found.high)
    return (
        *(number(value, "+.4f") for value in ends),
        p_text(judgement.p),
        p_text(judgement.p_holm),
    )
