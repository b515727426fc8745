"""A fit as JSON that forgets nothing, and back: enough to draw it again without a refit.

    fit_id    `sweeps.identity.digest` of the points' hash, the label, the settings, what was
              excluded and the version of the method: the same question again has the same id
    law       its name, its formula, and the fields that place it (the centre of ln N and ln D)
    samples   draws of theta behind the intervals, little-endian float32 by rows, in base64

What is not finite is null with a tag beside it, as `sweeps.plain` has it.
"""

import base64
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from sweeps.fits.result import Alternative, Fit, Samples, Solution
from sweeps.identity import digest
from sweeps.laws.joint import Change, Joint
from sweeps.laws.law import Law, at
from sweeps.laws.registry import LAWS
from sweeps.plain import plain

TAG = "_tag"


def fit_id(fit: Fit) -> str:
    """Identity of what was asked, 16 hex digits."""
    asked = {
        "input_hash": fit.input_hash,
        "label": fit.label,
        "settings": fit.settings,
        "excluded": fit.excluded,
        "method_version": fit.method_version,
    }
    return digest(plain(asked))


def kept_json(fit: Fit) -> dict[str, Any]:
    """All of a fit as JSON values."""
    solution = fit.solution
    bare: dict[str, Any] = plain(replace(fit, solution=None, alternatives=()))
    placed: dict[str, Any] = {
        "solution": None if solution is None else _encoded(solution),
        "alternatives": [_encoded(item) for item in fit.alternatives],
    }
    return {"fit_id": fit_id(fit)} | bare | placed


def kept_fit(values: Mapping[str, Any]) -> Fit:
    """The fit that `kept_json` wrote, every number as it was."""
    given = {key: value for key, value in _untagged(values).items() if key != "fit_id"}
    solution = given.pop("solution")
    alternatives = given.pop("alternatives")
    return Fit(
        **_decoded(Fit, given),
        solution=None if solution is None else Solution(**_decoded(Solution, solution)),
        alternatives=tuple(Alternative(**_decoded(Alternative, item)) for item in alternatives),
    )


def _encoded(value: Solution | Alternative) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(value):
        match getattr(value, field.name):
            case Samples() as samples:
                data = base64.b64encode(samples.data).decode()
                found[field.name] = {"data": data, "columns": samples.columns}
            case item if field.name == "law":
                found["law"] = _law_json(item)
            case item:
                found[field.name] = plain(item)
    return found


def _decoded(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == "law":
            found[name] = _law(value)
        elif name == "samples":
            found[name] = Samples(base64.b64decode(value["data"]), value["columns"])
        else:
            found[name] = TypeAdapter(hints[name]).validate_python(value)
    return found


def _law_json(law: Law) -> dict[str, Any]:
    said = {"name": law.name, "formula": law.formula}
    if isinstance(law, Joint):
        shared = {"changes": plain(law.changes), "held": plain(law.held)}
        return said | {"base": _law_json(law.base)} | shared
    return said | {name: plain(getattr(law, name)) for name in _fields_of(law)}


def _law(values: Mapping[str, Any]) -> Law:
    if "base" in values:
        return Joint(
            base=_law(values["base"]),
            changes=TypeAdapter(tuple[Change, ...]).validate_python(values["changes"]),
            held=TypeAdapter(tuple[float, ...] | None).validate_python(values["held"]),
        )
    law = LAWS[values["name"]](at(1.0, 1.0))
    placed: Law = replace(law, **{name: values[name] for name in _fields_of(law)})  # type: ignore[type-var]
    return placed


def _fields_of(law: Law) -> list[str]:
    return [field.name for field in fields(law)]  # type: ignore[arg-type]  # all are dataclasses


def _untagged(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers that are not finite put back where their tags stand."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        match value:
            case dict():
                found[key] = _untagged(value)
            case list():
                found[key] = [_untagged(item) if isinstance(item, dict) else item for item in value]
            case _ if key.endswith(TAG) and values.get(key.removesuffix(TAG), 0) is None:
                found[key.removesuffix(TAG)] = float(value)
            case _:
                found.setdefault(key, value)
    return found
