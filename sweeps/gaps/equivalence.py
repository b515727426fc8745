"""Equivalence: is a mean gap within a margin of zero, by two one-sided t tests (TOST).

    H1: gap <= -margin      p_low  = P(T > (gap + margin) / s.e.)
    H2: gap >= +margin      p_high = P(T < (gap - margin) / s.e.)        T: Student's t, df degrees

Both refuted at a = 1 - level: the gap lies within the margin, p = max(p_low, p_high); this is so
when the interval of level 1 - 2a lies within +-margin (Schuirmann, J. Pharmacokinet. Biopharm. 15,
657, 1987). H2 alone refuted: no worse than BF16 by the margin, perhaps better. A gap that is not
shown to be zero is not thereby equivalent; with few seeds neither can be said.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from scipy import special

from sweeps.errors import InputError
from sweeps.intervals import LEVEL, check_level

MARGIN = 0.01
"""Nats per token: what gates of FP8 against BF16 use."""


class Verdict(StrEnum):
    """What may be said of a gap beside a margin."""

    EQUIVALENT = "within"  # inside the margin on both sides
    NO_WORSE = "no worse"  # below the margin; how far below zero is open, or beyond the margin
    WORSE = "above"  # worse than BF16 by more than the margin
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """Outcome of the two one-sided tests.

    Attributes:
        margin: In the unit of the gap.
        level: 1 - the chance of a false claim.
        low: Lower end of the interval of level 1 - 2 (1 - level).
        high: Upper end of it.
        p: Of the equivalence test.
        p_no_worse: Of the one-sided test that the gap lies below the margin.
        verdict: What follows at the level.
    """

    margin: float
    level: float
    low: float
    high: float
    p: float
    p_no_worse: float
    verdict: Verdict


def tost(
    mean: float, se: float, df: float, margin: float = MARGIN, level: float = LEVEL
) -> Equivalence:
    """Tests a mean gap against +-margin.

    Args:
        mean: The gap, nats per token.
        se: Its standard error; zero when repeats agree to the last digit.
        df: Degrees of freedom of the standard error.
        margin: Nats per token.
        level: 1 - the chance of a false claim.

    Raises:
        InputError: If the margin is not positive or the level is no probability above one half.
    """
    check_margin(margin)
    check_level(level)
    p_low, p_high = _tail(mean + margin, se, df), _tail(margin - mean, se, df)
    half = float(special.stdtrit(df, level)) * se
    low, high = mean - half, mean + half
    return Equivalence(
        margin=margin,
        level=level,
        low=low,
        high=high,
        p=max(p_low, p_high),
        p_no_worse=p_high,
        verdict=_verdict(low, high, margin),
    )


def check_margin(margin: float) -> None:
    """Refuses a margin that is none.

    Raises:
        InputError: If it is not positive and finite.
    """
    if not (margin > 0 and isfinite(margin)):
        raise InputError(f"margin = {margin}: must be a positive number of nats per token")


def _tail(distance: float, se: float, df: float) -> float:
    """P(T > distance / se)."""
    if se == 0:
        return 0.0 if distance > 0 else 1.0
    return float(special.stdtr(df, -distance / se))


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if -margin < low and high < margin:
        return Verdict.EQUIVALENT
    if high < margin:
        return Verdict.NO_WORSE
    return Verdict.WORSE if low > margin else Verdict.UNDECIDED
