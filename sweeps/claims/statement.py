"""Statement: what a claim says about gaps to BF16, as one linear contrast and where it should lie.

    gap(ufp4) < gap(e2m1-ref)              gap(ufp4) - gap(e2m1-ref)        below 0
    gap(ufp4) <= 0.8 * gap(e2m1-ref)       gap(ufp4) - 0.8 gap(e2m1-ref)    below 0
    gap(e2m1-all) - gap(e2m1-ref) > 0.01   gap(e2m1-all) - gap(e2m1-ref)    above 0.01
    abs(gap(mxfp8)) < 0.01                 gap(mxfp8)                       between -0.01 and 0.01

Each side is a sum of `gap(RECIPE)` times numbers, in nats per token, or `abs` of one. A ratio of
gaps becomes a contrast, whose noise is near normal where that of the ratio is not (Fieller 1954).
As measured losses have no atoms, `<` and `<=` say the same.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from math import inf, isfinite

GAP = re.compile(r"\bgap\s*\(")
SHAPE = "write one comparison of gaps, as in gap(ufp4) < gap(e2m1-ref) or abs(gap(mxfp8)) < 0.01"
SMALLEST = 1e-12
"""A weight below it is zero: decimal factors such as 0.8 do not cancel to the last bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One contrast of gaps and where the statement puts it.

    Attributes:
        weights: Recipes in the order in which they are named, each with its factor, none zero.
        low: Lower end of the region, nats per token; minus infinity if it has none.
        high: Upper end of it; infinity if it has none.
        is_outside: Whether the statement puts the contrast outside the region rather than into it.
    """

    weights: tuple[tuple[str, float], ...]
    low: float
    high: float
    is_outside: bool = False

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes named."""
        return tuple(recipe for recipe, _ in self.weights)

    @property
    def bf16_weight(self) -> float:
        """Factor of the BF16 loss in the contrast of losses; 0 where it cancels."""
        total = -sum(weight for _, weight in self.weights)
        return 0.0 if abs(total) < SMALLEST else total

    @property
    def contrast(self) -> str:
        """`gap(ufp4) - 0.8 gap(e2m1-ref)`."""
        words: list[str] = []
        for recipe, weight in self.weights:
            sign = "-" if weight < 0 else "+" if words else ""
            factor = "" if abs(weight) == 1 else f"{abs(weight):g} "
            words.append(f"{sign}{' ' if words else ''}{factor}gap({recipe})")
        return " ".join(words)

    @property
    def region(self) -> str:
        """`below 0`, `above 0.01`, `between -0.01 and 0.01`, `beyond -0.01 to 0.01`."""
        if self.is_outside:
            is_point = self.low == self.high
            return (
                f"other than {self.low:g}" if is_point else f"beyond {self.low:g} to {self.high:g}"
            )
        if self.low == -inf:
            return f"below {self.high:g}"
        return (
            f"above {self.low:g}" if self.high == inf else f"between {self.low:g} and {self.high:g}"
        )


@lru_cache(maxsize=1024)
def parse_statement(text: str) -> Statement:
    """The statement that a text makes.

    Raises:
        ValueError: If it makes none; says where it goes wrong.
    """
    source, names = _without_names(text)
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"cannot be read: {SHAPE}") from error
    match tree:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _Reading(text=text, source=source, names=names).comparison(left, op, right)
        case ast.Compare():
            raise ValueError("compares more than two sides; make a claim of each comparison")
        case ast.BoolOp():
            raise ValueError("says several things; make a claim of each")
        case _:
            raise ValueError(f"compares nothing: {SHAPE}")


def unknown_recipe(name: str, known: Sequence[str]) -> str:
    """Sentence about a recipe that a sweep does not have, with the closest that it has."""
    close = get_close_matches(name, known, n=1)
    listed = f"did you mean {close[0]!r}?" if close else f"the recipes are {', '.join(known)}"
    return f"names a recipe {name!r} that the sweep does not have; {listed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Linear:
    """constant + sum of weights times gaps."""

    constant: float
    weights: Mapping[str, float]

    @property
    def is_number(self) -> bool:
        return not self.weights

    def plus(self, other: "_Linear", factor: float = 1.0) -> "_Linear":
        names = dict.fromkeys((*self.weights, *other.weights))
        weights = {
            name: self.weights.get(name, 0.0) + factor * other.weights.get(name, 0.0)
            for name in names
        }
        return _Linear(constant=self.constant + factor * other.constant, weights=weights)

    def times(self, factor: float) -> "_Linear":
        weights = {name: factor * weight for name, weight in self.weights.items()}
        return _Linear(constant=factor * self.constant, weights=weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The way from a syntax tree to a statement, with what its identifiers stand for."""

    text: str
    source: str
    names: Mapping[str, str]

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Statement:
        match op:
            case ast.Lt() | ast.LtE():
                small, large = left, right
            case ast.Gt() | ast.GtE():
                small, large = right, left
            case ast.Eq() | ast.NotEq():
                raise ValueError(
                    "no finite number of runs can show that two gaps are equal; bound the "
                    "difference, as in abs(gap(a) - gap(b)) < 0.01"
                )
            case _:
                raise ValueError(f"compares by a word that is not <, <=, > or >=: {SHAPE}")
        if (inner := _inside_abs(small)) is not None:
            return self._within(inner, large, is_outside=False)
        if (inner := _inside_abs(large)) is not None:
            return self._within(inner, small, is_outside=True)
        moved = self.linear(left).plus(self.linear(right), -1.0)
        bound = 0.0 - moved.constant
        is_below = small is left
        return _statement(
            moved.weights, low=-inf if is_below else bound, high=bound if is_below else inf
        )

    def _within(self, inner: ast.expr, margin: ast.expr, *, is_outside: bool) -> Statement:
        bound = self.linear(margin)
        if not bound.is_number or bound.constant < 0 or (not is_outside and bound.constant == 0):
            raise ValueError("compares abs(...) with something else than a number above 0")
        middle = self.linear(inner)
        return _statement(
            middle.weights,
            low=-bound.constant - middle.constant,
            high=bound.constant - middle.constant,
            is_outside=is_outside,
        )

    def linear(self, node: ast.expr) -> _Linear:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return _Linear(constant=_finite(value), weights={})
            case ast.Name(id=name) if name in self.names:
                return _Linear(constant=0.0, weights={self.names[name]: 1.0})
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.linear(operand).times(-1.0)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.linear(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(self.linear(left), op, self.linear(right), node)
            case _:
                raise ValueError(f"holds {self._shown(node)!r}, {self._hint(node)}")

    def _operation(
        self, left: _Linear, op: ast.operator, right: _Linear, node: ast.expr
    ) -> _Linear:
        match op:
            case ast.Add():
                return left.plus(right)
            case ast.Sub():
                return left.plus(right, -1.0)
            case ast.Mult() if right.is_number:
                return left.times(right.constant)
            case ast.Mult() if left.is_number:
                return right.times(left.constant)
            case ast.Div() if right.is_number and right.constant != 0:
                return left.times(1 / right.constant)
            case ast.Mult() | ast.Div():
                raise ValueError(
                    f"holds {self._shown(node)!r}; gaps are multiplied and divided by numbers "
                    "alone: for a ratio write gap(a) < 0.8 * gap(b)"
                )
            case _:
                raise ValueError(f"holds {self._shown(node)!r}; only + - * / join gaps")

    def _shown(self, node: ast.expr) -> str:
        text = ast.get_source_segment(self.source, node) or self.text
        for identifier, name in self.names.items():
            text = text.replace(identifier, f"gap({name})")
        return text

    def _hint(self, node: ast.expr) -> str:
        if _inside_abs(node) is not None:
            return "but abs(...) stands alone on one side"
        return "which is neither gap(RECIPE) nor a number"


def _inside_abs(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id="abs"), args=[inner], keywords=[]):
            return inner
        case _:
            return None


def _statement(
    weights: Mapping[str, float], *, low: float, high: float, is_outside: bool = False
) -> Statement:
    kept = {name: weight for name, weight in weights.items() if abs(weight) >= SMALLEST}
    if not kept:
        raise ValueError(f"says nothing about gaps, or they cancel: {SHAPE}")
    _finite(sum(map(abs, kept.values())))
    if next(iter(kept.values())) < 0:  # the recipe that is named first counts with a plus
        kept, low, high = {name: -weight for name, weight in kept.items()}, -high, -low
    return Statement(
        weights=tuple(kept.items()), low=low + 0.0, high=high + 0.0, is_outside=is_outside
    )


def _finite(value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise ValueError("holds a number that is not finite")
    return number


def _without_names(text: str) -> tuple[str, dict[str, str]]:
    """The text with an identifier for each `gap(RECIPE)`, whose names are no Python; and names."""
    stem = "_"
    while stem in text:
        stem += "_"
    names: dict[str, str] = {}
    parts, end = [], 0
    for start, after, name in _gaps(text):
        identifier = next((i for i, known in names.items() if known == name), f"{stem}{len(names)}")
        names[identifier] = name
        parts += [text[end:start], identifier]
        end = after
    return "".join((*parts, text[end:])).strip(), names


def _gaps(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and name of each gap; a name may hold brackets, as in `ufp4-bf16(*.up)`."""
    end = 0
    for found in GAP.finditer(text):
        if found.start() < end:
            continue
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        name = text[found.end() : end - 1].strip()
        if depth or not name:
            raise ValueError(
                "holds a gap( without its closing bracket"
                if depth
                else "holds gap() without a recipe: write its name between the brackets"
            )
        yield found.start(), end, name
