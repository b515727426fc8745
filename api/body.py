"""A sweep spec out of a request body: JSON or YAML, by its media type, with the sender distrusted.

JSON takes no NaN and no key twice, as the YAML of a sweep file takes none. Text must be storable
(UTF-8, no NUL); nesting and the number of values are bounded, since YAML aliases multiply. A corpus
or tokenizer path is read on the server, so it must be absolute.
"""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from sweeps.corpus_sections import paths_of
from sweeps.errors import InputError, Problem, SpecError
from sweeps.spec import SweepSpec, parse_spec
from sweeps.yaml_file import parse_mapping

JSON = "application/json"
YAML = ("application/yaml", "application/x-yaml", "text/yaml")
MAX_BYTES = 262_144
MAX_DEPTH = 16
MAX_VALUES = 50_000
PLACE = "the request body"
RELATIVE = "an absolute path on the server; a relative one has no meaning there"


async def _content(request: Request) -> tuple[str, bytes]:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (JSON, *YAML):
        raise HTTPException(
            415, f"content-type is {media_type or 'missing'}; send {JSON} or {YAML[0]}"
        )
    return media_type, await request.body()


def _spec(content: Annotated[tuple[str, bytes], Depends(_content)]) -> SweepSpec:
    return read_spec(*content)


SpecBody = Annotated[SweepSpec, Depends(_spec)]
"""Parameter of a route: the spec in the body, checked."""


def read_spec(media_type: str, content: bytes) -> SweepSpec:
    """The spec that a body stands for.

    Raises:
        InputError: If it is not what its media type says, or no mapping.
        SpecError: With every problem found in it.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{PLACE} is not UTF-8 text") from error
    given = _from_json(text) if media_type == JSON else parse_mapping(text, PLACE)
    _refuse_odd(given)
    relative = [
        Problem(
            key=key,
            value=path,
            message=f"must be {'stdlib or ' if key == 'corpus' else ''}{RELATIVE}",
        )
        for key, path in paths_of(given).items()
        if not PurePosixPath(path).is_absolute()
    ]
    if relative:
        raise SpecError(*relative)
    return parse_spec(given)


def _from_json(text: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except RecursionError as error:
        raise InputError(f"{PLACE} is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise InputError(f"{PLACE} is not JSON: {error}") from error
    match given:
        case dict():
            return given
        case _:
            raise InputError(
                f"{PLACE} must be an object with keys such as name and models, "
                f"but is a {type(given).__name__}"
            )


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice")
    return mapping


def _refuse_odd(given: Mapping[Any, Any]) -> None:
    waiting: list[tuple[Any, int]] = [(given, 0)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        value, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise InputError(f"{PLACE} is nested deeper than {MAX_DEPTH} levels")
        match value:
            case str():
                _refuse_unstorable(value)
            case dict():
                waiting.extend((item, depth + 1) for pair in value.items() for item in pair)
            case list() | tuple():
                waiting.extend((item, depth + 1) for item in value)
            case _:  # numbers, booleans, dates, nothing
                pass
    raise InputError(f"{PLACE} holds more than {MAX_VALUES} values")


def _refuse_unstorable(text: str) -> None:
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InputError(f"{PLACE} holds text with a NUL or half a surrogate pair: {text[:40]!a}")
