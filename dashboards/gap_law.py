"""Gap law: the paired gap of each recipe against tokens, with the law that was chosen for it.

    gap(N, D) = L(recipe) - L(bf16)      nats per token, one panel for each recipe, D logarithmic

A dot is the mean gap of a cell over its seeds, larger for a larger N, with its 95 % t interval
where there are repeats. A line is the law of the gap at one N with the 95 % band of the mean gap:
solid over the D measured at this N, dashed up to `REACH` times the largest. The law is of all cells
of the recipe, so the lines of a panel are one law.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np
import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels, log_ticks
from dashboards.plotted import Plotted, Value
from dashboards.subject import Model, models_of, recipes_of
from dashboards.theme import Style, styles
from dashboards.wording import count, drawn, interval, signed
from kernels.recipes import Recipe
from sweeps.fits.gap_choice import GapLaws
from sweeps.fits.gap_result import GapFit, GapForm, gap_at
from sweeps.gaps.cell_gaps import CellGap
from sweeps.gaps.pair import GapTable
from sweeps.records import RunRecord
from sweeps.wording import plural

REACH = 4.0
_STEPS = 17
_FAINT, _FAINTER = 0.14, 0.07


@dataclass(frozen=True, slots=True, kw_only=True)
class GapBand:
    """A recipe's gap law at one N, all sequences of one length.

    Attributes:
        recipe: Name of the recipe.
        model: Whose N.
        form: Which law.
        beyond: Whether this is the part past the largest D measured at this N.
        tokens: D.
        gap: Prediction, nats per token.
        low: Lower edge of the pointwise 95 % band of the mean gap; empty without draws.
        high: Upper edge.
    """

    recipe: str
    model: Model
    form: str
    beyond: bool
    tokens: tuple[float, ...]
    gap: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLawCurves:
    """What the figure shows.

    Attributes:
        recipes: Quantized ones, in the order of the records.
        models: Smallest first.
        cells: (recipe, mean gap of a cell), by recipe, N and tokens.
        bands: Laws, where one was chosen.
    """

    recipes: tuple[Recipe, ...]
    models: tuple[Model, ...]
    cells: tuple[tuple[str, CellGap], ...]
    bands: tuple[GapBand, ...]

    @property
    def frame(self) -> tuple[float, float]:
        """Lowest and highest gap drawn: what was measured and zero, with a quarter of it around.

        The band of a law that hardly knows its exponents would make a point of everything else;
        it leaves the frame instead.
        """
        values = [0.0]
        for _, cell in self.cells:
            values += [each for each in (cell.mean, cell.low, cell.high) if each is not None]
        room = (max(values) - min(values)) / 4
        return min(values) - room, max(values) + room


def gap_law_curves(
    records: Sequence[RunRecord], gaps: GapTable, laws: Sequence[GapLaws]
) -> GapLawCurves:
    """Numbers of the figure."""
    cells = tuple((one.recipe, cell) for one in gaps.summaries for cell in one.cells)
    return GapLawCurves(
        recipes=tuple(recipe for recipe in recipes_of(records) if not recipe.is_bf16),
        models=models_of(records),
        cells=cells,
        bands=tuple(
            band
            for law in laws
            if law.chosen is not GapForm.NONE
            for band in _bands(law.fit, [cell for recipe, cell in cells if recipe == law.label])
        ),
    )


def table(numbers: GapLawCurves) -> Plotted:
    """Cells and every point of the laws."""
    columns = ("kind", "model", "N_non_embedding", "tokens", "recipe", "law")
    rows: list[tuple[Value, ...]] = [
        (
            *("cell", cell.model, cell.N, cell.tokens, recipe, None),
            *(cell.mean, cell.low, cell.high, cell.n_seeds),
        )
        for recipe, cell in numbers.cells
    ]
    for band in numbers.bands:
        kind = "law beyond the data" if band.beyond else "law"
        for step, (tokens, gap) in enumerate(zip(band.tokens, band.gap, strict=True)):
            head = (kind, band.model.name, band.model.N, tokens, band.recipe, band.form)
            edges = (band.low[step], band.high[step]) if band.low else (None, None)
            rows.append((*head, gap, *edges, None))
    return Plotted((*columns, "gap_nats_per_token", "low_95", "high_95", "n_seeds"), rows)


def draw(numbers: GapLawCurves, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """Figure with at most `columns` panels side by side."""
    style = styles(numbers.recipes)
    laws = {band.recipe: band.form for band in numbers.bands}
    shown = [name for name in style if any(recipe == name for recipe, _ in numbers.cells)]
    panels = Panels.of(
        [f"<b>{drawn(name)}</b>  {laws.get(name, 'no')} law" for name in shown],
        columns=columns,
        legend=[],
    )
    figure = panels.titled(x="training tokens D", y="gap to BF16 (nats per token)")
    figure.update_layout(showlegend=False)
    if not numbers.cells:
        return panels.empty("No endpoint has a BF16 partner yet.")
    for panel, name in enumerate(shown):
        for band in numbers.bands:
            if band.recipe == name:
                _add_band(panels, panel, band, style[name])
        for rank, model in enumerate(numbers.models):
            here = [
                cell
                for recipe, cell in numbers.cells
                if (recipe, cell.model, cell.N) == (name, model.name, model.N)
            ]
            _add_cells(panels, panel, here, style[name], 6 + 5 * rank / len(numbers.models))
    tokens = [float(cell.tokens) for _, cell in numbers.cells]
    tokens += [D for band in numbers.bands for D in band.tokens]
    low, high = min(tokens) / 1.25, max(tokens) * 1.25
    across = log_ticks(low, high, most=5)
    figure.update_xaxes(
        type="log",
        range=[log10(low), log10(high)],
        tickvals=across,
        ticktext=[count(D) for D in across],
    )
    figure.update_yaxes(range=numbers.frame)
    return figure


def _bands(fit: GapFit, cells: Sequence[CellGap]) -> list[GapBand]:
    bands = []
    for model in sorted({Model(N=cell.N, name=cell.model) for cell in cells}):
        budgets = [cell.tokens for cell in cells if (cell.N, cell.model) == (model.N, model.name)]
        first, last = min(budgets), max(budgets)
        for beyond, low, high in ((False, first, last), (True, last, REACH * last)):
            if high > low:
                bands.append(_band(fit, model, np.geomspace(low, high, _STEPS).tolist(), beyond))
    return bands


def _band(fit: GapFit, model: Model, tokens: Sequence[float], beyond: bool) -> GapBand:
    line = [gap_at(fit, float(model.N), D) for D in tokens]
    edges = [(one.low, one.high) for one in line if one.low is not None and one.high is not None]
    return GapBand(
        recipe=fit.label,
        model=model,
        form=fit.form.value,
        beyond=beyond,
        tokens=tuple(tokens),
        gap=tuple(one.gap for one in line),
        low=tuple(low for low, _ in edges),
        high=tuple(high for _, high in edges),
    )


def _add_band(panels: Panels, panel: int, band: GapBand, style: Style) -> None:
    if band.low:
        faint = _FAINTER if band.beyond else _FAINT
        panels.add_band(panel, band.tokens, (band.low, band.high), style, faint)
    edges = [interval(*ends) for ends in zip(band.low, band.high, strict=True)]
    panels.add(
        panel,
        go.Scatter(
            x=band.tokens,
            y=band.gap,
            mode="lines",
            line=style.curve(dashed=band.beyond),
            customdata=edges or ["none"] * len(band.gap),
            hovertemplate=f"<b>{drawn(band.recipe)}</b>  {band.form} law at N = "
            f"{count(band.model.N)}<br>D = %{{x:.3s}} tokens, gap %{{y:+.4f}} nats"
            "<br>95 % band %{customdata}<extra></extra>",
            showlegend=False,
        ),
    )


def _add_cells(
    panels: Panels, panel: int, cells: Sequence[CellGap], style: Style, size: float
) -> None:
    if not cells:
        return
    certain = any(cell.low is not None for cell in cells)
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": [_reach(cell.mean, cell.high) for cell in cells],
        "arrayminus": [_reach(cell.low, cell.mean) for cell in cells],
        "thickness": 1.2,
        "width": 4,
    }
    panels.add(
        panel,
        go.Scatter(
            x=[cell.tokens for cell in cells],
            y=[cell.mean for cell in cells],
            mode="markers",
            marker={"color": style.colour, "symbol": style.symbol, "size": size},
            error_y=whiskers if certain else None,
            customdata=[_said(cell) for cell in cells],
            hovertemplate=f"<b>{drawn(style.recipe)}</b>  %{{customdata}}<extra></extra>",
            showlegend=False,
        ),
    )
    last = max(cells, key=lambda cell: cell.tokens)
    panels.add(
        panel,
        go.Scatter(
            x=[last.tokens],
            y=[last.mean],
            mode="text",
            text=[f"  {count(last.N)}"],
            textposition="middle right",
            textfont={"size": 11},
            hoverinfo="skip",
            showlegend=False,
        ),
    )


def _reach(low: float | None, high: float | None) -> float:
    return high - low if low is not None and high is not None else 0.0


def _said(cell: CellGap) -> str:
    ends = f"<br>95 % interval {interval(cell.low, cell.high)}" if cell.low is not None else ""
    return (
        f"N = {count(cell.N)}, D = {count(cell.tokens)} tokens"
        f"<br>gap {signed(cell.mean)} nats{ends}<br>n = {plural(cell.n_seeds, 'seed')}"
    )
