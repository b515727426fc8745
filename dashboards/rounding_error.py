"""Rounding error: how far RTNE moves a number, and on average over the bin of each grid value.

    error    Q(t) - t            against t, both in units of the grid's maximum
    bias     mean of it over a bin (lo, hi): q - (lo + hi) / 2, for a density that is constant there

Bins end half-way between neighbours. The zero bin begins at 0 and the top bin ends at the maximum,
so the magnitudes of the one are always lost and those of the other always gain. Below zero the
picture is the same turned by half a turn.

Source: UFP4 (arXiv 2606.20381), shrinkage bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels
from dashboards.plotted import Plotted
from dashboards.theme import BASELINE_COLOUR, COLOURS
from dashboards.wording import drawn, signed
from kernels.formats import Grid

_BIAS = "mean over the bin"
_ERROR = "rounding error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """What rounds to one value; all in units of the grid's maximum.

    Attributes:
        value: q.
        low: Where the bin begins.
        high: Where it ends.
    """

    value: float
    low: float
    high: float

    @property
    def bias(self) -> float:
        """Mean of Q(t) - t under a constant density."""
        return self.value - (self.low + self.high) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GridErrors:
    """The bins of one grid, ascending."""

    grid: str
    bins: tuple[Bin, ...]


def rounding_errors(grids: Sequence[Grid]) -> tuple[GridErrors, ...]:
    """Numbers of the figure."""
    return tuple(GridErrors(grid=grid.name, bins=_bins(grid)) for grid in grids)


def table(numbers: Sequence[GridErrors]) -> Plotted:
    """A row for each bin."""
    columns = ("grid", "value_over_maximum", "bin_low", "bin_high", "mean_error_over_maximum")
    return Plotted(
        columns,
        [
            (errors.grid, one.value, one.low, one.high, one.bias)
            for errors in numbers
            for one in errors.bins
        ],
    )


def draw(numbers: Sequence[GridErrors], *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """A panel for each grid."""
    titles = [drawn(errors.grid.upper()) for errors in numbers]
    panels = Panels.of(titles, columns=columns, legend=[_ERROR, _BIAS])
    figure = panels.titled(x="t / maximum", y="(Q(t) − t) / maximum")
    if not numbers:
        return panels.empty("No operand of these recipes has a grid.")
    for panel, errors in enumerate(numbers):
        _draw_panel(panels, panel, errors)
    return figure


def _draw_panel(panels: Panels, panel: int, errors: GridErrors) -> None:
    steps = [
        (t, one.value - t if t is not None else None)
        for one in errors.bins
        for t in (one.low, one.high, None)  # a gap, since the error jumps between two bins
    ]
    shared = {"showlegend": panel == 0}
    line = go.Scatter(
        x=[t for t, _ in steps],
        y=[error for _, error in steps],
        mode="lines",
        name=_ERROR,
        legendgroup=_ERROR,
        line={"color": BASELINE_COLOUR, "width": 1.5},
        hoverinfo="skip",
        **shared,
    )
    marks = go.Scatter(
        x=[one.value for one in errors.bins],
        y=[one.bias for one in errors.bins],
        mode="markers",
        name=_BIAS,
        legendgroup=_BIAS,
        marker={"color": COLOURS[1], "size": 8 if len(errors.bins) <= 32 else 4},
        customdata=[f"value {one.value:.4g}: {signed(one.bias)}" for one in errors.bins],
        hovertemplate="%{customdata}<extra></extra>",
        **shared,
    )
    panels.add(panel, line)
    panels.add(panel, marks)


def _bins(grid: Grid) -> tuple[Bin, ...]:
    scaled = [magnitude / grid.maximum for magnitude in grid.magnitudes]
    middles = [(a + b) / 2 for a, b in pairwise(scaled)]
    edges = zip(scaled, [0.0, *middles], [*middles, 1.0], strict=True)
    return tuple(Bin(value=value, low=low, high=high) for value, low, high in edges)
