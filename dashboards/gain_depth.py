"""Gain against depth: what each GEMM keeps of its output's size, and what is left down the model.

    η = <zq, z> / sum z^2    of a GEMM of quantized operands zq against the exact product z
    running product of η over the layers, in the order of the model

fprop and dgrad feed the next layer, so their gains compound; wgrad is a leaf. The product ignores
norms and residual streams, so it is a comparison of recipes, not a forecast of activations.

Source: UFP4 (arXiv 2606.20381), accumulation of gains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels
from dashboards.measured_recipe import MeasuredRecipe
from dashboards.plotted import Plotted
from dashboards.theme import Style, styles
from dashboards.wording import drawn
from kernels.recipes import GEMMS, Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """One GEMM of all layers under one recipe.

    Attributes:
        recipe: Its name.
        gemm: `fprop`, `dgrad` or `wgrad`.
        layers: Names, in the order of the model.
        gains: η of each layer.
        products: Of the gains up to and with each layer.
    """

    recipe: str
    gemm: str
    layers: tuple[str, ...]
    gains: tuple[float, ...]
    products: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GainDepth:
    """What the figure shows."""

    recipes: tuple[Recipe, ...]
    gains: tuple[Gains, ...]


def gain_depth(measured: Sequence[MeasuredRecipe]) -> GainDepth:
    """Numbers of the figure; a layer whose product is zero has no gain and is left out."""
    found: list[Gains] = []
    for one in measured:
        for gemm in GEMMS:
            pairs = [
                (layer.layer, product.gain)
                for layer in one.layers
                for product in layer.products
                if product.gemm == gemm and product.gain is not None
            ]
            gains = tuple(gain for _, gain in pairs)
            if gains:
                found.append(
                    Gains(
                        recipe=one.recipe.name,
                        gemm=gemm,
                        layers=tuple(name for name, _ in pairs),
                        gains=gains,
                        products=tuple(accumulate(gains, mul)),
                    )
                )
    return GainDepth(recipes=tuple(one.recipe for one in measured), gains=tuple(found))


def table(numbers: GainDepth) -> Plotted:
    """A row for each GEMM of each layer."""
    return Plotted(
        ("recipe", "gemm", "layer", "gain", "running_product"),
        [
            (one.recipe, one.gemm, *row)
            for one in numbers.gains
            for row in zip(one.layers, one.gains, one.products, strict=True)
        ],
    )


def draw(numbers: GainDepth, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """A panel for each GEMM: lines are running products, dots the gains of single layers."""
    style = styles(numbers.recipes)
    gemms = [gemm for gemm in GEMMS if any(one.gemm == gemm for one in numbers.gains)]
    panels = Panels.of(gemms, columns=columns, legend=[drawn(name) for name in style])
    figure = panels.titled(x="layer, in the order of the model", y="η and its running product")
    if not gemms:
        return panels.empty("No GEMM of these layers is quantized.")
    for panel, gemm in enumerate(gemms):
        for one in numbers.gains:
            if one.gemm == gemm:
                _draw_gains(panels, panel, one, style[one.recipe])
    panels.add_legend(style)
    panels.reference(1.0, "no loss of size")
    return figure


def _draw_gains(panels: Panels, panel: int, one: Gains, style: Style) -> None:
    depth = list(range(1, len(one.layers) + 1))
    said = [
        f"{drawn(one.recipe)}, {drawn(layer)}<br>η {gain:.4f}, product {product:.4f}"
        for layer, gain, product in zip(one.layers, one.gains, one.products, strict=True)
    ]
    for values, look in (
        (one.products, {"mode": "lines", "line": {"color": style.colour, "dash": style.dash}}),
        (one.gains, {"mode": "markers", "marker": {"color": style.colour, "size": 5}}),
    ):
        panels.add(
            panel,
            go.Scatter(
                x=depth,
                y=values,
                customdata=said,
                hovertemplate="%{customdata}<extra></extra>",
                legendgroup=one.recipe,
                showlegend=False,
                **look,
            ),
        )
