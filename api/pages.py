"""The pages that both front doors give out: a sweep's report, and the index of sweeps."""

from collections.abc import Sequence
from pathlib import Path

from api.schemas import standing
from dashboards import index, report
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.states import State
from orchestrator.summaries import SweepSummary
from sweeps.answer import Answer
from sweeps.claims.judge import Judgement
from sweeps.spec import spec_text

INDEXED = 50
"""Newest sweeps on the index page; GET /v1/sweeps lists all."""


def report_page(service: Service, sweep: str) -> str:
    """The report of a sweep as HTML.

    Raises:
        NotFoundError: If there is no such sweep.
    """
    sweep_id = service.show(sweep).sweep_id
    return answer_page(service, sweep_id, service.answer(sweep_id), service.judgements(sweep_id))


def answer_page(
    service: Service, sweep_id: str, answer: Answer, judgements: Sequence[Judgement]
) -> str:
    """The report of an answer that was read already."""
    return report.render(
        answer,
        name=sweep_id,
        spec=spec_text(service.spec(sweep_id)),
        made_at=service.clock(),
        judgements=judgements,
    )


def report_path(settings: Settings, sweep_id: str) -> Path:
    """Where the report of a sweep lies unless a person says otherwise."""
    return settings.layout.reports / sweep_id / "report.html"


def index_page(service: Service) -> str:
    """The newest sweeps as HTML, each with a link to its report."""
    return index.render([_row(service, sweep) for sweep in service.list()[:INDEXED]])


def _row(service: Service, sweep: SweepSummary) -> index.SweepRow:
    progress = service.progress(sweep.sweep_id)
    return index.SweepRow(
        sweep_id=sweep.sweep_id,
        name=sweep.name,
        state=standing(sweep),
        runs_done=sweep.runs[State.SUCCEEDED] + sweep.runs[State.DIVERGED],
        runs_diverged=sweep.runs[State.DIVERGED],
        runs_failed=sweep.runs[State.FAILED],
        runs_total=sweep.num_runs,
        tokens_done=progress.tokens_done,
        tokens_total=progress.tokens_total,
        submitted_at=sweep.created_at,
        report_href=f"/v1/sweeps/{sweep.sweep_id}/report",
    )
