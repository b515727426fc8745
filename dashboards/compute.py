"""Compute: validation loss L at each endpoint against the training FLOPs C that it took.

    C = D x FLOPs per token (forward and backward, exact count)    L in nats per token, log-log

Each recipe has its fitted law at every N of its runs: a line with its 95 % band over the range of
D measured at that N, dashed up to `REACH` times the largest where the fit may speak beyond the
data, nothing where it may not. A horizon at which the run diverged is a cross at the top edge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np
import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels, log_ticks
from dashboards.plotted import Plotted, Value
from dashboards.subject import SUBJECT_COLUMNS, Model, Subject, model_of, recipes_of
from dashboards.theme import Style, styles
from dashboards.wording import count, drawn, scientific
from kernels.recipes import Recipe
from sweeps.fits.result import Fit, Status, curve
from sweeps.measured import measured
from sweeps.records import Outcome, RunRecord
from sweeps.wording import listed

REACH = 4.0
_STEPS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An endpoint, or with no loss a horizon at which the run diverged."""

    of: Subject
    tokens: int
    flops: float
    loss: float | None
    loss_se: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A recipe's law at one N, all sequences of one length.

    Attributes:
        recipe: Name of the recipe.
        law: Name of the fitted law.
        model: Whose N and FLOPs per token.
        beyond: Whether this is the part past the measured range of D at this N.
        tokens: D.
        flops: C.
        loss: Prediction, nats per token.
        low: Lower edge of the pointwise 95 % band of the mean loss.
        high: Upper edge.
    """

    recipe: str
    law: str
    model: Model
    beyond: bool
    tokens: tuple[float, ...]
    flops: tuple[float, ...]
    loss: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeCurves:
    """What the figure shows.

    Attributes:
        recipes: BF16 first, then in the order of the records.
        points: Endpoints.
        diverged: Horizons at which a run diverged.
        bands: Fitted curves.
        sentences: What has no curve, or none beyond the data, and why.
    """

    recipes: tuple[Recipe, ...]
    points: tuple[Point, ...]
    diverged: tuple[Point, ...]
    bands: tuple[Band, ...]
    sentences: tuple[str, ...]

    @property
    def loss_range(self) -> tuple[float, float]:
        """Lowest and highest loss of the endpoints and the bands, nats per token."""
        losses = [point.loss for point in self.points if point.loss is not None]
        losses += [edge for band in self.bands for edge in (*band.low, *band.high)]
        return min(losses), max(losses)


def compute_curves(records: Sequence[RunRecord], fits: Sequence[Fit]) -> ComputeCurves:
    """Numbers of the figure."""
    asked = [(record, tokens) for record in records for tokens in record.horizons]
    points = tuple(_point(record, D) for record, D in asked if measured(record, D) is not None)
    diverged = tuple(
        _point(record, D)
        for record, D in asked
        if record.outcome is Outcome.DIVERGED and measured(record, D) is None
    )
    per_token = {model_of(record): record.flops_per_token for record in records}
    return ComputeCurves(
        recipes=recipes_of(records),
        points=points,
        diverged=diverged,
        bands=tuple(band for fit in fits for band in _bands(fit, points, per_token)),
        sentences=_missing(fits),
    )


def table(numbers: ComputeCurves) -> Plotted:
    """Endpoints, diverged horizons and every point of the curves."""
    columns = (
        *("kind", *SUBJECT_COLUMNS, "tokens", "flops"),
        *("loss_nats_per_token", "loss_se", "low_95", "high_95"),
    )
    rows: list[tuple[Value, ...]] = []
    for kind, points in (("endpoint", numbers.points), ("diverged", numbers.diverged)):
        rows += [
            (kind, *p.of.row, p.tokens, p.flops, p.loss, p.loss_se, None, None) for p in points
        ]
    for band in numbers.bands:
        kind = "fit beyond the data" if band.beyond else "fit"
        head = (kind, None, None, band.model.name, band.model.N, band.recipe, None)
        steps = zip(band.tokens, band.flops, band.loss, band.low, band.high, strict=True)
        rows += [(*head, D, C, L, None, low, high) for D, C, L, low, high in steps]
    return Plotted(columns, rows)


def draw(numbers: ComputeCurves, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """Figure of one panel; `columns` says how wide the page is."""
    style = styles(numbers.recipes)
    panels = Panels.of([], columns=columns, legend=[drawn(name) for name in style])
    figure = panels.titled(x="training compute C (FLOPs)", y="validation loss L (nats per token)")
    if not numbers.points:
        return panels.empty("No endpoint has been measured yet.")
    for band in numbers.bands:
        _add_band(panels, band, style[band.recipe], min(0.14, 0.5 / len(numbers.recipes)))
    sizes = _marker_sizes(numbers)
    for name, one in style.items():
        _add_points(panels, [p for p in numbers.points if p.of.recipe == name], one, sizes)
        lost = [point for point in numbers.diverged if point.of.recipe == name]
        _add_crosses(panels, lost, one, numbers.loss_range[1])
    _add_model_names(panels, numbers)
    panels.add_legend(style)
    _scale(figure, numbers, names=0.16 if columns > 1 else 0.34)
    figure.update_layout(height=int(figure.layout.height) + 120)
    return figure


def _point(record: RunRecord, tokens: int) -> Point:
    end = measured(record, tokens)
    return Point(
        of=Subject.of(record),
        tokens=tokens,
        flops=tokens * record.flops_per_token,
        loss=end.loss if end is not None else None,
        loss_se=end.loss_se if end is not None else None,
    )


def _bands(fit: Fit, points: Sequence[Point], per_token: dict[Model, float]) -> list[Band]:
    own = [point for point in points if point.of.recipe == fit.label]
    bands = []
    for model in sorted({point.of.model for point in own}):
        budgets = [point.tokens for point in own if point.of.model == model]
        first, last = min(budgets), max(budgets)
        for beyond, low, high in ((False, first, last), (True, last, REACH * last)):
            asked = np.geomspace(low, high, _STEPS if high > low else 1).tolist()
            line = curve(fit, float(model.N), asked)
            if len(line.tokens) > 1:
                bands.append(
                    Band(
                        recipe=fit.label,
                        law=fit.law_name,
                        model=model,
                        beyond=beyond,
                        tokens=line.tokens,
                        flops=tuple(D * per_token[model] for D in line.tokens),
                        loss=line.loss,
                        low=line.low,
                        high=line.high,
                    )
                )
    return bands


def _missing(fits: Sequence[Fit]) -> tuple[str, ...]:
    alike: dict[tuple[Status, str], list[str]] = {}
    for fit in fits:
        alike.setdefault((fit.status, fit.verdict[0]), []).append(fit.label)
    said = []
    for (status, why), recipes in alike.items():
        match status:
            case Status.IDENTIFIED:
                continue
            case Status.INSIDE_ONLY:
                said.append(f"{listed(recipes)}: the curves stop where the data stop. {why}")
            case Status.NOT_IDENTIFIED:
                said.append(f"{listed(recipes)}: no curve. {why}")
    return tuple(said)


def _add_band(panels: Panels, band: Band, style: Style, opacity: float) -> None:
    faint = opacity / 2 if band.beyond else opacity
    panels.add_band(0, band.flops, (band.low, band.high), style, faint)
    panels.add(
        0,
        go.Scatter(
            x=band.flops,
            y=band.loss,
            mode="lines",
            line=style.curve(dashed=band.beyond),
            customdata=[
                [f"{low:.4f}", f"{high:.4f}", count(D)]
                for low, high, D in zip(band.low, band.high, band.tokens, strict=True)
            ],
            hovertemplate=f"<b>{drawn(band.recipe)}</b>  {band.law} law at N = "
            f"{count(band.model.N)}"
            "<br>D = %{customdata[2]} tokens, C = %{x:.3e}"
            "<br>L = %{y:.4f}, 95 % band %{customdata[0]} to %{customdata[1]}<extra></extra>",
            legendgroup=style.recipe,
            showlegend=False,
        ),
    )


def _marker_sizes(numbers: ComputeCurves) -> dict[Model, float]:
    models = sorted({point.of.model for point in numbers.points})
    return {model: 7 + 5 * rank / max(1, len(models) - 1) for rank, model in enumerate(models)}


def _add_points(
    panels: Panels, points: list[Point], style: Style, sizes: dict[Model, float]
) -> None:
    if not points:
        return
    panels.add(
        0,
        go.Scatter(
            x=[point.flops for point in points],
            y=[point.loss for point in points],
            mode="markers",
            marker={
                "color": style.colour,
                "symbol": style.symbol,
                "size": [sizes[point.of.model] for point in points],
                "line": {"width": 0},
            },
            customdata=[
                [drawn(p.of.label), count(p.of.model.N), count(p.tokens), f"{p.loss_se or 0:.4f}"]
                for p in points
            ],
            hovertemplate="<b>%{customdata[0]}</b>"
            "<br>N = %{customdata[1]}, D = %{customdata[2]} tokens, C = %{x:.3e}"
            "<br>L = %{y:.4f} ± %{customdata[3]} (s.e.)<extra></extra>",
            legendgroup=style.recipe,
            showlegend=False,
        ),
    )


def _add_crosses(panels: Panels, points: list[Point], style: Style, top: float) -> None:
    said = [
        f"<b>{drawn(point.of.label)}</b>  diverged, no loss"
        f"<br>D = {count(point.tokens)} tokens, C = {scientific(point.flops)}"
        for point in points
    ]
    if points:
        panels.add_crosses(0, [p.flops for p in points], [top] * len(points), said, style)


def _add_model_names(panels: Panels, numbers: ComputeCurves) -> None:
    for model in sorted({point.of.model for point in numbers.points}):
        own = [point for point in numbers.points if point.of.model == model]
        first = min(point.flops for point in own)
        there = [point.loss for point in own if point.flops == first and point.loss is not None]
        panels.add(
            0,
            go.Scatter(
                x=[first],
                y=[sum(there) / len(there)],
                mode="text",
                text=[f"N = {count(model.N)}   "],
                textposition="middle left",
                textfont={"size": 11},
                hoverinfo="skip",
                showlegend=False,
            ),
        )


def _scale(figure: go.Figure, numbers: ComputeCurves, *, names: float) -> None:
    flops = [point.flops for point in (*numbers.points, *numbers.diverged)]
    flops += [C for band in numbers.bands for C in band.flops]
    low, high = log10(min(flops)), log10(max(flops))
    span = max(high - low, 0.1)
    across, up = log_ticks(min(flops), max(flops)), log_ticks(*numbers.loss_range, most=8)
    figure.update_xaxes(
        type="log",
        range=[low - names * span, high + 0.06 * span],
        tickvals=across,
        ticktext=[scientific(C) for C in across],
    )
    figure.update_yaxes(type="log", tickvals=up, ticktext=[f"{L:g}" for L in up])
