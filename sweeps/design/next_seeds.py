"""The runs that would decide a claim, and how many of them a budget pays for.

Which seeds of which recipes and models they are says `sweeps.claims.deciding`; what a claim rests
on is seeds, as its models and budgets are those of the sweep.
"""

from dataclasses import dataclass

from sweeps.budget import format_flops
from sweeps.claims.judge import Judgement, Verdict
from sweeps.claims.sentences import sentences
from sweeps.design.wanted import to_spend
from sweeps.wording import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSeeds:
    """What would decide a claim.

    Attributes:
        judgement: What the runs say now, with those that are wanted.
        budget: FLOPs that may be spent; None for as many as it takes.
        paid: Of the new seeds, how many the budget pays for; None without a budget or new seeds.
        sentences: For people.
    """

    judgement: Judgement
    budget: float | None
    paid: int | None
    sentences: tuple[str, ...]


def next_seeds(judgement: Judgement, budget: float | None = None) -> NextSeeds:
    """The runs that would decide a claim.

    Args:
        judgement: Of the claim.
        budget: FLOPs to spend.

    Raises:
        InputError: If the budget is not positive.
    """
    wanted, words = judgement.wanted, list(sentences(judgement))
    paid, budget = None, None if budget is None else to_spend(budget)
    if wanted is None:
        words.append(
            "No run is suggested: the claim is decided."
            if judgement.verdict is not Verdict.UNDECIDED
            else "No run is suggested: no number of seeds would decide it."
        )
    elif budget is not None and wanted.new_seeds and wanted.flops > 0:
        seeds = len(wanted.new_seeds)
        paid = min(seeds, int(budget / wanted.flops * seeds))
        words.append(
            f"{format_flops(budget)} pay for {paid} of the {plural(seeds, 'new seed')}, each about "
            f"{format_flops(wanted.flops / seeds)}."
        )
    return NextSeeds(judgement=judgement, budget=budget, paid=paid, sentences=tuple(words))
