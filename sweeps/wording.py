"""Wording shared by every sentence: lists and counts."""

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """`nothing`, `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return words[0] if words else "nothing"
    return f"{', '.join(words[:-1])} and {words[-1]}"


def plural(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
