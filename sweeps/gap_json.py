"""Gaps as JSON values: never a bare NaN, every planned endpoint in it."""

from dataclasses import fields, is_dataclass
from typing import Any

from sweeps.effective.sweep import Formats
from sweeps.endpoints import Row
from sweeps.fits.result import Samples
from sweeps.gaps.pair import GapTable
from sweeps.gaps.paired import Gap
from sweeps.plain import plain


def row_json(row: Row) -> dict[str, Any]:
    """One planned endpoint; without a number, `loss_tag` says why."""
    values: dict[str, Any] = plain(row)
    if row.loss is None:
        values["loss_tag"] = row.reason
    return values


def gaps_json(table: GapTable) -> dict[str, Any]:
    """The gap table: pairs, endpoints without one, and a summary of each recipe with its cells."""
    return {
        "level": table.level,
        "margin": table.margin,
        "gaps": [gap_json(gap) for gap in table.gaps],
        "unpaired": plain(table.unpaired),
        "summaries": plain(table.summaries),
    }


def gap_json(gap: Gap) -> dict[str, Any]:
    """One gap with what follows from its two losses."""
    derived = {"gap": gap.gap, "relative": gap.relative, "bf16_wins": gap.bf16_wins}
    values: dict[str, Any] = plain(gap) | plain(derived)
    return values


def formats_json(found: Formats) -> dict[str, Any]:
    """Worth of each recipe, sums of parts, and published laws against the measured gaps.

    Worth holds the laws of the gap; the draws behind its intervals are left out.
    """
    return {
        "effective": [plain(without_draws(one)) for one in found.effective],
        "additivity": plain(found.additivity),
        "predicted": plain(found.predicted),
        "orders": plain(found.orders),
        "signs": plain(found.signs),
    }


def without_draws(value: Any) -> Any:
    """A value and what it holds, frozen dataclasses as objects, without the draws of its fits."""
    match value:
        case tuple():
            return tuple(without_draws(item) for item in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            kept = {field.name: getattr(value, field.name) for field in fields(value)}
            return {
                name: without_draws(item)
                for name, item in kept.items()
                if not isinstance(item, Samples)
            }
        case _:
            return value
