"""A fit as people and programs read it: everything but its draws, with curves over its data.

    curves    33 token counts over the data, log-spaced, at each size, in the arm of the fit
    C         D x FLOPs per token: exact for the models of a sweep, 6 N for sizes of a file

What draws a fit again, draws included, is `sweeps.tables.kept_fit`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sweeps.fits.result import Fit, Solution, curve
from sweeps.plain import plain
from sweeps.records import RunRecord

CURVE_POINTS = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One size at which curves are drawn.

    Attributes:
        model: Its name; empty if none.
        N: Parameters.
        flops_per_token: Forward and backward.
    """

    model: str = ""
    N: float
    flops_per_token: float


def models_of(records: Iterable[RunRecord]) -> tuple[Size, ...]:
    """The models of a sweep with their exact FLOPs per token, by N."""
    models = {
        (run.N, run.spec.model.name): Size(
            model=run.spec.model.name, N=run.N, flops_per_token=run.flops_per_token
        )
        for run in records
    }
    return tuple(models[key] for key in sorted(models))


def sizes_of(fit: Fit, count: int = 7) -> tuple[Size, ...]:
    """Sizes over the data of a fit, log-spaced, at 6 N FLOPs per token."""
    if fit.N_range is None:
        return ()
    numbers = np.geomspace(*fit.N_range, count).tolist()
    return tuple(Size(N=number, flops_per_token=6 * number) for number in numbers)


def fit_json(item: Fit, sizes: Sequence[Size]) -> dict[str, Any]:
    """A fit as JSON values; the draws behind its bands are only counted."""
    values: dict[str, Any] = {
        field.name: plain(getattr(item, field.name))
        for field in fields(Fit)
        if field.name not in ("solution", "alternatives")
    }
    values |= {
        "alternatives": [other.what for other in item.alternatives],
        "law": item.law_name,
        "search": None,
        "curves": _curves(item, sizes),
    }
    if item.solution is not None:
        search = {
            field.name: getattr(item.solution, field.name)
            for field in fields(Solution)
            if field.name not in ("law", "samples")
        }
        search |= {
            "formula": item.solution.law.formula,
            "center": {"ln_N": item.solution.law.x0, "ln_D": item.solution.law.y0},
            "resamples": item.solution.samples.rows,
        }
        values["search"] = plain(search)
    return values


def _curves(item: Fit, sizes: Sequence[Size]) -> list[dict[str, Any]]:
    if item.solution is None or item.D_range is None:
        return []
    tokens = np.geomspace(*item.D_range, CURVE_POINTS).tolist()
    drawn = []
    for size in sizes:
        line = curve(item, size.N, tokens)
        flops = [count * size.flops_per_token for count in line.tokens]
        drawn.append({"model": size.model, "flops": flops} | plain(line))
    return drawn
