"""Bucket bars: which share of an operand's elements falls on each signed value of the grid.

One panel for each recipe, before and after the RHT of the operand's GEMM. The more even the bars,
the more of the grid is used: utilisation = exp(entropy) / number of values.

Source: UFP4 (arXiv 2606.20381), bucket utilisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels
from dashboards.measured_recipe import AFTER, BEFORE, MeasuredRecipe
from dashboards.plotted import Plotted
from dashboards.theme import BASELINE_COLOUR, COLOURS
from dashboards.wording import drawn
from kernels.quality import Quality


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """One operand of one layer under one recipe.

    Attributes:
        recipe: Its name.
        layer: Name of the layer.
        gemm: `fprop`, `dgrad` or `wgrad`.
        operand: `x`, `w` or `dy`.
        moment: `BEFORE` or `AFTER`.
        values: Signed values of the grid, ascending.
        quality: Its buckets go with the values.
    """

    recipe: str
    layer: str
    gemm: str
    operand: str
    moment: str
    values: tuple[float, ...]
    quality: Quality


def histograms(
    measured: Sequence[MeasuredRecipe], *, gemm: str, operand: str
) -> tuple[Histogram, ...]:
    """The layer whose operand gains most from the RHT, before and after it, for each recipe."""
    found: list[Histogram] = []
    for one in measured:
        wanted = [
            (layer.layer, quality)
            for layer in one.layers
            for quality in layer.operands
            if (quality.gemm, quality.operand) == (gemm, operand)
        ]
        rule = {(g, word): rule for g, word, rule in one.recipe.operands()}[gemm, operand]
        if not wanted or rule.grid is None:
            continue
        name, most = max(wanted, key=lambda pair: _rise(pair[1].plain, pair[1].rotated))
        upper = rule.grid.magnitudes
        values = (*(-magnitude for magnitude in reversed(upper[1:])), *upper)
        found += [
            Histogram(
                recipe=one.recipe.name,
                layer=name,
                gemm=gemm,
                operand=operand,
                moment=moment,
                values=values,
                quality=quality,
            )
            for moment, quality in ((BEFORE, most.plain), (AFTER, most.rotated))
        ]
    return tuple(found)


def table(numbers: Sequence[Histogram]) -> Plotted:
    """A row for each bar."""
    columns = ("recipe", "layer", "gemm", "operand", "moment", "value", "share")
    return Plotted(
        columns,
        [
            (one.recipe, one.layer, one.gemm, one.operand, one.moment, value, share)
            for one in numbers
            for value, share in zip(one.values, one.quality.buckets, strict=True)
        ],
    )


def draw(numbers: Sequence[Histogram], *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """A panel for each recipe."""
    by_recipe = [list(group) for _, group in groupby(numbers, key=lambda one: one.recipe)]
    titles = [f"{drawn(group[0].recipe)}<br>{drawn(group[0].layer)}" for group in by_recipe]
    panels = Panels.of(titles, columns=columns, legend=[BEFORE, AFTER])
    figure = panels.titled(x="code", y="share of elements (%)")
    if not numbers:
        return panels.empty("No operand of these layers has a grid.")
    for panel, group in enumerate(by_recipe):
        for one, colour in zip(group, (BASELINE_COLOUR, COLOURS[0]), strict=True):
            panels.add(panel, _bars(one, colour, showlegend=panel == 0))
    figure.update_layout(barmode="group", bargap=0.15)
    return figure


def _bars(one: Histogram, colour: str, *, showlegend: bool) -> go.Bar:
    # Values lie unevenly; by code each has the same room and its value is in the hover.
    top = len(one.values) // 2
    return go.Bar(
        x=list(range(-top, top + 1)),
        y=[100 * share for share in one.quality.buckets],
        name=one.moment,
        legendgroup=one.moment,
        showlegend=showlegend,
        marker={"color": colour},
        customdata=[
            f"value {value:g}: {share:.2%} {one.moment}"
            for value, share in zip(one.values, one.quality.buckets, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _rise(plain: Quality, rotated: Quality) -> float:
    return rotated.utilisation - plain.utilisation
