"""Claims about the arms of a file, judged on the contrast of losses in paired rows.

    x      = sum_a w_a L_a - (sum_a w_a) L_baseline       at equal N, D and, where named, equal seed
    seeds  cells stay fixed, repeats inside each carry the noise (Welch and Satterthwaite)
    cells  one value for each (N, D), or for each group where groups are named: of cells like these

Only rows where every arm of the statement was measured enter; where the weights sum to zero the
baseline cancels and is not asked for. Estimate, p values, verdict and Holm's adjustment are those
of the claims of a sweep.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pandas import Series

from sweeps.claims.judge import Verdict, holm, two_sided, verdict_on
from sweeps.claims.parts import LEAST_SEEDS, Estimate, Part, estimated
from sweeps.claims.statement import Statement, parse_statement
from sweeps.errors import InputError
from sweeps.gaps.power import POWER, resolution
from sweeps.intervals import LEVEL, check_level
from sweeps.laws.law import Array
from sweeps.tables.paired_rows import CELL, PairedRows
from sweeps.tables.run_columns import spelt
from sweeps.tables.run_file import nearest
from sweeps.wording import listed, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJudgement:
    """A statement about a file and what its rows say of it.

    Attributes:
        text: As it was written.
        statement: What it states.
        verdict: At the level.
        level: Of the interval that decides.
        estimate: Of the contrast; None where it cannot be judged.
        over: What the interval is over, with its number; empty without one.
        n_pairs: Rows of the contrast.
        n_cells: Distinct (N, D) of them.
        left_out: The (N, D) at which some arm of the statement was measured, but not all.
        p: Two-sided; None without an estimate.
        p_holm: The same, adjusted over all statements.
        n_claims: How many those are.
        detectable: Distance from the boundary that as many repeats show in 80 % of cases, nats per
            token; None where the verdict is decided or there is no estimate.
        reason: Why it is undecided; else empty.
    """

    text: str
    statement: Statement
    verdict: Verdict
    level: float
    estimate: Estimate | None
    over: str
    n_pairs: int
    n_cells: int
    left_out: tuple[tuple[float, float], ...]
    p: float | None
    p_holm: float | None
    n_claims: int
    detectable: float | None
    reason: str

    @property
    def holds_after_holm(self) -> bool:
        """Whether the verdict stands after the adjustment for all statements."""
        decided = self.verdict is not Verdict.UNDECIDED
        return decided and self.p_holm is not None and self.p_holm < 1 - self.level


def judge_file(
    paired: PairedRows, texts: Sequence[str], *, level: float = LEVEL
) -> tuple[FileJudgement, ...]:
    """A judgement of every statement, in their order.

    Args:
        paired: Rows of the file.
        texts: Statements about its arms, as in `sweeps.claims.statement`.
        level: Of the two-sided intervals that decide.

    Raises:
        InputError: If a statement makes none, or names an arm that the file does not have.
    """
    check_level(level)
    statements = [_read(text, paired) for text in texts]
    found = [_evidence(paired, statement, level) for statement in statements]
    values = [two_sided([one.part]) for one in found]
    return tuple(
        _judgement(text, statement, one, p, p_holm, level, len(texts))
        for text, statement, one, p, p_holm in zip(
            texts, statements, found, values, holm(values), strict=True
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """The rows of one contrast."""

    part: Part
    over: str
    n_pairs: int
    n_cells: int
    left_out: tuple[tuple[float, float], ...]


def _read(text: str, paired: PairedRows) -> Statement:
    try:
        statement = parse_statement(text)
    except ValueError as error:
        raise InputError(f"statement = {text}: {error}") from error
    for arm in statement.recipes:
        name = spelt(arm, paired.arms)
        if spelt(arm, [paired.baseline]) == paired.baseline:
            raise InputError(
                f"statement = {text}: names {arm}, whose gap to itself is 0 everywhere"
            )
        if name not in paired.arms:
            raise InputError(
                f"statement = {text}: no row is of arm {arm}{nearest(arm, paired.arms)}"
            )
    return statement


def _evidence(paired: PairedRows, statement: Statement, level: float) -> _Evidence:
    weights: dict[str, float] = {}
    for arm, weight in statement.weights:
        name = spelt(arm, paired.arms)
        weights[name] = weights.get(name, 0.0) + weight
    if statement.bf16_weight:
        weights[paired.baseline] = statement.bf16_weight
    losses = paired.losses(tuple(weights))
    contrast = sum(weight * losses[arm] for arm, weight in weights.items())
    assert isinstance(contrast, Series)
    cells = _cells(contrast)
    seen = {cell for arm in weights for cell in zip(*_columns(paired, arm), strict=True)}
    values, over = _repeats(paired, contrast)
    reason = _unjudged(paired, weights, values)
    return _Evidence(
        part=Part(
            strata=(),
            estimate=None if reason else estimated(values, statement, level),
            reason=reason,
        ),
        over="" if reason else over,
        n_pairs=len(contrast),
        n_cells=len(cells),
        left_out=tuple(sorted(seen - cells)),
    )


def _repeats(paired: PairedRows, contrast: Series) -> tuple[list[Array], str]:
    """By stratum the contrast in each repeat, and what an interval of them is over."""
    if paired.by_group:
        means = contrast.groupby(level="group").mean().to_numpy()
        return [means], plural(len(means), "group")
    by_cell = contrast.groupby(level=CELL)
    if not paired.by_seed:
        means = by_cell.mean().to_numpy()
        return [means], plural(len(means), "cell")
    seeds = [own.to_numpy() for _, own in by_cell]
    counts = sorted({len(own) for own in seeds}) or [0]
    each = plural(counts[-1], "seed")
    number = each if len(counts) == 1 else f"{counts[0]} to {each}"
    return seeds, f"{number} in each of {plural(len(seeds), 'cell')}"


def _unjudged(paired: PairedRows, arms: Collection[str], values: Sequence[Array]) -> str:
    """Why a contrast cannot be judged; empty if it can."""
    lost = dict.fromkeys(
        f"{item.arm} at N = {item.N:g}, D = {item.tokens:g}"
        for item in paired.excluded
        if item.is_diverged and item.arm in arms
    )
    if lost:
        return f"a run of it diverged ({listed([*lost])}), and the others are survivors"
    if not any(map(len, values)):
        return f"no cell holds all of {listed([*arms])}"
    few = sum(len(own) < LEAST_SEEDS for own in values)
    if not few:
        return ""
    if paired.by_seed and not paired.by_group:
        return (
            f"needs {LEAST_SEEDS} complete seeds in every cell, and {few} of "
            f"{plural(len(values), 'cell')} {'has' if few == 1 else 'have'} fewer; without "
            "--seed-col cells are the repeats"
        )
    return f"one {'group' if paired.by_group else 'cell'} says nothing of its own noise"


def _judgement(
    text: str,
    statement: Statement,
    found: _Evidence,
    p: float | None,
    p_holm: float | None,
    level: float,
    n_claims: int,
) -> FileJudgement:
    estimate = found.part.estimate
    verdict = verdict_on([found.part], level)
    is_open = verdict is Verdict.UNDECIDED
    across = "its interval reaches across the boundary of the statement"
    return FileJudgement(
        text=text,
        statement=statement,
        verdict=verdict,
        level=level,
        estimate=estimate,
        over=found.over,
        n_pairs=found.n_pairs,
        n_cells=found.n_cells,
        left_out=found.left_out,
        p=p,
        p_holm=p_holm,
        n_claims=n_claims,
        detectable=resolution(max(1, int(estimate.df)), level, POWER) * estimate.se
        if is_open and estimate is not None
        else None,
        reason=(found.part.reason or across) if is_open else "",
    )


def _cells(contrast: Series) -> set[tuple[float, float]]:
    places = (contrast.index.get_level_values(name).tolist() for name in CELL)
    return set(zip(*places, strict=True))


def _columns(paired: PairedRows, arm: str) -> tuple[list[float], list[float]]:
    rows = paired.of(arm)
    return rows["N"].tolist(), rows["D"].tolist()
