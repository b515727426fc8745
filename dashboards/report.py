"""Report: what a sweep found, as one HTML page that needs no network and no server.

It opens with the question and the answer in words, then the claims where the sweep file makes any,
the cells, the figures, the fits, what is missing, how the sweep was run, and how to run it again.
All numbers come from the Answer and the judgements; this file only arranges them.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from dashboards import (
    captions,
    claim_bars,
    compute,
    effective_bars,
    gap_bars,
    gap_law,
    loss_curves,
)
from dashboards.claims_sheet import claims_sheet
from dashboards.drawing import Drawing, drawing, payload
from dashboards.fit_sheets import best_sizes_sheet, forms_sheet
from dashboards.format_sheets import effective_sheet, gap_criteria_sheet, gap_laws_sheet
from dashboards.how_run import (
    devices_sheet,
    models_sheet,
    recipes_used_sheet,
    settings_sheets,
)
from dashboards.page import document, source
from dashboards.prediction_sheets import (
    additivity_sheet,
    orders_sheet,
    predicted_sheet,
    signs_sheet,
)
from dashboards.repeats_sheet import repeats_sheet
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
from sweeps.claims.judge import Judgement
from sweeps.claims.sentences import counted, sentences
from sweeps.fits.gap_choice import GapLaws
from sweeps.gaps.summaries import by_gap
from sweeps.measured import measured
from sweeps.records import RunRecord
from sweeps.wording import plural


def render(
    answer: Answer,
    *,
    name: str,
    spec: str,
    made_at: datetime,
    judgements: Sequence[Judgement] = (),
) -> str:
    """The page as HTML.

    Args:
        answer: What the sweep found.
        name: What its owner calls it.
        spec: The sweep file as YAML text, enough to run it again.
        made_at: When the answer was read, timezone-aware.
        judgements: What the runs say of the sweep's claims; empty without claims.
    """
    drawings = (*_claims(judgements), *_drawings(answer))
    sheets = _sheets(answer) | {"claims": claims_sheet(judgements)}
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
        verdict_counts=counted(judgements),
        claims=[(one.claim.name, one.verdict.value, sentences(one)) for one in judgements],
        num_pairs=len(answer.gaps.gaps),
        drawings=drawings,
        sheets=sheets,
        settings=settings,
        worth=[(one.label, one.verdict) for one in answer.formats.effective if one.verdict],
        verdicts=[(fit.label, fit.status.value, fit.verdict) for fit in answer.fits],
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
    worth = effective_bars.effective_bars(answer.records, answer.formats.effective)
    laws = gap_law.gap_law_curves(answer.records, answer.gaps, _gap_laws(answer))
    drawings = [
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
            "gap-law",
            "Gap to BF16 and its law",
            captions.gap_law_caption(laws),
            lambda columns: gap_law.draw(laws, columns=columns),
            gap_law.table(laws),
        ),
        drawing(
            "compute",
            "Loss against compute",
            captions.compute_caption(costs),
            lambda columns: compute.draw(costs, columns=columns),
            compute.table(costs),
        ),
    ]
    if any(number.value is not None for _, number in worth.rows):
        drawings.append(
            drawing(
                "effective",
                "Worth in compute, parameters and data",
                captions.effective_caption(worth),
                lambda columns: effective_bars.draw(worth, columns=columns),
                effective_bars.table(worth),
            )
        )
    return tuple(drawings)


def _gap_laws(answer: Answer) -> tuple[GapLaws, ...]:
    return tuple(one.gap for one in answer.formats.effective if one.gap is not None)


def _claims(judgements: Sequence[Judgement]) -> tuple[Drawing, ...]:
    bars = claim_bars.claim_bars(judgements)
    if not bars:
        return ()
    return (
        drawing(
            "claim-bars",
            "Claims beside what the runs say",
            captions.claims_caption(bars),
            lambda columns: claim_bars.draw(bars, columns=columns),
            claim_bars.table(bars),
        ),
    )


def _sheets(answer: Answer) -> dict[str, Sheet]:
    sheets = (
        recipes_sheet(by_gap(answer.gaps.summaries)),
        repeats_sheet(by_gap(answer.gaps.summaries)),
        cells_sheet(answer),
        fits_sheet(answer.fits),
        forms_sheet(answer.fits),
        best_sizes_sheet(answer.fits),
        effective_sheet(answer.formats.effective),
        gap_laws_sheet(_gap_laws(answer)),
        gap_criteria_sheet(_gap_laws(answer)),
        additivity_sheet(answer.formats.additivity),
        predicted_sheet(answer.formats.predicted),
        orders_sheet(answer.formats.orders),
        signs_sheet(answer.formats.signs),
        not_beaten_sheet(answer.not_beaten),
        unpaired_sheet(answer.gaps.unpaired),
        recipes_used_sheet(answer.records),
        models_sheet(answer.records),
        devices_sheet(answer.records),
        training_sheet(answer.records),
        runs_sheet(answer.records),
    )
    return {sheet.key: sheet for sheet in sheets}
