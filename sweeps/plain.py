"""Values as JSON: frozen dataclasses become objects, enums their text, tuples arrays.

A non-finite float has no form in JSON. Under a key it becomes null with a tag beside it,
`{"loss": null, "loss_tag": "nan"}`, tags being `nan`, `inf` and `-inf`; in an array it becomes its
tag. Strings, integers, booleans and None stay as they are.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any


def plain(value: Any) -> Any:
    """The value in terms of dict, list, str, int, float, bool and None.

    Raises:
        TypeError: If the value holds something that has no such form.
    """
    match value:
        case None | bool() | int():
            return value
        case Enum():
            return value.value
        case str():
            return value
        case float():
            return value if isfinite(value) else str(value)
        case Mapping():
            return _object(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _object({field.name: getattr(value, field.name) for field in fields(value)})
        case _:
            raise TypeError(f"no JSON form for {type(value).__name__}")


def _object(items: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in items.items():
        if isinstance(item, float) and not isfinite(item):
            result |= {key: None, f"{key}_tag": str(item)}
        else:
            result[key] = plain(item)
    return result
