"""From pydantic's validation errors to problems in the words of the person who wrote the spec."""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, Tag, ValidationError

from kernels.recipes import GEMMS, OPERANDS
from sweeps.errors import Problem

MESSAGES = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "tuple_type": "must be a list, as in [a, b]",
    "too_short": "needs at least {min_length}",
    "too_long": "takes at most {max_length}, got {actual_length}",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
    "invalid_key": "keys must be text",
    "value_error": "{error}",
}
"""By pydantic's error type; what is missing here falls back on pydantic's own sentence."""

TAGS = frozenset({"<text>", "<number>", "<mapping>", "<preset>", "<gemms>"})
"""What unions put into a place to say which kind was tried."""

WRONG_KEY = frozenset({"extra_forbidden", "invalid_key"})
"""Mistakes whose place ends in the key that the user wrote, whatever that is."""

OTHER_KINDS = {
    ("learning_rate", "<number>"): "the name of a rule",
    ("corpus", "<mapping>"): "'stdlib' or a path",
    ("tokenizer", "<text>"): "a mapping such as {bpe: 512}",
    ("tokenizer", "<mapping>"): "'byte'",
    ("seeds", "<number>"): "a mapping such as {init: 0, data: 1}",
    ("models", "<mapping>"): "the name of a preset",
    ("recipes", "<mapping>"): "the name of a preset",
    ("format", "<mapping>"): "the name of a format",
}
"""What else an entry may be, by its key and the kind that it was taken for."""

WRONG_KIND = frozenset({"literal_error", "float_type", "int_type", "model_type"})


MISPLACED: Mapping[tuple[str, ...], str] = {
    **{
        (operand, "rht"): "an RHT belongs to a GEMM, whose two operands share it: write it beside "
        "them"
        for operand in OPERANDS
    },
    **{
        (gemm, "gemm"): "the precision of products is one for all GEMMs of a recipe: write it there"
        for gemm in GEMMS
    },
}
"""Keys that are meant but stand in the wrong section, by the key of that section."""


def problems_of(error: ValidationError, top: type[BaseModel]) -> list[Problem]:
    """One problem for each thing that pydantic found.

    Args:
        error: What validation raised.
        top: The model that was validated; its fields' models are asked for suggestions.
    """
    problems = []
    every = error.errors(include_url=False)
    for found in every:
        depth = len(found["loc"])
        entries = [one for one in every if one["loc"][:depth] == found["loc"] and one is not found]
        if found["type"] == "too_short" and entries:  # it lost entries named on their own
            continue
        path = _path(found["type"], found["loc"])
        if found["type"] == "invalid_key":  # its place is the mapping; the key is the value
            path = path[:-1]
        value = "" if found["type"] == "missing" else shown(found["input"])
        if found["type"] == "extra_forbidden":
            message = _unknown(path, dict(_sections(top))[_words(found["loc"][:-1])])
        else:
            context = found.get("ctx", {})
            message = MESSAGES.get(found["type"], found["msg"]).format(**context)
            message += _other_kind(found["type"], found["loc"])
        problems.append(Problem(key=key_of(path), value=value, message=message))
    return problems


def _path(mistake: str, place: Sequence[int | str]) -> list[int | str]:
    """A place without the tags of unions; the last part is the user's own where a key is wrong."""
    own = place[-1:] if mistake in WRONG_KEY else ()
    return [part for part in place[: len(place) - len(own)] if part not in TAGS] + list(own)


def _other_kind(mistake: str, place: Sequence[int | str]) -> str:
    names = _words(place)
    other = OTHER_KINDS.get((names[-2], names[-1])) if len(names) > 1 else None
    return f", or {other}" if other and mistake in WRONG_KIND else ""


def _words(place: Sequence[int | str]) -> tuple[str, ...]:
    return tuple(part for part in place if isinstance(part, str))


def _sections(hint: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every model below a type with its place: the keys and tags of unions that lead to it."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield place, hint
        for key, field in hint.model_fields.items():
            yield from _sections(field.annotation, (*place, key))
        return
    parts = get_args(hint)
    tags = [part.tag for part in parts if isinstance(part, Tag)]
    for part in parts:
        yield from _sections(part, (*place, *tags))


def _unknown(path: Sequence[int | str], section: type[BaseModel]) -> str:
    misplaced = MISPLACED.get(_words(path)[-2:])
    return misplaced or unknown(str(path[-1]), list(section.model_fields))


def unknown(key: str, known: Sequence[str]) -> str:
    """Sentence about an unknown key with the closest known one, or with all of them."""
    close = get_close_matches(key.lower(), known, n=1)
    if close:
        return f"unknown key; did you mean {close[0]!r}?"
    return f"unknown key; the keys here are {', '.join(known)}"


def key_of(path: Sequence[int | str]) -> str:
    """`models[0].width` from ("models", 0, "width")."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "sweep spec"


def shown(value: Any) -> str:
    """A value as a user would write it, at most 80 characters."""
    try:
        text = (
            value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        )
    except ValueError:  # a list within itself, or thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
