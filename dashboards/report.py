"""Report: what a sweep found, as one HTML page that needs no network and no server.

It opens with the question and the answer in words, then the cells, the three figures, the fits,
what is missing, how the sweep was run, and how to run it again. All numbers come from the Answer;
this file only arranges them.
"""

from collections import Counter
from datetime import UTC, datetime

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from dashboards import captions, compute, gap_bars, loss_curves
from dashboards.drawing import Drawing, drawing, payload
from dashboards.how_run import (
    devices_sheet,
    models_sheet,
    recipes_used_sheet,
    settings_sheets,
)
from dashboards.page import document, source
from dashboards.sheets import (
    Sheet,
    cells_sheet,
    fits_sheet,
    not_beaten_sheet,
    recipes_sheet,
    runs_sheet,
    unpaired_sheet,
)
from dashboards.training_sheet import training_sheet
from sweeps.answer import Answer
from sweeps.measured import measured
from sweeps.records import RunRecord
from sweeps.wording import plural


def render(answer: Answer, *, name: str, spec: str, made_at: datetime) -> str:
    """The page as HTML.

    Args:
        answer: What the sweep found.
        name: What its owner calls it.
        spec: The sweep file as YAML text, enough to run it again.
        made_at: When the answer was read, timezone-aware.
    """
    drawings = _drawings(answer)
    sheets = _sheets(answer)
    texts = {one.key: one.plotted.csv() for one in drawings}
    texts |= {sheet.key: sheet.csv for sheet in sheets.values()}
    settings = settings_sheets(answer.records)
    return document(
        "report.html",
        scripts=(source("theme.js"), get_plotlyjs(), source("report.js")),
        name=name,
        spec=spec,
        made_at=made_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        progress=progress(answer.records),
        headline=answer.headline,
        sentences=answer.sentences,
        num_pairs=len(answer.gaps.gaps),
        drawings=drawings,
        sheets=sheets,
        settings=settings,
        verdicts=[(fit.recipe, fit.status.value, fit.verdict) for fit in answer.fits],
        payload=Markup(payload(drawings, texts | {"spec": spec})),
    )


def progress(records: tuple[RunRecord, ...]) -> str:
    """`18 runs (16 succeeded, 2 diverged), 34 of 36 endpoints measured`."""
    outcomes = Counter(record.outcome.value for record in records)
    split = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
    asked = sum(len(record.horizons) for record in records)
    done = sum(
        measured(record, tokens) is not None for record in records for tokens in record.horizons
    )
    runs = plural(len(records), "run") + (f" ({split})" if split else "")
    return f"{runs}, {done} of {plural(asked, 'endpoint')} measured"


def _drawings(answer: Answer) -> tuple[Drawing, ...]:
    curves = loss_curves.loss_curves(answer.records)
    bars = gap_bars.gap_bars(answer.records, answer.gaps)
    costs = compute.compute_curves(answer.records, answer.fits)
    return (
        drawing(
            "loss-curves",
            "Loss against tokens",
            captions.loss_caption(curves),
            lambda columns: loss_curves.draw(curves, columns=columns),
            loss_curves.table(curves),
        ),
        drawing(
            "gap-bars",
            "Gap to BF16",
            captions.gap_caption(bars),
            lambda columns: gap_bars.draw(bars, columns=columns),
            gap_bars.table(bars),
        ),
        drawing(
            "compute",
            "Loss against compute",
            captions.compute_caption(costs),
            lambda columns: compute.draw(costs, columns=columns),
            compute.table(costs),
        ),
    )


def _sheets(answer: Answer) -> dict[str, Sheet]:
    sheets = (
        recipes_sheet(answer.gaps.summaries),
        cells_sheet(answer),
        fits_sheet(answer.fits),
        not_beaten_sheet(answer.not_beaten),
        unpaired_sheet(answer.gaps.unpaired),
        recipes_used_sheet(answer.records),
        models_sheet(answer.records),
        devices_sheet(answer.records),
        training_sheet(answer.records),
        runs_sheet(answer.records),
    )
    return {sheet.key: sheet for sheet in sheets}
