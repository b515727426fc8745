"""What `gridlaw claims FILE` prints for people: a table of all statements, then each in words."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from api.terminal import MISSING, heading, number, plain_table
from sweeps.claims.judge import Verdict
from sweeps.claims.sentences import p_text
from sweeps.gaps.power import POWER
from sweeps.tables.file_claims import FileJudgement
from sweeps.wording import plural

Lines = Iterator[RenderableType]


def file_claim_lines(found: Sequence[FileJudgement], baseline: str) -> Lines:
    """The verdicts at a glance, then what each rests on."""
    verdicts = [one.verdict for one in found]
    split = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict)
    yield f"{plural(len(found), 'claim')} on gaps to {baseline}: {split}."
    yield ""
    level = f"{100 * found[0].level:.4g} %"
    yield heading(f"Nats per token, {level} t interval; p two-sided, and by Holm")
    table = plain_table(
        left=("claim", "verdict"), right=("value", "low", "high", "p", "Holm", "over")
    )
    for one in found:
        estimate = one.estimate
        ends = () if estimate is None else (estimate.value, estimate.low, estimate.high)
        table.add_row(
            one.text,
            one.verdict.value,
            *((number(value, "+.4f") for value in ends) if ends else [MISSING] * 3),
            p_text(one.p),
            p_text(one.p_holm),
            one.over or MISSING,
        )
    yield table
    for one in found:
        yield ""
        yield heading(f"{one.text}: {one.verdict}")
        yield from file_claim_sentences(one)


def file_claim_sentences(one: FileJudgement) -> Iterator[str]:
    """A judgement in words."""
    if one.estimate is not None:
        yield (
            f"{one.statement.contrast} = {one.estimate.value:+.4f} nats per token, claimed to be "
            f"{one.statement.region}; {100 * one.level:.4g} % t interval over {one.over} "
            f"{one.estimate.low:+.4f} to {one.estimate.high:+.4f}, "
            f"n = {plural(one.n_pairs, 'pair')} in {plural(one.n_cells, 'cell')}; p "
            f"{p_text(one.p)}, by Holm over {plural(one.n_claims, 'claim')} {p_text(one.p_holm)}."
        )
    if one.verdict is Verdict.UNDECIDED:
        yield f"Undecided: {one.reason}."
    if one.detectable is not None:
        yield (
            f"As many ({one.over}) show a distance of {one.detectable:.4f} nats from the boundary "
            f"in {100 * POWER:g} % of cases."
        )
    if one.left_out:
        yield (
            f"{plural(len(one.left_out), 'cell')} left out, where not every arm of the statement "
            "was measured."
        )
