"""Drawing: a figure on a page, for wide and narrow pages, with its caption and its numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from dashboards.facets import NARROW_COLUMNS, WIDE_COLUMNS
from dashboards.plotted import Plotted
from dashboards.theme import Mode, template


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure on the page.

    Attributes:
        key: Names its element and the files downloaded from it.
        title: Heading above it.
        caption: Sentences below it.
        wide: For a page of at least 640 px.
        narrow: The same traces below each other.
        plotted: What is drawn, as a table.
    """

    key: str
    title: str
    caption: tuple[str, ...]
    wide: go.Figure
    narrow: go.Figure
    plotted: Plotted


def drawing(
    key: str,
    title: str,
    caption: tuple[str, ...],
    draw: Callable[[int], go.Figure],
    plotted: Plotted,
) -> Drawing:
    """Draws a figure for both widths; `draw` takes the number of columns."""
    wide, narrow = draw(WIDE_COLUMNS), draw(NARROW_COLUMNS)
    return Drawing(key=key, title=title, caption=caption, wide=wide, narrow=narrow, plotted=plotted)


def payload(drawings: Sequence[Drawing], texts: dict[str, str]) -> str:
    """What the page's script reads: figures, templates of both modes, and texts to download."""
    # Plotly's encoder writes what is not finite as null and escapes what could end a script.
    return str(
        to_json_plotly(
            {
                "figures": [
                    {
                        "key": one.key,
                        "data": one.wide.to_plotly_json()["data"],
                        "wide": _layout(one.wide),
                        "narrow": _layout(one.narrow),
                    }
                    for one in drawings
                ],
                "templates": {mode.value: template(mode).to_plotly_json() for mode in Mode},
                "texts": texts,
            }
        )
    )


def _layout(figure: go.Figure) -> dict[str, object]:
    layout: dict[str, object] = figure.to_plotly_json()["layout"]
    return {key: value for key, value in layout.items() if key != "template"}
