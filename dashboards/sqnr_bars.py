"""SQNR bars: signal to quantization noise of each operand, before and after the RHT of its GEMM.

    SQNR = 10 log10(sum x^2 / sum (xq - x)^2)    dB, one panel for each operand of each GEMM

Source: UFP4 (arXiv 2606.20381), diagnostics by layer and by role.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels
from dashboards.measured_recipe import AFTER, BEFORE, MeasuredRecipe
from dashboards.plotted import Plotted
from dashboards.theme import styles
from dashboards.wording import MISSING, drawn
from kernels.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Sqnr:
    """One operand of one layer under one recipe; dB, None where nothing was lost.

    Attributes:
        recipe: Its name.
        layer: Name of the layer.
        role: As in `fprop x`.
        plain: Before the RHT.
        rotated: After it.
        rotates: Whether the recipe has the RHT there.
    """

    recipe: str
    layer: str
    role: str
    plain: float | None
    rotated: float | None
    rotates: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SqnrBars:
    """What the figure shows."""

    recipes: tuple[Recipe, ...]
    bars: tuple[Sqnr, ...]


def sqnr_bars(measured: Sequence[MeasuredRecipe]) -> SqnrBars:
    """Numbers of the figure."""
    return SqnrBars(
        recipes=tuple(one.recipe for one in measured),
        bars=tuple(
            Sqnr(
                recipe=one.recipe.name,
                layer=layer.layer,
                role=f"{quality.gemm} {quality.operand}",
                plain=quality.plain.sqnr,
                rotated=quality.rotated.sqnr,
                rotates=quality.rotates,
            )
            for one in measured
            for layer in one.layers
            for quality in layer.operands
        ),
    )


def table(numbers: SqnrBars) -> Plotted:
    """A row for each operand of each layer."""
    return Plotted(
        ("recipe", "layer", "role", "sqnr_db", "sqnr_after_rht_db", "recipe_has_rht"),
        [
            (b.recipe, b.layer, b.role, b.plain, b.rotated, str(b.rotates).lower())
            for b in numbers.bars
        ],
    )


def draw(numbers: SqnrBars, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """A panel for each role; filled bars are what the recipe multiplies."""
    style = styles(numbers.recipes)
    roles = list(dict.fromkeys(bar.role for bar in numbers.bars))
    legend = [f"{drawn(name)}, {moment}" for name in style for moment in (BEFORE, AFTER)]
    panels = Panels.of([drawn(role) for role in roles], columns=columns, legend=legend)
    figure = panels.titled(x="", y="SQNR (dB)")
    if not roles:
        return panels.empty("No operand of these layers has a grid.")
    shown: set[str] = set()
    for panel, role in enumerate(roles):
        for name, one in style.items():
            bars = [bar for bar in numbers.bars if bar.role == role and bar.recipe == name]
            for moment in (BEFORE, AFTER):
                label = f"{drawn(name)}, {moment}"
                if bars:
                    trace = _bars(bars, moment, one.colour)
                    panels.add(panel, trace.update(name=label, showlegend=label not in shown))
                    shown.add(label)
        panels.x_axis(panel).update(
            tickangle=-60, showticklabels=panel + panels.across >= len(roles)
        )
    figure.update_layout(barmode="group", margin={"b": 150})
    return figure


def _bars(bars: Sequence[Sqnr], moment: str, colour: str) -> go.Bar:
    values = [bar.plain if moment == BEFORE else bar.rotated for bar in bars]
    used = [bar.rotates == (moment == AFTER) for bar in bars]
    return go.Bar(
        x=[bar.layer for bar in bars],
        y=values,
        legendgroup=f"{bars[0].recipe} {moment}",
        marker={
            "color": [colour if filled else "rgba(0, 0, 0, 0)" for filled in used],
            "line": {"color": colour, "width": 1.2},
            "pattern": {"shape": "" if moment == BEFORE else "."},
        },
        customdata=[
            f"{drawn(bar.recipe)}, {drawn(bar.layer)}, {bar.role}<br>"
            f"{MISSING if value is None else f'{value:.2f} dB'} {moment}"
            f"{', as the recipe has it' if filled else ''}"
            for bar, value, filled in zip(bars, values, used, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
