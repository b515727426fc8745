"""Every model that has a name, of all families, ascending within each.

dense    50k 100k ... 1.5b
moe      moe-1m ... moe-7.9b moe-124b; the last two also 7.9b and 124b
"""

from collections.abc import Mapping
from types import MappingProxyType

from sweeps.families import dense, moe
from sweeps.shapes import ModelShape

PRESETS: Mapping[str, ModelShape] = MappingProxyType(
    {shape.name: shape for shape in (*dense.LADDER, *moe.LADDER)}
)
"""By the name of the model."""

SHORT_NAMES: Mapping[str, str] = MappingProxyType({"7.9b": "moe-7.9b", "124b": "moe-124b"})
"""Other names of presets, of sizes that one family alone has."""


def preset(name: str) -> ModelShape | None:
    """The model of a name or short name; None if there is none."""
    return PRESETS.get(SHORT_NAMES.get(name, name))
