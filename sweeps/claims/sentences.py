"""Sentences: a judgement in words, with unit, n, interval and what the interval is over."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sweeps.budget import format_flops, format_tokens
from sweeps.claims.contrasts import Absent
from sweeps.claims.deciding import MOST_SEEDS, Wanted
from sweeps.claims.judge import Judgement, Verdict
from sweeps.claims.parts import LEAST_SEEDS, Part
from sweeps.claims.section import Budgets, ClaimSection, Models
from sweeps.gaps.power import POWER
from sweeps.runspec import Seeds
from sweeps.wording import listed, plural

STREAMS = 4
AT_MODELS = {
    Models.EACH: "each model",
    Models.MEAN: "mean over models",
    Models.LARGEST: "largest model",
}
AT_BUDGETS = {
    Budgets.EACH: "each budget",
    Budgets.MEAN: "mean over budgets",
    Budgets.LONGEST: "longest budget",
}
ROLE = {
    Verdict.SUPPORTED: "weakest",
    Verdict.UNDECIDED: "weakest",
    Verdict.CONTRADICTED: "strongest against it",
}


def place(claim: ClaimSection) -> str:
    """`each model, longest budget`."""
    return f"{AT_MODELS[claim.models]}, {AT_BUDGETS[claim.budgets]}"


def sentences(judgement: Judgement) -> tuple[str, ...]:
    """What the runs say of a claim, and what is still missing."""
    return tuple(_sentences(judgement))


def counted(judgements: Sequence[Judgement]) -> str:
    """`13 claims: 8 supported, 1 contradicted, 4 undecided. 7 of 9 verdicts stand after ...`."""
    verdicts = [judgement.verdict for judgement in judgements]
    split = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in Verdict)
    decided = len(verdicts) - verdicts.count(Verdict.UNDECIDED)
    standing = sum(judgement.holds_after_holm for judgement in judgements)
    adjusted = (
        f" {standing} of {plural(decided, 'verdict')} {'stands' if standing == 1 else 'stand'} "
        "after Holm's adjustment for all the claims together."
    )
    return f"{plural(len(judgements), 'claim')}: {split}.{adjusted if decided else ''}"


def seeds_text(numbers: Collection[int]) -> str:
    """`6 seeds`, `2 to 6 seeds`."""
    least, most = min(numbers), max(numbers)
    return plural(most, "seed") if least == most else f"{least} to {plural(most, 'seed')}"


def where(part: Part) -> str:
    """`200k at 3.46Mtok`, `mean of 50k, 100k and 200k`."""
    if len(part.strata) > 1:
        return f"mean of {listed(part.models)}"
    return ", ".join(
        f"{stratum.model} at {listed([format_tokens(one) for one in stratum.tokens])}"
        for stratum in part.strata
    )


def p_text(value: float | None) -> str:
    """`0.032`, `<0.0001`, or a dash."""
    if value is None:
        return "-"
    return "<0.0001" if value < 1e-4 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _sentences(judgement: Judgement) -> Iterator[str]:
    part = judgement.decisive
    if part is not None and part.estimate is not None:
        yield _estimate(judgement, part)
    if judgement.verdict is Verdict.UNDECIDED:
        yield f"Undecided: {judgement.reason}."
    if len(judgement.varied) < STREAMS and judgement.varied:
        yield f"Its seeds differ in {listed(judgement.varied)} alone, and so does the interval."
    yield from _missing(judgement.absent)
    if judgement.verdict is not Verdict.UNDECIDED and judgement.absent:
        yield "Provisional: the verdict is that of the seeds at hand and may change with the rest."
    if judgement.wanted is not None:
        yield _wanted(judgement.wanted)


def _estimate(judgement: Judgement, part: Part) -> str:
    assert part.estimate is not None
    found, claim = part.estimate, judgement.claim
    statement = claim.parsed()
    role = f"{ROLE[judgement.verdict]}, " if len(judgement.parts) > 1 else ""
    each = " of each model" if len(part.strata) > 1 else ""
    return (
        f"{statement.contrast} = {found.value:+.4f} nats per token, claimed to be "
        f"{statement.region} ({role}{where(part)}); "
        f"{100 * claim.level:g} % t interval over seeds {found.low:+.4f} to {found.high:+.4f}, "
        f"n = {seeds_text(part.n_seeds)}{each}; p {_p(judgement.p)}, by Holm over "
        f"{plural(judgement.n_claims, 'claim')} {_p(judgement.p_holm)}."
    )


def _p(value: float | None) -> str:
    text = p_text(value)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def _missing(absent: Sequence[Absent]) -> Iterator[str]:
    if not absent:
        return
    seeds: defaultdict[tuple[str, str], defaultdict[str, set[Seeds]]]
    seeds = defaultdict(lambda: defaultdict(set))
    for one in absent:
        seeds[one.recipe, one.reason][one.model].add(one.seeds)
    recipes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (recipe, reason), models in seeds.items():
        recipes[_seeds_at(models), reason].append(recipe)
    words = [f"{listed(own)} {which} ({reason})" for (which, reason), own in recipes.items()]
    yield f"Without a loss: {'; '.join(words)}."


def _seeds_at(models: Mapping[str, Collection[Seeds]]) -> str:
    """`s3 to s5 at 50k, s4 and s5 at 100k and 200k`."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for model, seeds in models.items():
        alike[_seeds_listed(seeds)].append(model)
    return ", ".join(f"{seeds} at {listed(own)}" for seeds, own in alike.items())


def _seeds_listed(seeds: Collection[Seeds]) -> str:
    """Labels in order, three and more in a row of plain ones as `s3 to s5`."""
    rows: list[list[Seeds]] = []
    for one in sorted(seeds, key=lambda own: (own.init, own.data, own.sr, own.rht)):
        last = rows[-1][-1] if rows else None
        if last is not None and _is_next(last, one):
            rows[-1].append(one)
        else:
            rows.append([one])
    return listed(
        [
            word
            for row in rows
            for word in (
                [f"{row[0].label} to {row[-1].label}"]
                if len(row) > 2
                else [one.label for one in row]
            )
        ]
    )


def _is_next(last: Seeds, one: Seeds) -> bool:
    return one == _plain(one.init) and last == _plain(one.init - 1)


def _plain(seed: int) -> Seeds:
    return Seeds(init=seed, data=seed, sr=seed, rht=seed)


def _wanted(wanted: Wanted) -> str:
    waiting = plural(wanted.unfinished, "run")
    have = "has" if wanted.unfinished == 1 else "have"
    first = f"{waiting} of it {have} no loss yet. " if wanted.unfinished else ""
    return f"{first}{_more(wanted)}"


def _more(wanted: Wanted) -> str:
    often = f"in {100 * POWER:g} % of cases"
    add = _added(wanted) if wanted.new_seeds else ""
    if wanted.detectable is None:
        more = f": {add}" if add else ""
        return (
            f"How many seeds would decide it can be said once {LEAST_SEEDS} of each model are "
            f"there{more}."
        )
    shown = (
        f" The {plural(wanted.n_seeds, 'seed')} at hand would show a distance of "
        f"{wanted.detectable:.4f} nats from the boundary {often}."
    )
    if wanted.n_needed is None:
        return (
            f"The estimate is so close to the boundary that more than {MOST_SEEDS:,} seeds would "
            f"be needed to decide it.{shown}"
        )
    if not add:
        return f"Those decide it {often} if it is as it looks now.{shown}"
    return f"If it is as it looks now, {wanted.n_needed} seeds decide it {often}: {add}.{shown}"


def _added(wanted: Wanted) -> str:
    first, last = wanted.new_seeds[0].init, wanted.new_seeds[-1].init
    seeds = f"seed {first}" if first == last else f"seeds {first} to {last}"
    runs = f"{plural(wanted.runs, 'run')}, {format_flops(round(wanted.flops))}"
    return f"add {seeds} of {listed(wanted.recipes)} at {listed(wanted.models)} ({runs})"
