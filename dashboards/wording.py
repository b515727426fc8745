"""Wording: how numbers and names are written in tables, captions and figures.

Losses in nats per token to four decimals, gaps with their sign, counts with k, M, B, T to three
digits. A missing number is a dash, a number that is not finite says so. The minus is U+2212, as
wide as the plus.
"""

from collections import Counter
from collections.abc import Iterable
from html import escape
from math import isfinite, log10

from sweeps.budget import format_count

MISSING = "–"
_LONGEST_NAME = 36


def count(value: float) -> str:
    """`98.3k`, `2M`, `1.25B`; small integers as they are."""
    return format_count(round(value))


def counts(values: Iterable[int]) -> dict[int, str]:
    """Text of each count; in full where the short text would name two of them alike."""
    distinct = sorted(set(values))
    alike = Counter(count(value) for value in distinct)
    return {v: count(v) if alike[count(v)] == 1 else f"{v:,}" for v in distinct}


def scientific(value: float) -> str:
    """`1.26 × 10¹⁵`; three significant digits."""
    if value <= 0 or not isfinite(value):
        return _minus(f"{value:.3g}")
    exponent = int(f"{value:.2e}".split("e")[1])
    digits = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value / 10.0**exponent:.3g} × 10{digits}"


def nats(value: float | None) -> str:
    """`3.1416`, a dash, or `not finite`."""
    if value is None:
        return MISSING
    return _minus(f"{value:.4f}") if isfinite(value) else "not finite"


def signed(value: float | None, decimals: int = 4) -> str:
    """`+0.0123`, or a dash."""
    return MISSING if value is None else _minus(f"{value:+.{decimals}f}")


def percent(value: float | None) -> str:
    """`+1.23 %`, or a dash."""
    return MISSING if value is None else f"{signed(value, 2)} %"


def interval(low: float | None, high: float | None) -> str:
    """`[+0.0100, +0.0200]`, or a dash."""
    if low is None or high is None:
        return MISSING
    return f"[{signed(low)}, {signed(high)}]"


def constant(value: float | None) -> str:
    """A fitted constant: four significant digits, scientific when very large or small."""
    if value is None:
        return MISSING
    if value != 0 and not -3 <= log10(abs(value)) < 5:
        return scientific(value) if value > 0 else f"−{scientific(-value)}"
    return _minus(f"{value:.4g}")


def drawn(name: str) -> str:
    """A user's name for Plotly text, which reads a subset of HTML: escaped, and cut when long."""
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    return escape(short, quote=False)


def _minus(text: str) -> str:
    return text.replace("-", "−")
