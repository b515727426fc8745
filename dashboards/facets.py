"""Facets: panels that share their axes, side by side or, on a narrow page, one below the other.

Panel i (from 0) is drawn on axes i + 1 whatever the number of columns, so the traces of a figure
are the same for both widths and only the layout differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboards.theme import Mode, Style, template
from dashboards.wording import drawn

WIDE_COLUMNS = 3
NARROW_COLUMNS = 1
_PANEL, _GAP, _LEGEND_ROW, _BOTTOM = 320, 70, 22, 52


@dataclass(frozen=True, slots=True)
class Panels:
    """A figure and how its panels lie; a figure without titles has one empty panel."""

    figure: go.Figure
    count: int
    across: int

    @classmethod
    def of(cls, titles: Sequence[str], *, columns: int, legend: Sequence[str]) -> "Panels":
        """Empty figure with one panel for each title, in rows of at most `columns`.

        Args:
            titles: In Plotly's subset of HTML.
            columns: Largest number of panels side by side.
            legend: The names that the legend will show, so that it gets its room.
        """
        panels = max(1, len(titles))
        across = min(columns, panels)
        down = ceil(panels / across)
        top = 36 + _LEGEND_ROW * _legend_rows(legend, columns)
        inner = down * _PANEL + (down - 1) * _GAP
        cells: list[dict[str, str] | None] = [
            {} if cell < panels else None for cell in range(across * down)
        ]
        figure = make_subplots(
            rows=down,
            cols=across,
            specs=[cells[row * across : (row + 1) * across] for row in range(down)],
            shared_yaxes="all",
            subplot_titles=list(titles) or None,
            horizontal_spacing=0.03,
            vertical_spacing=_GAP / inner if down > 1 else 0,
        )
        figure.update_annotations(font={"size": 13})
        figure.update_layout(
            template=template(Mode.LIGHT),
            height=inner + top + _BOTTOM,
            margin={"l": 60, "r": 16, "t": top, "b": _BOTTOM},
            hovermode="closest",
            showlegend=True,
            legend={
                "orientation": "h",
                "yref": "container",
                "x": 0,
                "xanchor": "left",
                "y": 1,
                "yanchor": "top",
                "tracegroupgap": 0,
            },
        )
        return cls(figure, panels, across)

    def add(self, panel: int, trace: go.Scatter | go.Bar) -> None:
        """Draw a trace on a panel."""
        number = "" if panel == 0 else str(panel + 1)
        self.figure.add_trace(trace.update(xaxis=f"x{number}", yaxis=f"y{number}"))

    def x_axis(self, panel: int) -> go.layout.XAxis:
        """The x axis of a panel."""
        return self.figure.layout["xaxis" if panel == 0 else f"xaxis{panel + 1}"]

    def add_crosses(
        self, panel: int, x: Sequence[float], y: Sequence[float], said: Sequence[str], style: Style
    ) -> None:
        """Mark where runs diverged; `said` is what the hover shows."""
        mark = {"symbol": "x-thin", "size": 11, "line": {"color": style.colour, "width": 2.5}}
        self.add(
            panel,
            go.Scatter(
                x=x,
                y=y,
                mode="markers",
                marker=mark,
                customdata=said,
                hovertemplate="%{customdata}<extra></extra>",
                legendgroup=style.recipe,
                showlegend=False,
            ),
        )

    def add_band(
        self,
        panel: int,
        x: Sequence[float],
        ends: tuple[Sequence[float], Sequence[float]],
        style: Style,
        opacity: float,
    ) -> None:
        """Fill what lies between the lower and the upper ends, faintly."""
        low, high = ends
        self.add(
            panel,
            go.Scatter(
                x=[*x, *reversed(x)],
                y=[*high, *reversed(low)],
                fill="toself",
                fillcolor=style.faint(opacity),
                line={"width": 0},
                hoverinfo="skip",
                legendgroup=style.recipe,
                showlegend=False,
            ),
        )

    def add_legend(self, style: dict[str, Style]) -> None:
        """One entry for each recipe, which shows and hides all of its traces."""
        for name, one in style.items():
            self.add(
                0,
                go.Scatter(
                    x=[None],
                    y=[None],
                    name=drawn(name),
                    legendgroup=name,
                    mode="lines+markers",
                    line={"color": one.colour, "dash": one.dash, "width": 2},
                    marker={"symbol": one.symbol, "size": 8, "color": one.colour},
                ),
            )

    def titled(self, *, x: str, y: str) -> go.Figure:
        """Title the x axis of each column's lowest panel and the y axis of each row's first."""
        for panel in range(self.count):
            number = "" if panel == 0 else str(panel + 1)
            if panel + self.across >= self.count:
                self.figure.layout[f"xaxis{number}"].title.text = x
            if panel % self.across == 0:
                self.figure.layout[f"yaxis{number}"].title.text = y
        return self.figure

    def reference(self, y: float, words: str) -> None:
        """Dotted horizontal line across every panel, named in the first."""
        for panel in range(self.count):
            number = "" if panel == 0 else str(panel + 1)
            where = {"xref": f"x{number} domain", "yref": f"y{number}"}
            self.figure.add_shape(
                type="line", x0=0, x1=1, y0=y, y1=y, line={"dash": "dot", "width": 1.2}, **where
            )
        self.figure.add_annotation(
            text=words,
            x=0,
            y=y,
            xref="x domain",
            yref="y",
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
            font={"size": 11},
        )

    def empty(self, words: str) -> go.Figure:
        """Say in the middle of the first panel why there is nothing to see."""
        self.figure.update_layout(showlegend=False)
        self.figure.update_xaxes(visible=False)
        self.figure.update_yaxes(visible=False)
        self.figure.add_annotation(
            x=0.5, y=0.5, xref="paper", yref="paper", text=words, showarrow=False
        )
        return self.figure


def log_ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round values on a logarithmic axis from `low` to `high`, few enough to be read.

    The finest of several round ladders in each decade that gives from 3 to `most` values; beyond
    that whole decades, and on a range too short for the ladders equal round steps.
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        inside = tuple(tick for tick in ticks if low <= tick <= high)
        if 3 <= len(inside) <= most:
            return inside
    if high > 100 * low:
        whole = [10.0**decade for decade in decades if low <= 10.0**decade <= high]
        return tuple(whole[:: ceil(len(whole) / most)])
    return _equal_steps(low, high, most)


def _equal_steps(low: float, high: float, most: int) -> tuple[float, ...]:
    if not high > low:
        return (low,)
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough)
    return tuple(float(f"{k * step:.12g}") for k in range(ceil(low / step), floor(high / step) + 1))


def _legend_rows(names: Sequence[str], columns: int) -> int:
    # The browser measures the text; 8 px a letter and 60 px for the line is on the safe side.
    room = 1000 if columns > 1 else 320
    widest = max((8 * len(name) + 60 for name in names), default=1)
    return ceil(len(names) / max(1, room // widest))
