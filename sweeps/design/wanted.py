"""What is to be known better: a loss or a gap at a place, a constant of a law, or a claim.

    gap(ufp4) at N=1e9, D=20e9         L(ufp4) - L(bf16), nats per token
    loss(bf16) at N=400m, D=20tpp      L, nats per token
    alpha, beta, E                     of L = E + A / N^alpha + B / D^beta; `at` may follow
    eff_N(ufp4), eff_D(ufp4), C_mult(ufp4)   multipliers of N, of D, of both
    claim uniform-wins                 a claim of the sweep

N is a number or the name of a model, D a number of tokens or a budget in `tok` or `tpp`.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from math import inf, isfinite

from sweeps.budget import LARGEST, Measure, parse_budget
from sweeps.counts import non_embedding_parameters
from sweeps.errors import InputError
from sweeps.families.ladder import preset

FORMS = (
    "gap(RECIPE) at N=1e9, D=20e9; loss(RECIPE) at N=..., D=...; alpha, beta or E; "
    "eff_N(RECIPE), eff_D(RECIPE) or C_mult(RECIPE); claim NAME"
)

MOST = float(LARGEST[Measure.TOKENS])
MOST_RATIO = float(LARGEST[Measure.TOKENS_PER_PARAMETER])
"""Limits of a place: no budget of a sweep goes beyond them."""

_FORM = re.compile(r"(?P<head>.*?)(?:\s+at\s+(?P<place>.+))?", re.DOTALL)
_CALL = re.compile(r"(?P<name>\w+)\s*\((?P<recipe>.+)\)", re.DOTALL)
_PLACE = re.compile(r"N\s*=\s*(?P<N>[^,\s]+)\s*,\s*D\s*=\s*(?P<D>[^,\s]+)")


class Term(StrEnum):
    """A number that a law predicts at a place."""

    LOSS = "loss"
    GAP = "gap"


class Constant(StrEnum):
    """A number that belongs to a law as a whole."""

    E = "E"
    ALPHA = "alpha"
    BETA = "beta"
    EFF_N = "eff_N"
    EFF_D = "eff_D"
    C_MULT = "C_mult"

    @property
    def is_of_recipe(self) -> bool:
        """Whether each quantized recipe has its own."""
        return self in (Constant.EFF_N, Constant.EFF_D, Constant.C_MULT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """N parameters and D tokens."""

    N: float
    D: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A quantity.

    Attributes:
        text: As written.
        what: Which one.
        recipe: Whose; None for constants that all recipes share.
        place: Where; a constant may have none.
    """

    text: str
    what: Term | Constant
    recipe: str | None
    place: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedClaim:
    """A claim of the sweep, to be decided."""

    text: str
    name: str


def parse_wanted(text: str) -> Wanted | WantedClaim:
    """What a text asks for.

    Raises:
        InputError: If it asks for nothing that can be planned.
    """
    written = text.strip()
    kind, _, rest = written.partition(" ")
    if kind == "claim" and rest.strip():
        return WantedClaim(text=written, name=rest.strip())
    form = _FORM.fullmatch(written)
    assert form is not None  # the pattern takes any text
    head, place = form["head"].strip(), form["place"]
    what, recipe = _subject(head, written)
    where = None if place is None else _place(place, written)
    if where is None and isinstance(what, Term):
        raise InputError(
            f"want = {written}: a {what} is of a place; write it as in {head} at N=1e9, D=20e9"
        )
    return Wanted(text=written, what=what, recipe=recipe, place=where)


def parse_spend(text: str) -> float:
    """FLOPs to spend, from a text such as `1e17` or `1e17flops`.

    Raises:
        InputError: If it is no positive number of FLOPs.
    """
    try:
        return to_spend(float(text.strip().removesuffix(Measure.FLOPS)))
    except ValueError:
        raise InputError(f"budget = {text}: must be a number of FLOPs, such as 1e17") from None


def to_spend(flops: float) -> float:
    """FLOPs that may be spent.

    Raises:
        InputError: If it is no positive number.
    """
    if not 0 < flops < inf:
        raise InputError(f"budget = {flops:g}: must be a positive number of FLOPs")
    return flops


def _subject(head: str, written: str) -> tuple[Term | Constant, str | None]:
    call = _CALL.fullmatch(head)
    name, recipe = (call["name"], call["recipe"].strip()) if call else (head, None)
    known = (*Term, *Constant)
    what = next((one for one in known if one.value == name), None)
    if what is None:
        close = get_close_matches(name, [one.value for one in known], n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"want = {written}: {name!r} cannot be planned for{meant} ({FORMS})")
    needs_recipe = isinstance(what, Term) or what.is_of_recipe
    if needs_recipe and not recipe:
        raise InputError(f"want = {written}: needs a recipe, as in {what}(ufp4)")
    if recipe and not needs_recipe:
        raise InputError(f"want = {written}: {what} is of the law of all recipes; write {what}")
    return what, recipe


def _place(text: str, written: str) -> Place:
    found = _PLACE.fullmatch(text.strip())
    if found is None:
        raise InputError(
            f"want = {written}: write the place as N=1e9, D=20e9, not {text.strip()!r}"
        )
    N = _size(found["N"], written)
    D = _tokens(found["D"], N, written)
    for name, value in (("N", N), ("D", D)):
        if not 1 <= value <= MOST:
            raise InputError(f"want = {written}: {name} = {value:g}: must lie from 1 to {MOST:g}")
    if D / N > MOST_RATIO:
        raise InputError(f"want = {written}: D/N = {D / N:g}: must be at most {MOST_RATIO:g}")
    return Place(N=N, D=D)


def _size(text: str, written: str) -> float:
    if (shape := preset(text)) is not None:
        return float(non_embedding_parameters(shape))
    value = _number(text)
    if value is None:
        raise InputError(
            f"want = {written}: N = {text} must be a positive number or the name of a model, "
            "such as 400m"
        )
    return value


def _tokens(text: str, N: float, written: str) -> float:
    if (value := _number(text)) is not None:
        return value
    try:
        budget = parse_budget(text)
    except ValueError as error:
        raise InputError(f"want = {written}: D = {text}: {error}") from error
    match budget.measure:
        case Measure.TOKENS:
            return float(budget.amount)
        case Measure.TOKENS_PER_PARAMETER:
            return float(budget.amount) * N
        case Measure.FLOPS:
            raise InputError(
                f"want = {written}: D = {text}: a place is in tok or tpp, not in flops"
            )


def _number(text: str) -> float | None:
    """A positive finite number; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and value > 0 else None
