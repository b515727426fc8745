"""Claim bars: each claim of a sweep as a contrast with its interval, beside where it should lie.

    value    contrast of gaps, nats per token: that of the part on which the verdict hangs
    whisker  t interval over seeds at the level of the claim

One row for each claim. Triangles stand at the ends of the region that is claimed and point into it;
hollow dots are the mean over seeds in each model. Colour and symbol say the verdict.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import plotly.graph_objects as go

from dashboards.facets import WIDE_COLUMNS, Panels
from dashboards.plotted import Plotted, Value
from dashboards.theme import BASELINE_COLOUR, COLOURS
from dashboards.wording import drawn, signed
from sweeps.claims.judge import Judgement, Verdict
from sweeps.claims.sentences import p_text, place, seeds_text, where

MARKS = {
    Verdict.SUPPORTED: (COLOURS[0], "circle"),
    Verdict.CONTRADICTED: (COLOURS[1], "x"),
    Verdict.UNDECIDED: (BASELINE_COLOUR, "square"),
}
_ROW, _ROOM = 26, 90


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBar:
    """One claim.

    Attributes:
        name: Of the claim.
        verdict: What came of it.
        value: Contrast, nats per token; None where it cannot be judged.
        low: Lower end of its interval.
        high: Upper end of it.
        bounds: Ends of the region that is claimed; infinite where it has none.
        is_outside: Whether the claim puts the contrast outside them.
        models: Mean contrast over seeds in each model of that part, by name.
        words: What the hover says.
    """

    name: str
    verdict: Verdict
    value: float | None
    low: float | None
    high: float | None
    bounds: tuple[float, float]
    is_outside: bool
    models: tuple[tuple[str, float], ...]
    words: str


def claim_bars(judgements: Sequence[Judgement]) -> tuple[ClaimBar, ...]:
    """Numbers of the figure, in the order of the claims."""
    return tuple(map(_bar, judgements))


def table(bars: Sequence[ClaimBar]) -> Plotted:
    """A row for each claim and a row for each model of it."""
    columns = ("kind", "claim", "model", "verdict", "contrast_nats_per_token", "low", "high")
    rows: list[tuple[Value, ...]] = []
    for bar in bars:
        head = (bar.name, None, bar.verdict.value, bar.value, bar.low, bar.high, *bar.bounds)
        rows.append(("claim", *head))
        rows += [
            ("model", bar.name, model, None, value, *[None] * 4) for model, value in bar.models
        ]
    return Plotted((*columns, "claimed_above", "claimed_below"), rows)


def draw(bars: Sequence[ClaimBar], *, columns: int = WIDE_COLUMNS) -> go.Figure:
    """Figure of one panel."""
    panels = Panels.of([], columns=columns, legend=[verdict.value for verdict in Verdict])
    unit = "nats per token"  # names of claims leave a narrow figure no room for more
    figure = panels.titled(x=unit if columns == 1 else f"contrast of gaps ({unit})", y="")
    if not any(bar.value is not None for bar in bars):
        return panels.empty("No claim can be judged yet.")
    for verdict in Verdict:
        panels.add(0, _dots([bar for bar in bars if bar.verdict is verdict], verdict))
    panels.add(0, _models(bars))
    panels.add(0, _bounds(bars))
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=[drawn(bar.name) for bar in bars],
        autorange="reversed",
        automargin=True,
    )
    top = int(figure.layout.margin.t)
    figure.update_layout(height=top + _ROOM + _ROW * len(bars))
    return figure


def _bar(judgement: Judgement) -> ClaimBar:
    part, statement = judgement.decisive, judgement.claim.parsed()
    found = None if part is None else part.estimate
    head = f"{drawn(judgement.claim.statement)}<br>{place(judgement.claim)}"
    words = f"{head}<br>{judgement.verdict}: {drawn(judgement.reason)}"
    if part is not None and found is not None:
        words = (
            f"{head}<br>{judgement.verdict}: {signed(found.value)} "
            f"[{signed(found.low)}, {signed(found.high)}] nats, {100 * judgement.claim.level:g} %"
            f"<br>{where(part)}, n = {seeds_text(part.n_seeds)}; p {p_text(judgement.p)}, "
            f"by Holm {p_text(judgement.p_holm)}"
        )
    strata = () if part is None else part.strata
    return ClaimBar(
        name=judgement.claim.name,
        verdict=judgement.verdict,
        value=None if found is None else found.value,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        bounds=(statement.low, statement.high),
        is_outside=statement.is_outside,
        models=tuple(
            (stratum.model, sum(stratum.values) / len(stratum.values)) for stratum in strata
        )
        if len(strata) > 1
        else (),
        words=words,
    )


def _dots(bars: Sequence[ClaimBar], verdict: Verdict) -> go.Scatter:
    colour, symbol = MARKS[verdict]
    known = [
        (bar, bar.value, bar.low, bar.high)
        for bar in bars
        if bar.value is not None and bar.low is not None and bar.high is not None
    ]
    return go.Scatter(
        x=_shown([value for _, value, _, _ in known]),
        y=_shown([drawn(bar.name) for bar, _, _, _ in known]),
        name=verdict.value,
        mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 10},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [high - value for _, value, _, high in known],
            "arrayminus": [value - low for _, value, low, _ in known],
            "thickness": 1.6,
            "width": 5,
        },
        customdata=[bar.words for bar, _, _, _ in known],
        hovertemplate="<b>%{y}</b><br>%{customdata}<extra></extra>",
    )


def _models(bars: Sequence[ClaimBar]) -> go.Scatter:
    dots = [(bar.name, *one) for bar in bars for one in bar.models]
    return go.Scatter(
        x=_shown([value for _, _, value in dots]),
        y=_shown([drawn(name) for name, _, _ in dots]),
        mode="markers",
        marker={"symbol": "circle-open", "size": 6, "color": BASELINE_COLOUR},
        customdata=[[drawn(model), signed(value)] for _, model, value in dots],
        hovertemplate="%{customdata[0]}: %{customdata[1]} nats<extra></extra>",
        showlegend=False,
    )


def _bounds(bars: Sequence[ClaimBar]) -> go.Scatter:
    """Each finite end of a region, pointing into it."""
    ends = [
        (bar.name, end, "triangle-right" if is_lower is not bar.is_outside else "triangle-left")
        for bar in bars
        for end, is_lower in zip(bar.bounds, (True, False), strict=True)
        if isfinite(end)
    ]
    return go.Scatter(
        x=_shown([end for _, end, _ in ends]),
        y=_shown([drawn(name) for name, _, _ in ends]),
        mode="markers",
        marker={"symbol": [symbol for _, _, symbol in ends], "size": 11, "color": BASELINE_COLOUR},
        hovertemplate="claimed on the side of the tip: %{x:.4f} nats<extra></extra>",
        showlegend=False,
    )


def _shown(values: Sequence[float | str]) -> Sequence[float | str | None]:
    """The values, or one that is not drawn, as a trace without any would leave the legend."""
    return values or (None,)
