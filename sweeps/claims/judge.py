"""Judge: the verdict on every claim of a sweep, and which runs would decide the open ones.

    supported      every part's interval lies where the statement says     (intersection-union test)
    contradicted   some part's interval of level 1 - (1 - level) / k, of k parts, lies elsewhere
    undecided      neither, or a part that matters cannot be judged yet

A claim about each model holds only if it holds at all of them, so that all parts must pass and none
is corrected for the others (Berger, Technometrics 24, 295, 1982); one part refutes it, and there
the Bonferroni correction over the parts is due.

    p        two-sided: 2 min(max over parts of p_for, k min over parts of p_against), at most 1
    p_holm   Holm's step-down adjustment of p over all claims of the sweep (Scand. J. Stat. 6, 65,
             1979): below 1 - level where the verdict stands whatever the other claims are
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from sweeps.claims.contrasts import Absent, Board, varying_streams
from sweeps.claims.deciding import Wanted, wanted
from sweeps.claims.parts import Part, parts_of, unjudged
from sweeps.claims.section import ClaimSection
from sweeps.errors import InputError
from sweeps.records import RunRecord
from sweeps.wording import listed


class Verdict(StrEnum):
    """What the runs say of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A claim and what came of it.

    Attributes:
        claim: As it was written.
        verdict: At the level of the claim.
        parts: Where it must hold; empty before the first run.
        decisive: The part that the verdict hangs on: of a supported or open claim the weakest, of a
            contradicted one the strongest against it. None while no part has an estimate.
        p: Two-sided p of the claim; None while no part that it needs has an estimate.
        p_holm: The same, adjusted over all claims of the sweep.
        n_claims: How many those are.
        absent: Endpoints that the claim asks for and that have no loss, each once.
        varied: Seed streams that differ between the seeds: what the intervals are over.
        wanted: Runs that would decide; None where the verdict is decided.
        reason: Why it is undecided; else empty.
    """

    claim: ClaimSection
    verdict: Verdict
    parts: tuple[Part, ...]
    decisive: Part | None
    p: float | None
    p_holm: float | None
    n_claims: int
    absent: tuple[Absent, ...]
    varied: tuple[str, ...]
    wanted: Wanted | None
    reason: str

    @property
    def is_complete(self) -> bool:
        """Whether every endpoint that it asks for was measured."""
        return bool(self.parts) and not self.absent

    @property
    def holds_after_holm(self) -> bool:
        """Whether the verdict stands after the adjustment for all claims."""
        decided = self.verdict is not Verdict.UNDECIDED
        return decided and self.p_holm is not None and self.p_holm < 1 - self.claim.level


def judge(claims: Sequence[ClaimSection], records: Iterable[RunRecord]) -> tuple[Judgement, ...]:
    """A judgement of every claim, in the order of the claims.

    Args:
        claims: Of the sweep.
        records: Its runs, in any state.

    Raises:
        InputError: If the records are not those of one sweep.
    """
    board = Board(records)
    found = [tuple(parts_of(claim, board)) for claim in claims]
    values = [two_sided(parts) for parts in found]
    adjusted = holm(values)
    return tuple(
        _judgement(claim, parts, p, p_holm, board, len(claims))
        for claim, parts, p, p_holm in zip(claims, found, values, adjusted, strict=True)
    )


def named(judgements: Sequence[Judgement], names: Sequence[str]) -> tuple[Judgement, ...]:
    """Those of these names in the order of the names; all where none is given.

    Raises:
        InputError: If no claim has one of the names.
    """
    known = {judgement.claim.name: judgement for judgement in judgements}
    for name in names:
        if name not in known:
            if not known:
                raise InputError(f"claim = {name}: the sweep file makes no claims")
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the claims are {listed([*known])}"
            raise InputError(f"claim = {name}: the sweep has no claim of this name; {hint}")
    return tuple(known[name] for name in names) if names else tuple(judgements)


def verdict_on(parts: Sequence[Part], level: float) -> Verdict:
    """What the parts of a claim say together."""
    estimates = [part.estimate for part in parts]
    error = 1 - level
    if any(one and 2 * len(parts) * one.p_against < error for one in estimates):
        return Verdict.CONTRADICTED
    if parts and all(one and 2 * one.p_for < error for one in estimates):
        return Verdict.SUPPORTED
    return Verdict.UNDECIDED


def two_sided(parts: Sequence[Part]) -> float | None:
    """The p of a claim from those of its parts; None where it has no meaning yet."""
    estimates = [part.estimate for part in parts if part.estimate is not None]
    if not estimates:
        return None
    against = len(parts) * min(one.p_against for one in estimates)
    whole = len(estimates) == len(parts)
    for_it = max(one.p_for for one in estimates) if whole else 1.0
    return min(1.0, 2 * min(for_it, against))


def holm(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm's adjusted p values; what has none counts in their number as if it were 1."""
    number = len(values)
    order = sorted((value, index) for index, value in enumerate(values) if value is not None)
    adjusted: dict[int, float] = {}
    largest = 0.0
    for rank, (value, index) in enumerate(order):
        largest = max(largest, min(1.0, (number - rank) * value))
        adjusted[index] = largest
    return tuple(adjusted.get(index) for index in range(number))


def _judgement(
    claim: ClaimSection,
    parts: tuple[Part, ...],
    p: float | None,
    p_holm: float | None,
    board: Board,
    n_claims: int,
) -> Judgement:
    verdict = verdict_on(parts, claim.level)
    is_open = verdict is Verdict.UNDECIDED
    seeds = [one for part in parts for stratum in part.strata for one in stratum.seeds]
    return Judgement(
        claim=claim,
        verdict=verdict,
        parts=parts,
        decisive=_decisive(parts, verdict),
        p=p,
        p_holm=p_holm,
        n_claims=n_claims,
        absent=tuple(dict.fromkeys(one for part in parts for one in part.absent)),
        varied=varying_streams(seeds),
        wanted=wanted(claim, parts, board) if is_open else None,
        reason=_why(parts) if is_open else "",
    )


def _decisive(parts: Sequence[Part], verdict: Verdict) -> Part | None:
    known = [(part.estimate, part) for part in parts if part.estimate is not None]
    if not known:
        return None
    if verdict is Verdict.CONTRADICTED:
        return min(known, key=lambda pair: pair[0].p_against)[1]
    return max(known, key=lambda pair: pair[0].p_for)[1]


def _why(parts: Sequence[Part]) -> str:
    if not parts:
        return "no run of the sweep is known"
    shapeless = dict.fromkeys(part.reason for part in parts if not part.strata)
    unknown = unjudged([stratum for part in parts for stratum in part.strata])
    reasons = [reason for reason in (*shapeless, unknown) if reason]
    return "; ".join(reasons) or "an interval reaches across the boundary of the statement"
