"""Effective numbers: how much compute, how many parameters and how many tokens a recipe is worth.

    L_recipe(N, D) = L_bf16(eff_N N, eff_D D)      C_mult = eff_N eff_D

One panel for each number, one row for each recipe, on a logarithmic axis on which 1 is BF16: a dot
with its 95 % interval. A number that the data do not determine says so in its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels, log_ticks
from dashboards.plotted import Plotted, Value
from dashboards.subject import recipes_of
from dashboards.theme import Style, styles
from dashboards.wording import constant, drawn
from kernels.recipes import Recipe
from sweeps.effective.result import Effective, Multiplier
from sweeps.records import RunRecord
from sweeps.wording import plural

TITLES = {"C_mult": "compute", "eff_N": "parameters", "eff_D": "data"}
"""The panels, from what the data determine best to what they determine worst."""

_ROW, _MARGIN = 30, 1.15
_SHORTEST_AXIS = (0.5, 1.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveBars:
    """What the figure shows.

    Attributes:
        recipes: Quantized ones, in the order of the records.
        rows: (recipe, number), by recipe, in the order of the panels.
    """

    recipes: tuple[Recipe, ...]
    rows: tuple[tuple[str, Multiplier], ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest mark, and always 1."""
        marks = [1.0]
        for _, number in self.rows:
            marks += [m for m in (number.value, number.low, number.high) if m is not None]
        return min(marks), max(marks)


def effective_bars(records: Sequence[RunRecord], effective: Sequence[Effective]) -> EffectiveBars:
    """Numbers of the figure."""
    return EffectiveBars(
        recipes=tuple(recipe for recipe in recipes_of(records) if not recipe.is_bf16),
        rows=tuple(
            (one.label, number)
            for one in effective
            for number in (one.C_mult, one.eff_N, one.eff_D)
        ),
    )


def table(numbers: EffectiveBars) -> Plotted:
    """A row for each number of each recipe."""
    columns = ("recipe", "number", "multiple_of_bf16", "low_95", "high_95", "n_cells")
    rows: list[tuple[Value, ...]] = [
        (
            *(recipe, one.name, one.value, one.low, one.high, one.n),
            *(one.over, one.method.value, one.reason),
        )
        for recipe, one in numbers.rows
    ]
    return Plotted((*columns, "interval_over", "method", "reason"), rows)


def draw(numbers: EffectiveBars, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """Figure with at most `columns` panels side by side."""
    style = styles(numbers.recipes)
    panels = Panels.of(
        [f"<b>{words}</b>  {name}" for name, words in TITLES.items()], columns=columns, legend=[]
    )
    figure = panels.titled(x="multiple of BF16", y="")
    figure.update_layout(showlegend=False)
    if not numbers.rows:
        return panels.empty("No recipe has been compared with BF16 yet.")
    for panel, name in enumerate(TITLES):
        for recipe, one in numbers.rows:
            if one.name == name:
                panels.add(panel, _mark(recipe, one, style[recipe]))
        _add_unity(figure, panel)
    _scale(panels, numbers)
    return figure


def _mark(recipe: str, one: Multiplier, style: Style) -> go.Scatter:
    hover = f"<b>{drawn(recipe)}</b>  {one.name}<br>%{{customdata}}<extra></extra>"
    if one.value is None:
        return go.Scatter(
            x=[1.0],
            y=[drawn(recipe)],
            mode="text",
            text=["not identified"],
            textposition="middle left",
            textfont={"size": 11},
            customdata=[one.reason],
            hovertemplate=hover,
        )
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": [(one.high or one.value) - one.value],
        "arrayminus": [one.value - (one.low or one.value)],
        "thickness": 1.6,
        "width": 5,
    }
    return go.Scatter(
        x=[one.value],
        y=[drawn(recipe)],
        mode="markers",
        marker={"color": style.colour, "symbol": style.symbol, "size": 9},
        error_x=whiskers if one.low is not None else None,
        customdata=[_said(one)],
        hovertemplate=hover,
    )


def _said(one: Multiplier) -> str:
    """A number that is identified, in words."""
    certainty = f"no interval: {one.reason}"
    if one.low is not None:
        certainty = f"95 % interval {constant(one.low)} to {constant(one.high)}, over {one.over}"
    return (
        f"{constant(one.value)} times BF16<br>{certainty}"
        f"<br>{one.method.value}, n = {plural(one.n, 'cell')}"
    )


def _add_unity(figure: go.Figure, panel: int) -> None:
    number = "" if panel == 0 else str(panel + 1)
    figure.add_shape(
        type="line",
        x0=1,
        x1=1,
        y0=0,
        y1=1,
        xref=f"x{number}",
        yref=f"y{number} domain",
        line={"dash": "dot", "width": 1.2},
    )


def _scale(panels: Panels, numbers: EffectiveBars) -> None:
    low = min(numbers.ends[0] / _MARGIN, _SHORTEST_AXIS[0])
    high = max(numbers.ends[1] * _MARGIN, _SHORTEST_AXIS[1])
    across = log_ticks(low, high)
    panels.figure.update_xaxes(
        type="log",
        range=[log10(low), log10(high)],
        tickvals=across,
        ticktext=[f"{tick:g}" for tick in across],
    )
    names = list(dict.fromkeys(drawn(recipe) for recipe, _ in numbers.rows))
    panels.figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=names,
        range=[len(names) - 0.5, -0.5],
    )
    down = -(-len(TITLES) // panels.across)
    extra = max(0, _ROW * len(names) - 320) * down
    panels.figure.update_layout(height=int(panels.figure.layout.height) + extra)
