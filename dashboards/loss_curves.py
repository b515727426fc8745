"""Loss curves: training loss against tokens, one panel for each model size.

    trunk       one line for each run: warm-up and stable phase
    cooldown    one line for each horizon, starting at the trunk's last point before it leaves
    endpoint    filled marker: validation loss at exactly the horizon
    diverged    cross at the last reported point, which is the last finite one

Training loss is the mean since the previous report, nats per token; tokens D count from the start
along the path to the point. Long lines are thinned to at most `MOST_POINTS`: first and last stay,
and in each of the equal stretches between them the lowest and the highest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels, log_ticks
from dashboards.plotted import Plotted, Value
from dashboards.subject import SUBJECT_COLUMNS, Model, Subject, models_of, recipes_of
from dashboards.theme import Style, styles
from dashboards.wording import count, drawn, nats
from kernels.recipes import Recipe
from sweeps.measured import measured
from sweeps.metrics import StepMetrics
from sweeps.records import Outcome, RunRecord

MOST_POINTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The trunk of a run or one of its cooldown branches.

    Attributes:
        of: The run.
        horizon: Token budget of the branch, None for the trunk.
        tokens: D of each point.
        loss: Training loss, nats per token.
        num_measured: Points before thinning.
    """

    of: Subject
    horizon: int | None
    tokens: tuple[int, ...]
    loss: tuple[float, ...]
    num_measured: int

    @property
    def path(self) -> str:
        """`trunk` or the branch's name."""
        return "trunk" if self.horizon is None else f"cooldown to {count(self.horizon)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An endpoint (validation loss), or the place where a run diverged (training loss)."""

    of: Subject
    tokens: int
    loss: float
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCurves:
    """What the figure shows.

    Attributes:
        recipes: BF16 first, then in the order of the records.
        models: Smallest first.
        lines: Trunks and branches.
        endpoints: Measured horizons.
        diverged: Last finite points of runs that diverged.
        unigram_entropy: Of the training tokens, nats per token, if it lies among the losses.
    """

    recipes: tuple[Recipe, ...]
    models: tuple[Model, ...]
    lines: tuple[Line, ...]
    endpoints: tuple[Mark, ...]
    diverged: tuple[Mark, ...]
    unigram_entropy: float | None

    @property
    def num_drawn(self) -> int:
        """Points of the lines as drawn."""
        return sum(len(line.tokens) for line in self.lines)

    @property
    def num_measured(self) -> int:
        """Points of the lines before thinning."""
        return sum(line.num_measured for line in self.lines)


def loss_curves(records: Sequence[RunRecord]) -> LossCurves:
    """Numbers of the figure."""
    lines = tuple(line for record in records for line in _lines(record))
    points = [
        (Subject.of(record), point)
        for record in records
        for tokens in record.horizons
        if (point := measured(record, tokens)) is not None
    ]
    losses = [loss for line in lines for loss in line.loss]
    entropies = [point.unigram_entropy for _, point in points]
    entropy = sum(entropies) / len(entropies) if entropies else None
    in_range = entropy is not None and losses and min(losses) <= entropy <= max(losses)
    return LossCurves(
        recipes=recipes_of(records),
        models=models_of(records),
        lines=lines,
        endpoints=tuple(Mark(of=of, tokens=point.tokens, loss=point.loss) for of, point in points),
        diverged=tuple(
            Mark(
                of=Subject.of(record),
                tokens=record.curve[-1].tokens,
                loss=record.curve[-1].loss,
                detail=record.detail,
            )
            for record in records
            if record.outcome is Outcome.DIVERGED and record.curve
        ),
        unigram_entropy=entropy if in_range else None,
    )


def table(numbers: LossCurves) -> Plotted:
    """All points that are drawn."""
    rows: list[tuple[Value, ...]] = []
    for line in numbers.lines:
        kind = "trunk" if line.horizon is None else "cooldown"
        head = (*line.of.row, kind, line.horizon)
        rows += [(*head, *point) for point in zip(line.tokens, line.loss, strict=True)]
    for mark in numbers.endpoints:
        rows.append((*mark.of.row, "endpoint", mark.tokens, mark.tokens, mark.loss))
    for mark in numbers.diverged:
        rows.append((*mark.of.row, "diverged", None, mark.tokens, mark.loss))
    columns = (*SUBJECT_COLUMNS, "kind", "horizon_tokens", "tokens", "loss_nats_per_token")
    return Plotted(columns, rows)


def draw(numbers: LossCurves, *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """Figure with at most `columns` panels side by side."""
    style = styles(numbers.recipes)
    panels = Panels.of(
        [f"<b>{drawn(model.name)}</b>  N = {count(model.N)}" for model in numbers.models],
        columns=columns,
        legend=[drawn(recipe.name) for recipe in numbers.recipes],
    )
    for panel, model in enumerate(numbers.models):
        for name, one in style.items():
            who = (model, name)
            lines = [line for line in numbers.lines if (line.of.model, line.of.recipe) == who]
            ends = [mark for mark in numbers.endpoints if (mark.of.model, mark.of.recipe) == who]
            crosses = [mark for mark in numbers.diverged if (mark.of.model, mark.of.recipe) == who]
            _add_lines(panels, panel, [ln for ln in lines if ln.horizon is None], one, width=1.8)
            _add_lines(
                panels, panel, [ln for ln in lines if ln.horizon is not None], one, width=1.1
            )
            _add_marks(panels, panel, ends, one)
            _add_crosses(panels, panel, crosses, one)
    panels.add_legend(style)
    return _finished(panels, numbers)


def _lines(record: RunRecord) -> list[Line]:
    paths: dict[int | None, list[StepMetrics]] = {}
    for point in record.curve:
        paths.setdefault(point.horizon, []).append(point)
    trunk = paths.get(None, [])
    lines = []
    for horizon, points in paths.items():
        if horizon is not None:
            leaves = record.spec.branch_tokens(horizon)
            points = [*[point for point in trunk if point.tokens <= leaves][-1:], *points]
        kept = _thinned(points)
        lines.append(
            Line(
                of=Subject.of(record),
                horizon=horizon,
                tokens=tuple(point.tokens for point in kept),
                loss=tuple(point.loss for point in kept),
                num_measured=len(points),
            )
        )
    return lines


def _thinned(points: list[StepMetrics]) -> list[StepMetrics]:
    if len(points) <= MOST_POINTS:
        return points
    stretches = MOST_POINTS // 2 - 1
    inner = range(1, len(points) - 1)
    keep = {0, len(points) - 1}
    for k in range(stretches):
        part = inner[len(inner) * k // stretches : len(inner) * (k + 1) // stretches]
        keep.add(min(part, key=lambda i: points[i].loss))
        keep.add(max(part, key=lambda i: points[i].loss))
    return [points[i] for i in sorted(keep)]


def _add_lines(
    panels: Panels, panel: int, lines: list[Line], style: Style, *, width: float
) -> None:
    if not lines:
        return
    x: list[int | None] = []
    y: list[float | None] = []
    said: list[str] = []
    for line in lines:  # one trace with gaps: hundreds of traces are slow in the browser
        x += [*line.tokens, None]
        y += [*line.loss, None]
        said += [f"<b>{drawn(line.of.label)}</b>  {line.path}"] * (len(line.tokens) + 1)
    panels.add(
        panel,
        go.Scatter(
            x=x,
            y=y,
            mode="lines",
            line={"color": style.colour, "dash": style.dash, "width": width},
            connectgaps=False,
            customdata=said,
            hovertemplate="%{customdata}<br>D = %{x:.4s} tokens<br>training loss %{y:.4f}"
            "<extra></extra>",
            legendgroup=style.recipe,
            showlegend=False,
        ),
    )


def _add_marks(panels: Panels, panel: int, marks: list[Mark], style: Style) -> None:
    if not marks:
        return
    panels.add(
        panel,
        go.Scatter(
            x=[mark.tokens for mark in marks],
            y=[mark.loss for mark in marks],
            mode="markers",
            marker={"color": style.colour, "symbol": style.symbol, "size": 8},
            customdata=[drawn(mark.of.label) for mark in marks],
            hovertemplate="<b>%{customdata}</b>  endpoint<br>D = %{x:.4s} tokens"
            "<br>validation loss %{y:.4f}<extra></extra>",
            legendgroup=style.recipe,
            showlegend=False,
        ),
    )


def _add_crosses(panels: Panels, panel: int, marks: list[Mark], style: Style) -> None:
    said = [
        f"<b>{drawn(mark.of.label)}</b>  diverged<br>D = {count(mark.tokens)} tokens"
        f"<br>last training loss {nats(mark.loss)}<br>{drawn(mark.detail)}"
        for mark in marks
    ]
    if marks:
        panels.add_crosses(panel, [m.tokens for m in marks], [m.loss for m in marks], said, style)


def _finished(panels: Panels, numbers: LossCurves) -> go.Figure:
    tokens = [D for line in numbers.lines for D in line.tokens if D > 0]
    figure = panels.titled(x="training tokens D", y="training loss (nats per token)")
    if numbers.unigram_entropy is not None:
        panels.reference(numbers.unigram_entropy, "unigram entropy")
    if not tokens:
        return panels.empty("No training loss has been reported yet.")
    ticks = log_ticks(min(tokens), max(tokens), most=6)
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[count(value) for value in ticks])
    return figure
