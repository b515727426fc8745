"""Reading one YAML mapping, strictly: no key twice, every fault with its line.

YAML 1.1 reads `3e-3` as text; here it is the number that the writer meant.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from sweeps.errors import InputError


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, with exponents without a point as numbers and duplicate keys refused."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    problem="a key must be one word", problem_mark=key.start_mark
                )
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+$"), list("+-0123456789")
)


def read_mapping(path: Path) -> dict[Any, Any]:
    """The mapping that a YAML file holds.

    Raises:
        InputError: If the file is missing, unreadable, not UTF-8, not YAML or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"there is no sweep file {path}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"sweep file {path} is not UTF-8 text") from error
    except OSError as error:
        raise InputError(f"sweep file {path} cannot be read: {error.strerror}") from error
    return parse_mapping(text, f"sweep file {path}")


def parse_mapping(text: str, place: str) -> dict[Any, Any]:
    """The mapping that a YAML text holds; `place` says in errors where the text is from.

    Raises:
        InputError: If the text is not YAML or not a mapping.
    """
    try:
        loaded = yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{place}{where} is not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{place} is not YAML: {error}") from error
    if not isinstance(loaded, dict):
        raise InputError(
            f"{place} must hold keys such as name and models, "
            f"but is {'empty' if loaded is None else f'a {type(loaded).__name__}'}"
        )
    return loaded
