"""Budgets: how long a run trains, with the unit written out.

    500tok  4ktok  50Mtok  1.2Btok  2Ttok    D training tokens; k, M, B, T = 1e3, 1e6, 1e9, 1e12
    20tpp                                    D = 20 N, N the non-embedding parameters
    3e15flops                                D = 3e15 / FLOPs per token, forward and backward

A budget becomes whole optimizer steps: D / batch to the nearest integer (a tie to the even one),
at least 1, so that the planned token count is met exactly. Arithmetic is exact (decimal in,
fractions between), so a budget means the same tokens on every machine.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction


class Measure(StrEnum):
    """What a budget is counted in."""

    TOKENS = "tok"
    TOKENS_PER_PARAMETER = "tpp"
    FLOPS = "flops"


TOKEN_UNITS = {"tok": 1, "ktok": 10**3, "Mtok": 10**6, "Btok": 10**9, "Ttok": 10**12}
BUDGET_UNITS = {unit: (Measure.TOKENS, factor) for unit, factor in TOKEN_UNITS.items()} | {
    "tpp": (Measure.TOKENS_PER_PARAMETER, 1),
    "flops": (Measure.FLOPS, 1),
}
LARGEST = {Measure.TOKENS: 10**15, Measure.TOKENS_PER_PARAMETER: 10**6, Measure.FLOPS: 10**27}

_QUANTITY = re.compile(r"([+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?)\s*([A-Za-z]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A parsed budget.

    Attributes:
        text: As written, such as `20tpp`; two spellings of one amount are equal.
        amount: In tokens, tokens per parameter or FLOPs.
        measure: Which of the three.
    """

    text: str = field(compare=False)
    amount: Fraction
    measure: Measure

    def __str__(self) -> str:
        """As written."""
        return self.text


def parse_budget(text: object) -> Budget:
    """A budget from its text.

    Raises:
        ValueError: If the text is no number with one of the units, or out of bounds.
    """
    number, unit = _split(text, BUDGET_UNITS)
    measure, factor = BUDGET_UNITS[unit]
    amount = number * factor
    if not 0 < amount <= LARGEST[measure]:
        raise ValueError(f"must be above 0 and at most {LARGEST[measure]:.0e}{measure.value}")
    return Budget(text=str(text).strip(), amount=amount, measure=measure)


def parse_tokens(text: object) -> int:
    """A whole, positive number of tokens from a text such as `4ktok`.

    Raises:
        ValueError: If the text is no such number with a token unit.
    """
    number, unit = _split(text, TOKEN_UNITS)
    tokens = number * TOKEN_UNITS[unit]
    if tokens.denominator != 1:
        raise ValueError("must be a whole number of tokens")
    if not 0 < tokens <= LARGEST[Measure.TOKENS]:
        raise ValueError(f"must be above 0 and at most {LARGEST[Measure.TOKENS]:.0e}tok")
    return int(tokens)


def resolve(budget: Budget, *, N: int, flops_per_token: int) -> Fraction:
    """Training tokens of a budget, before they become whole steps.

    Args:
        budget: What was asked.
        N: Non-embedding parameters.
        flops_per_token: Forward and backward.
    """
    match budget.measure:
        case Measure.TOKENS:
            return budget.amount
        case Measure.TOKENS_PER_PARAMETER:
            return budget.amount * N
        case Measure.FLOPS:
            return budget.amount / flops_per_token


def whole_steps(tokens: Fraction | int, batch_tokens: int) -> int:
    """The token count of the nearest whole number of optimizer steps, at least one."""
    return max(1, round(Fraction(tokens) / batch_tokens)) * batch_tokens


def format_tokens(tokens: int) -> str:
    """Three significant digits and a unit, as in `1.05Mtok`; it parses as a budget again."""
    return f"{_scaled(tokens)}tok"


def exact_tokens(tokens: int) -> str:
    """All digits and the largest unit, as in `991.232ktok`; it parses as the same count again."""
    factor, unit = max((factor, unit) for unit, factor in TOKEN_UNITS.items() if factor <= tokens)
    return f"{(Decimal(tokens) / factor).normalize():f}{unit}"


def format_count(count: int) -> str:
    """Three significant digits and a suffix, as in `57.6k`."""
    return _scaled(count)


def format_flops(flops: float) -> str:
    """Three significant digits, as in `3.02e15flops`."""
    mantissa, exponent = f"{flops:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}flops"


def _split(text: object, units: Iterable[str]) -> tuple[Fraction, str]:
    known = ", ".join(units)
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"must be a number and a unit ({known})")
    number, unit = match.groups()
    if not unit:
        raise ValueError(f"has no unit; write it with one of {known}")
    if unit not in units:
        close = get_close_matches(unit.lower(), [name.lower() for name in units], n=1)
        meant = [f"; did you mean {name}?" for name in units if [name.lower()] == close]
        raise ValueError(f"unknown unit {unit!r}; the units are {known}{''.join(meant)}")
    return Fraction(number), unit


def _scaled(count: int) -> str:
    for suffix, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= factor * 0.9995:
            value = count / factor
            digits = max(0, 2 - len(str(int(value + 0.0005))) + 1)
            shown = f"{value:.{digits}f}"
            return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown}{suffix}"
    return str(count)
