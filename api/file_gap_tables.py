"""What `gridlaw gaps FILE` prints for people: gaps of each arm, their laws, worth, what has none.

Gaps are in nats per token, positive where the baseline is better; a dash stands for what is not
there.
"""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from api.terminal import MISSING, heading, number, plain_table
from sweeps.effective.result import Effective, Multiplier
from sweeps.fits.gap_result import FORMULAS, GapFit, GapForm
from sweeps.tables.file_gaps import ArmGap, FileGaps
from sweeps.tables.run_columns import is_reference
from sweeps.wording import listed, plural

Lines = Iterator[RenderableType]

LISTED = 20
"""Lines of endpoints without a gap before the rest is counted."""


def file_gap_lines(found: FileGaps) -> Lines:
    """The arms with their gaps, the laws of them, what they are worth, and what has no gap."""
    yield from _arms(found)
    yield from _laws([arm.effective for arm in found.arms if arm.effective is not None])
    yield from _worth(found)
    yield from _floors(found.arms)
    yield from _alone(found.arms)


def _arms(found: FileGaps) -> Lines:
    level = f"{100 * found.level:.4g} %"
    yield heading(f"Gap to {found.baseline}: mean over pairs, nats per token, {level} t interval")
    yield f"at {found.margin:g}: equivalence test at that margin; wins: pairs the baseline wins"
    table = plain_table(
        left=("arm",), right=("pairs", "cells", "gap", "low", "high", "gap %", "wins", "no pair")
    )
    table.add_column(f"at {found.margin:g}")
    table.add_column("over", overflow="fold")
    for arm in found.arms:
        sure = arm.certainty
        table.add_row(
            arm.label,
            str(arm.n_pairs),
            str(arm.n_cells),
            number(arm.mean, "+.4f"),
            number(None if sure is None else sure.low, "+.4f"),
            number(None if sure is None else sure.high, "+.4f"),
            number(arm.relative, "+.2f"),
            f"{arm.n_wins}/{arm.n_pairs}",
            str(len(arm.alone)),
            MISSING if sure is None else sure.equivalence.verdict.value,
            MISSING if sure is None else sure.basis.value,
        )
    yield table
    reasons: dict[str, list[str]] = {}
    for arm in found.arms:
        if arm.reason:
            reasons.setdefault(arm.reason, []).append(arm.label)
    for reason, labels in reasons.items():
        yield f"{_whose(labels, len(found.arms))}: {reason}"


def _laws(found: Sequence[Effective]) -> Lines:
    """The law that predicts the largest size best, and the power law in N and D beside it."""
    known = [(one.label, one.gap) for one in found if one.gap is not None]
    if not known:
        return
    yield ""
    yield heading("Laws of the gap, each constant with its standard error in brackets")
    yield "c in nats per token at N0 and D0; s.e. of an eff is of its logarithm"
    table = plain_table(left=("arm", "law", "constants"), right=("N0", "D0", "s.d.", "chosen"))
    for label, laws in known:
        shown = [laws.fit] + ([laws.power] if laws.power not in (None, laws.fit) else [])
        for law in shown:
            assert law is not None
            table.add_row(label, FORMULAS[law.form], _constants(law), *_place(law, laws.chosen))
    yield table
    hows: dict[str, list[str]] = {}
    for label, laws in known:
        hows.setdefault(laws.how, []).append(label)
    for how, labels in hows.items():
        yield f"Chosen for {_whose(labels, len(known))}: {how}"


def _constants(law: GapFit) -> str:
    errors = law.errors or (None,) * len(law.estimates)
    return ", ".join(
        f"{one.name} = {number(one.value, '.4g')}"
        + ("" if error is None else f" ({error:.2g})")
        + ("" if one.identified else f" [{one.reason}]")
        for one, error in zip(law.estimates, errors, strict=True)
    )


def _place(law: GapFit, chosen: GapForm) -> tuple[str, str, str, str]:
    has_c = any(one.name == "c" for one in law.estimates) and law.form is not GapForm.CONSTANT
    return (
        f"{law.N0:.3g}" if has_c else MISSING,
        f"{law.D0:.3g}" if has_c else MISSING,
        number(law.sd, ".4f"),
        "yes" if law.form is chosen else "no",
    )


def _worth(found: FileGaps) -> Lines:
    """Effective numbers, and why some of them are not known."""
    numbers = [
        (one.label, (one.C_mult, one.break_even, one.eff_N, one.eff_D), one.n_cells)
        for arm in found.arms
        if (one := arm.effective) is not None
    ]
    if not numbers:
        return
    law = found.law.solution.law.name if found.law.solution is not None else "none"
    yield ""
    yield heading(f"Worth in {found.baseline}: compute, parameters and tokens, 95 % intervals")
    yield f"break-even: speed-up from which an arm pays; law of {found.baseline}: {law}"
    if not is_reference(found.baseline):
        yield f"where a reason says BF16, {found.baseline} is meant"
    table = plain_table(left=("arm",), right=("C_mult", "break-even", "eff_N", "eff_D", "cells"))
    table.add_column("over", overflow="fold")
    for label, items, n_cells in numbers:
        over = [*dict.fromkeys(item.over for item in items if item.over)] or [MISSING]
        table.add_row(label, *map(_multiplier, items), str(n_cells), listed(over))
    yield table
    whys: dict[tuple[str, str], list[str]] = {}
    for label, items, _ in numbers:
        for reason in dict.fromkeys(item.reason for item in items if item.reason):
            names = listed([item.name for item in items if item.reason == reason])
            whys.setdefault((names, reason), []).append(label)
    for (names, reason), labels in whys.items():
        yield f"{names} of {_whose(labels, len(numbers))}: {reason}"


def _multiplier(one: Multiplier) -> str:
    if one.value is None:
        return MISSING
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f} ({one.low:.3f}-{one.high:.3f})"


def _floors(arms: Sequence[ArmGap]) -> Lines:
    """Whether arms need an irreducible loss of their own, where it was asked."""
    tested = [
        (arm.label, floor)
        for arm in arms
        if arm.effective is not None and (floor := arm.effective.floor) is not None
    ]
    for label, floor in tested:
        yield (
            f"E of {label}: AICc {number(floor.aicc_shared, '.1f')} shared, "
            f"{number(floor.aicc_own, '.1f')} of its own; an own E is "
            f"{'supported' if floor.own_is_supported else 'not supported'}"
        )


def _alone(arms: Sequence[ArmGap]) -> Lines:
    lone = [(arm.label, one) for arm in arms for one in arm.alone]
    if lone:
        yield ""
        yield heading(f"Without a gap: {plural(len(lone), 'endpoint')}")
        table = plain_table(left=("arm",), right=("N", "D", "seed"))
        table.add_column("reason", overflow="fold")
        for label, one in lone[:LISTED]:
            table.add_row(label, f"{one.N:g}", f"{one.D:g}", one.seed or MISSING, one.reason)
        yield table
        if len(lone) > LISTED:
            yield f"and {plural(len(lone) - LISTED, 'more endpoint')}; --json lists every one"
    short = [f"{arm.label} {len(arm.lacking)}" for arm in arms if arm.lacking]
    if short:
        yield ""
        yield f"Cells of the baseline without a row of the arm (--json lists them): {listed(short)}"


def _whose(labels: Sequence[str], of: int) -> str:
    return "every arm" if len(labels) == of > 2 else listed(labels)
