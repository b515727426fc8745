"""The leaf fields of a spec: which there are, which are no part of what it is, and each moved."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from sweeps.identity import LATER
from sweeps.shapes import Experts

PLACES = ("name", "path", "column", "subset", "split", "revision", "token_type")
NO_PART = frozenset((*PLACES, "max_epochs", "diagnostics", "resources", "apart"))
"""What a spec is called, where its bytes lie, who watches it and where it is carried out."""

UNSET: dict[str, Any] = {
    "num_kv_heads": 1,
    "head_size": 8,
    "experts": Experts(count=4, active=2, width=16, shared_width=0),
    "horizon": 4096,
    "microbatch_tokens": 64,
    "loss_bound": 9.5,
    "spike": 0.5,
    "separator": 3,
    "subset": "en",
    "revision": "1f0c",
    "token_type": "uint16",
}
"""A value for each field that may be None."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field that holds no further dataclass, by its path as in `training.beta1`."""

    path: tuple[str | int, ...]

    def __str__(self) -> str:
        return ".".join(map(str, self.path))

    @property
    def is_part(self) -> bool:
        """Whether it is part of what the spec is."""
        return not set(self.path) & NO_PART


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Leaf]:
    """All leaves of a dataclass, those of tuples too."""
    if is_dataclass(value):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple) and value:
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield Leaf(path)


def moved(value: Any, leaf: Leaf) -> Any:
    """The value with one leaf at another value of its type, past the checks of what makes sense."""
    return _moved(value, leaf.path)


def _moved(value: Any, path: tuple[str | int, ...]) -> Any:
    match path:
        case ():
            return _other(value)
        case (int() as place, *rest):
            item = _moved(value[place], tuple(rest))
            return (*value[:place], item, *value[place + 1 :])
        case (str() as name, *rest):
            inner = getattr(value, name)
            changed = UNSET[name] if inner is None else _moved(inner, tuple(rest))
            copy = object.__new__(type(value))
            for field in fields(value):
                given = changed if field.name == name else getattr(value, field.name)
                object.__setattr__(copy, field.name, given)
            return copy
    raise AssertionError(path)


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case Enum():
            members = list(type(value))
            return members[(members.index(value) + 1) % len(members)]
        case str():
            return value + "x"
        case int() | float():
            return value * 2 + 1
        case ():
            return ("x",)
        case _:
            raise AssertionError(value)


def as_stored(value: Any) -> Any:
    """What it would be if the fields that came later had never been set."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(
        value,
        **{
            field.name: field.default
            if field.metadata == LATER
            else as_stored(getattr(value, field.name))
            for field in fields(value)
            if field.init
        },
    )
