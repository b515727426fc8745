"""Identity by content: 16 hex digits of SHA-256 over the canonical JSON of a frozen value.

    left out   `name` and `cosmetic` fields: what a thing is called, where it lies, who watches it
    left out   `later` fields at their default: they came after runs were stored, which meant that

so that a name moves no identity, and neither does a field that nobody has set. The default of a
`later` field is therefore what runs without it did, for ever. Standard library only.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from types import MappingProxyType
from typing import Any

COSMETIC: Mapping[str, bool] = MappingProxyType({"cosmetic": True})
"""Metadata of a field that never changes a number."""

LATER: Mapping[str, bool] = MappingProxyType({"later": True})
"""Metadata of a field that stored runs may lack; its default is what they meant."""


def canonical(value: Any) -> Any:
    """Plain values of all that tells two things apart."""
    if is_dataclass(value):
        return {
            one.name: canonical(getattr(value, one.name))
            for one in fields(value)
            if not (one.name == "name" or one.metadata == COSMETIC or _is_unset(one, value))
        }
    if isinstance(value, tuple):
        return [canonical(item) for item in value]
    return value


def digest(plain: Any) -> str:
    """16 hex digits of plain values."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_unset(one: Field[Any], value: Any) -> bool:
    return one.metadata == LATER and getattr(value, one.name) == one.default
