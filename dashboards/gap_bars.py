"""Gap bars: how far each recipe ends from BF16, one panel for each model, one group for each D.

    gap = L(recipe) - L(bf16)    nats per token, two runs that differ in the recipe alone

A bar is the mean over seeds. With two seeds or more every seed is a dot. Whiskers are the 95 % t
interval of the mean over seeds, its noise pooled over the recipe's cells; a recipe without a
repeated seed has none. A cell that has diverged runs and no gap is a hatched bar that says so;
it is as high as the highest mark of the figure and its height means nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels
from dashboards.plotted import Plotted, Value
from dashboards.subject import Model, models_of, recipes_of
from dashboards.theme import Style, styles
from dashboards.wording import count, counts, drawn, interval, nats, percent, signed
from kernels.recipes import Recipe
from sweeps.gaps.cell_gaps import CellGap
from sweeps.gaps.certainty import Certainty
from sweeps.gaps.pair import GapTable
from sweeps.gaps.paired import Gap, Missing
from sweeps.records import RunRecord
from sweeps.wording import plural

_MOST_LABELLED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One recipe in one cell.

    Attributes:
        model: The cell's model.
        tokens: The cell's D.
        budget: It in words, unlike that of any other D of the figure.
        recipe: Name of the recipe.
        mean: Mean gap over seeds, nats per token; None when no pair has both endpoints.
        low: Lower end of the 95 % t interval of the mean; None without repeated seeds.
        high: Upper end of it.
        certainty: What else the repeats say; None without them.
        relative: Mean over seeds of the gap in percent of the baseline's loss.
        seeds: (seed, gap) of each pair.
        num_diverged: Runs of the cell that diverged.
    """

    model: Model
    tokens: int
    budget: str
    recipe: str
    mean: float | None
    low: float | None
    high: float | None
    certainty: Certainty | None
    relative: float | None
    seeds: tuple[tuple[int, float], ...]
    num_diverged: int

    @property
    def words(self) -> str:
        """What the hover says below the name of the recipe."""
        lost = f", {self.num_diverged} diverged" if self.num_diverged else ""
        if self.mean is None:
            return f"{plural(self.num_diverged, 'run')} diverged, no gap"
        return (
            f"gap {signed(self.mean)} nats ({percent(self.relative)}){self._sure}"
            f"<br>n = {plural(len(self.seeds), 'seed')}{lost}"
        )

    @property
    def _sure(self) -> str:
        if self.certainty is None:
            return ""
        test = self.certainty.equivalence
        return (
            f"<br>95 % interval {interval(self.low, self.high)}"
            f"<br>beside a margin of {test.margin:g}: {test.verdict.value}"
            f"<br>detects {nats(self.certainty.detectable)} with 80 % power"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GapBars:
    """What the figure shows.

    Attributes:
        recipes: Quantized ones, in the order of the records.
        models: Smallest first.
        bars: By model, tokens and recipe.
    """

    recipes: tuple[Recipe, ...]
    models: tuple[Model, ...]
    bars: tuple[Bar, ...]

    @property
    def top(self) -> float:
        """Highest mark, nats per token; 1 when nothing has a positive one."""
        marks = [value for bar in self.bars for _, value in bar.seeds]
        marks += [bar.high for bar in self.bars if bar.high is not None]
        return max([mark for mark in marks if mark > 0], default=1.0)


Cell = tuple[Model, int, str]


def gap_bars(records: Sequence[RunRecord], gaps: GapTable) -> GapBars:
    """Numbers of the figure; cells with neither a gap nor a diverged run have no bar."""
    recipes = tuple(recipe for recipe in recipes_of(records) if not recipe.is_bf16)
    pairs: dict[Cell, list[Gap]] = {}
    for gap in gaps.gaps:
        pairs.setdefault((Model(N=gap.N, name=gap.model), gap.tokens, gap.recipe), []).append(gap)
    diverged: dict[Cell, int] = {}
    for lost in gaps.unpaired:
        if lost.reason is Missing.DIVERGED:
            cell = (Model(N=lost.N, name=lost.model), lost.tokens, lost.recipe)
            diverged[cell] = diverged.get(cell, 0) + 1
    intervals = {
        (Model(N=cell.N, name=cell.model), cell.tokens, summary.recipe): cell
        for summary in gaps.summaries
        for cell in summary.cells
    }
    order = [recipe.name for recipe in recipes]
    budgets = counts(tokens for _, tokens, _ in (*pairs, *diverged))
    cells = sorted({*pairs, *diverged}, key=lambda cell: (*cell[:2], order.index(cell[2])))
    return GapBars(
        recipes=recipes,
        models=models_of(records),
        bars=tuple(
            _bar(cell, budgets, pairs.get(cell, []), intervals.get(cell), diverged.get(cell, 0))
            for cell in cells
        ),
    )


def table(numbers: GapBars) -> Plotted:
    """A row for each bar and a row for each seed."""
    columns = (
        *("kind", "model", "N_non_embedding", "tokens", "recipe", "seed"),
        *("gap_nats_per_token", "low_95", "high_95", "gap_percent", "n_seeds", "n_diverged"),
        *("detectable_nats_80_power", "margin_nats", "beside_margin"),
    )
    rows: list[tuple[Value, ...]] = []
    for bar in numbers.bars:
        head = (bar.model.name, bar.model.N, bar.tokens, bar.recipe)
        kind = "diverged" if bar.mean is None else "mean"
        numbers_of = (bar.mean, bar.low, bar.high, bar.relative, len(bar.seeds), bar.num_diverged)
        rows.append((kind, *head, None, *numbers_of, *_tested(bar.certainty)))
        rows += [("seed", *head, seed, gap, *[None] * 8) for seed, gap in bar.seeds]
    return Plotted(columns, rows)


def draw(numbers: GapBars, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """Figure with at most `columns` panels side by side."""
    style = styles(numbers.recipes)
    panels = Panels.of(
        [f"<b>{drawn(model.name)}</b>  N = {count(model.N)}" for model in numbers.models],
        columns=columns,
        legend=[drawn(name) for name in style],
    )
    figure = panels.titled(x="training tokens D", y="gap to BF16 (nats per token)")
    if not numbers.bars:
        return panels.empty("No endpoint has a BF16 partner yet.")
    for name, one in style.items():
        swatch = go.Bar(
            x=[None],
            y=[None],
            name=drawn(name),
            legendgroup=name,
            offsetgroup=name,
            marker=_fill(one),
        )
        panels.add(0, swatch)
    for panel, model in enumerate(numbers.models):
        here = [bar for bar in numbers.bars if bar.model == model]
        for name, one in style.items():
            bars = [bar for bar in here if bar.recipe == name]
            labelled = len(here) <= _MOST_LABELLED
            _add_means(panels, panel, [b for b in bars if b.mean is not None], one, labelled)
            _add_seeds(panels, panel, [bar for bar in bars if len(bar.seeds) > 1], one)
            _add_hatched(panels, panel, [b for b in bars if b.mean is None], one, numbers.top)
        panels.x_axis(panel).update(
            type="category",
            categoryorder="array",
            categoryarray=list(dict.fromkeys(bar.budget for bar in here)),
        )
    if all(bar.mean is None for bar in numbers.bars):
        figure.update_yaxes(showticklabels=False)
    figure.update_layout(barmode="group", scattermode="group", bargap=0.25, scattergap=0.25)
    return figure


def _bar(
    cell: Cell,
    budgets: dict[int, str],
    pairs: list[Gap],
    summary: CellGap | None,
    num_diverged: int,
) -> Bar:
    model, tokens, recipe = cell
    n = len(pairs)
    return Bar(
        model=model,
        tokens=tokens,
        budget=budgets[tokens],
        recipe=recipe,
        mean=sum(gap.gap for gap in pairs) / n if n else None,
        low=summary.low if summary is not None else None,
        high=summary.high if summary is not None else None,
        certainty=summary.certainty if summary is not None else None,
        relative=sum(gap.relative for gap in pairs) / n if n else None,
        seeds=tuple((gap.seed, gap.gap) for gap in pairs),
        num_diverged=num_diverged,
    )


def _tested(sure: Certainty | None) -> tuple[Value, ...]:
    if sure is None:
        return None, None, None
    return sure.detectable, sure.equivalence.margin, sure.equivalence.verdict.value


def _fill(style: Style) -> dict[str, object]:
    return {"color": style.colour, "pattern": {"shape": style.pattern, "size": 6}}


def _add_means(panels: Panels, panel: int, bars: list[Bar], style: Style, labelled: bool) -> None:
    if not bars:
        return
    means = [bar.mean or 0.0 for bar in bars]
    certain = any(bar.low is not None for bar in bars)
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": [_beyond(bar.high, mean) for bar, mean in zip(bars, means, strict=True)],
        "arrayminus": [-_beyond(bar.low, mean) for bar, mean in zip(bars, means, strict=True)],
        "thickness": 1.4,
        "width": 5,
    }
    panels.add(
        panel,
        go.Bar(
            x=[bar.budget for bar in bars],
            y=means,
            error_y=whiskers if certain else None,
            marker=_fill(style),
            text=[signed(mean) for mean in means] if labelled and not certain else None,
            textposition="outside",
            textfont={"size": 11},
            cliponaxis=False,
            customdata=[[drawn(bar.recipe), bar.words] for bar in bars],
            hovertemplate="<b>%{customdata[0]}</b>  D = %{x}<br>%{customdata[1]}<extra></extra>",
            legendgroup=style.recipe,
            offsetgroup=style.recipe,
            showlegend=False,
        ),
    )


def _beyond(end: float | None, mean: float) -> float:
    return 0.0 if end is None else end - mean


def _add_seeds(panels: Panels, panel: int, bars: list[Bar], style: Style) -> None:
    if not bars:
        return
    dots = [(bar, seed, gap) for bar in bars for seed, gap in bar.seeds]
    panels.add(
        panel,
        go.Scatter(
            x=[bar.budget for bar, _, _ in dots],
            y=[gap for _, _, gap in dots],
            mode="markers",
            marker={
                "color": "#ffffff",
                "size": 6,
                "line": {"color": style.colour, "width": 1.5},
            },
            customdata=[[drawn(bar.recipe), seed, signed(gap)] for bar, seed, gap in dots],
            hovertemplate="<b>%{customdata[0]}</b>  seed %{customdata[1]}"
            "<br>gap %{customdata[2]} nats<extra></extra>",
            legendgroup=style.recipe,
            offsetgroup=style.recipe,
            showlegend=False,
        ),
    )


def _add_hatched(panels: Panels, panel: int, bars: list[Bar], style: Style, height: float) -> None:
    if not bars:
        return
    panels.add(
        panel,
        go.Bar(
            x=[bar.budget for bar in bars],
            y=[height] * len(bars),
            marker={
                "color": style.faint(0.06),
                "line": {"color": style.colour, "width": 1},
                "pattern": {"shape": "/", "fgcolor": style.faint(0.55), "size": 7, "solidity": 0.2},
            },
            text=["diverged"] * len(bars),
            textposition="inside",
            insidetextanchor="middle",
            textangle=-90,
            insidetextfont={"size": 12, "color": style.colour},
            customdata=[[drawn(bar.recipe), bar.words] for bar in bars],
            hovertemplate="<b>%{customdata[0]}</b>  D = %{x}<br>%{customdata[1]}<extra></extra>",
            legendgroup=style.recipe,
            offsetgroup=style.recipe,
            showlegend=False,
        ),
    )
