"""Theme: which colour, dash and marker stands for which recipe, and how axes and text look.

    colour   recipe: fixed for known names, else the next free one in the order given; grey = BF16
    dash     solid, then dashed and dotted when there are more recipes than colours; bars then have
             a pattern
    marker   where the RHT is applied: none circle, wgrad triangle, all three GEMMs diamond, ...

Every colour has a contrast of at least 3:1 (WCAG 2.2, 1.4.11) on both page backgrounds, so a trace
keeps its colour when the page changes between light and dark; text, grid and background come from
a Plotly template. Two colours stay apart under simulated protanopia and deuteranopia.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import plotly.graph_objects as go

from kernels.recipes import GEMMS, Gemm, Recipe


class Mode(StrEnum):
    """How the page looks."""

    LIGHT = "light"
    DARK = "dark"


BACKGROUND = {Mode.LIGHT: "#ffffff", Mode.DARK: "#12151a"}
_INK = {Mode.LIGHT: "#1b1f26", Mode.DARK: "#e4e7ec"}
_QUIET = {Mode.LIGHT: "#5b6470", Mode.DARK: "#a3abb7"}
_GRID = {Mode.LIGHT: "#e8ebef", Mode.DARK: "#282d36"}
_AXIS = {Mode.LIGHT: "#aab1bb", Mode.DARK: "#58606c"}
_HOVER = {Mode.LIGHT: "#ffffff", Mode.DARK: "#1d222a"}

BASELINE_COLOUR = "#7d838c"
COLOURS = ("#6070f0", "#c2333a", "#c98200", "#3d98dc", "#b9866c", "#a8409c", "#8038f0")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", ".", "-", "+", "|", "x")  # never "/", which says that a cell diverged
_KNOWN = (
    # Seven colours a row: what is compared with one another stands in one row.
    *("ufp4", "e2m1-ref", "nvfp4", "mxfp4", "e4m3", "mxfp8", "fp8-block"),
    *("ufp4-no-rht", "ufp4-rht-wgrad", "ufp4-rht-dgrad-wgrad", "ufp4-rht-fprop-wgrad"),
    *("ufp4-no-sr", "fp8-tensor", "fp16"),
    *("quartet2", "tetrajet2", "four-over-six", "hifloat4", "mxfp4-rht", "mxfp4-sr"),
    *("mxfp4-rht-sr", "e2m1-max2", "e2m1-max3", "e2m1-max4", "int8"),
)

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"

_SYMBOLS = {
    (): "circle",
    ("fprop",): "square",
    ("dgrad",): "triangle-down",
    ("wgrad",): "triangle-up",
    ("fprop", "dgrad"): "pentagon",
    ("fprop", "wgrad"): "hexagon",
    ("dgrad", "wgrad"): "star",
    ("fprop", "dgrad", "wgrad"): "diamond",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How one recipe is drawn: colour as `#rrggbb`; Plotly's dash, bar pattern, marker symbol."""

    recipe: str
    colour: str
    dash: str
    pattern: str
    symbol: str

    def faint(self, opacity: float) -> str:
        """The colour as `rgba(...)` with this opacity."""
        red, green, blue = (int(self.colour[start : start + 2], 16) for start in (1, 3, 5))
        return f"rgba({red}, {green}, {blue}, {opacity})"

    def curve(self, *, dashed: bool) -> dict[str, str | float]:
        """Plotly's line of a fitted curve; dashed beyond the data."""
        return {"color": self.colour, "width": 1.4, "dash": "dash" if dashed else "solid"}


def styles(recipes: Iterable[Recipe]) -> dict[str, Style]:
    """Style of each recipe by its name.

    A known name has the same colour in every figure; the others take what is free, in the order
    given, so that adding a recipe at the end changes nobody's colour.
    """
    named = {recipe.name: recipe for recipe in recipes}
    taken = {_KNOWN.index(name) for name in named if name in _KNOWN}
    found: dict[str, Style] = {}
    for name, recipe in named.items():
        symbol = _SYMBOLS[rht_gemms(recipe)]
        if recipe.is_bf16:
            found[name] = Style(
                recipe=name, colour=BASELINE_COLOUR, dash="solid", pattern="", symbol=symbol
            )
            continue
        slot = _KNOWN.index(name) if name in _KNOWN else _first_free(taken)
        taken.add(slot)
        turn = slot // len(COLOURS) % len(DASHES)
        found[name] = Style(
            recipe=name,
            colour=COLOURS[slot % len(COLOURS)],
            dash=DASHES[turn],
            pattern=PATTERNS[turn],
            symbol=symbol,
        )
    return found


def rht_gemms(recipe: Recipe) -> tuple[str, ...]:
    """Names of the GEMMs whose operands are transformed, in the order fprop, dgrad, wgrad."""
    gemms: tuple[Gemm, ...] = (recipe.fprop, recipe.dgrad, recipe.wgrad)
    return tuple(name for name, gemm in zip(GEMMS, gemms, strict=True) if gemm.rht is not None)


def template(mode: Mode) -> go.layout.Template:
    """Plotly template of one mode; nothing is registered globally."""
    axis = {
        "gridcolor": _GRID[mode],
        "linecolor": _AXIS[mode],
        "tickcolor": _AXIS[mode],
        "zerolinecolor": _QUIET[mode],
        "zerolinewidth": 1.5,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickfont": {"color": _QUIET[mode], "size": 12},
        "title": {"font": {"size": 13}, "standoff": 8},
        "automargin": True,
    }
    layout = go.Layout(
        font={"family": FONT, "size": 13, "color": _INK[mode]},
        paper_bgcolor=BACKGROUND[mode],
        plot_bgcolor=BACKGROUND[mode],
        xaxis=axis,
        yaxis=axis,
        legend={"bgcolor": "rgba(0, 0, 0, 0)"},
        hoverlabel={
            "bgcolor": _HOVER[mode],
            "bordercolor": _AXIS[mode],
            "font": {"color": _INK[mode], "size": 13},
            "align": "left",
        },
        modebar={
            "bgcolor": "rgba(0, 0, 0, 0)",
            "color": _AXIS[mode],
            "activecolor": _INK[mode],
        },
        annotationdefaults={"font": {"color": _INK[mode]}},
        shapedefaults={"line": {"color": _QUIET[mode]}},
    )
    return go.layout.Template(layout=layout)


def _first_free(taken: set[int]) -> int:
    slot = 0
    while slot in taken:
        slot += 1
    return slot
