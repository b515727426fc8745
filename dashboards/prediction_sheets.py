"""Prediction sheets: sums of parts, and published laws of a format, against the measured gaps."""

from collections.abc import Sequence

import numpy as np

from dashboards.sheets import Sheet
from dashboards.wording import MISSING, interval, nats, signed
from sweeps.effective.additivity import Additivity
from sweeps.effective.predictions import Order, Predicted, Signs
from sweeps.wording import listed


def additivity_sheet(sums: Sequence[Additivity]) -> Sheet:
    """Whether the gaps of parts add up to that of the whole."""
    return Sheet(
        key="additivity",
        caption="Gap of a recipe less the sum of the gaps of its parts, nats per token, mean over "
        "clusters (one model and seed, all its horizons) with its 95 % t interval; above zero the "
        "parts hurt one another more than apart.",
        columns=("Recipe", "Parts", "#Excess", "#95 % interval", "#s.d.", "#Clusters", "#Pairs"),
        rows=tuple(
            (
                one.whole,
                listed(one.parts),
                signed(one.mean),
                interval(*(one.interval or (None, None))),
                nats(one.sd),
                str(one.n_clusters),
                str(one.n_pairs),
            )
            for one in sums
        ),
    )


def predicted_sheet(predicted: Sequence[Predicted]) -> Sheet:
    """Published laws that give sizes, recipe by recipe."""
    return Sheet(
        key="predicted",
        caption="Gaps that published laws predict, with their published constants, beside the "
        "measured ones: means over cells and root mean square of the difference, nats per token; "
        "share of the cells with the measured sign; Spearman’s rank correlation over the cells.",
        columns=(
            *("Law", "Recipe", "#Cells", "#Measured", "#Predicted", "#r.m.s.", "#Same sign"),
            *("#Rank", "Note"),
        ),
        rows=tuple(
            (
                one.law,
                one.recipe,
                str(len(one.N)),
                signed(_mean(one.measured)),
                signed(_mean(one.predicted)),
                nats(one.rms),
                MISSING if one.same_sign is None else f"{100 * one.same_sign:.0f} %",
                _rank(one.rank),
                one.reason,
            )
            for one in predicted
        ),
    )


def orders_sheet(orders: Sequence[Order]) -> Sheet:
    """Published laws against the order of the recipes."""
    return Sheet(
        key="orders",
        caption="Recipes in the order that a published law gives them, smallest gap first, with "
        "their mean gaps in nats per token over the cells that all of them have; Spearman’s rank "
        "correlation, 1 where the order is as predicted.",
        columns=("Law", "Recipes as predicted, with measured gaps", "#Rank", "#Cells"),
        rows=tuple(
            (
                one.law,
                ", ".join(
                    f"{recipe} {signed(gap)}"
                    for recipe, gap in zip(one.recipes, one.measured, strict=True)
                ),
                _rank(one.rank),
                str(one.n_cells),
            )
            for one in orders
        ),
    )


def signs_sheet(signs: Sequence[Signs]) -> Sheet:
    """The published law of signs against the power law of each gap."""
    return Sheet(
        key="signs",
        caption="Whether the gap moves with N and with D as a published law says, by the exponents "
        "of gap = c N^a D^b; open where the 95 % interval of the exponent holds 0.",
        columns=("Law", "Recipe", "With N", "With D", "Note"),
        rows=tuple(
            (one.law, one.recipe, _agrees(one.with_N), _agrees(one.with_D), one.reason)
            for one in signs
        ),
    )


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _rank(value: float | None) -> str:
    return MISSING if value is None else signed(value, 2)


def _agrees(value: bool | None) -> str:
    match value:
        case None:
            return "open"
        case True:
            return "as predicted"
        case False:
            return "against it"
