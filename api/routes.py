"""The REST routes: each asks the service one thing and says it as JSON or a page.

    POST /v1/plans                    what a sweep would take; stores nothing
    POST /v1/sweeps                   submit: 201 when new, 200 when it was there
    GET  /v1/sweeps                   newest first, by keyset pages
    GET  /v1/sweeps/{sweep}           one sweep with its progress and spec
    GET  /v1/sweeps/{sweep}/runs      its runs
    GET  /v1/sweeps/{sweep}/gaps      paired gaps to BF16
    GET  /v1/sweeps/{sweep}/claims    the verdict on each claim
    GET  /v1/sweeps/{sweep}/report    the page of a sweep
    POST /v1/sweeps/{sweep}/cancel    ask it to stop
    POST /v1/sweeps/{sweep}/retry     queue again what failed or was cancelled
    GET  /healthz, GET /              whether the server works; the page of all sweeps

`fit_routes` has those of fits and exports, `design_routes` those of planning. `{sweep}` is an id, a
unique name, or the unique start of an id.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse

from api import design_routes, fit_routes
from api.body import SpecBody
from api.claim_views import ClaimsView
from api.cursor import page
from api.errors import declare
from api.gap_views import GapsView
from api.openapi import SPEC_BODY
from api.pages import index_page, report_page
from api.schemas import (
    Health,
    PlanView,
    RunsView,
    RunView,
    SweepDetail,
    SweepPage,
    SweepView,
)
from api.served import Served, Sweep
from orchestrator.service import lay_out
from sweeps.answer import answer

router = APIRouter()
ROUTERS = (router, fit_routes.router, design_routes.router)
"""All routes: included by the application, not by each other, so that they can be listed."""

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=256)]
Level = Annotated[float, Query(gt=0.5, lt=1, description="Of intervals and tests.")]
Margin = Annotated[float, Query(gt=0, description="Nats per token that count as no gap.")]
Floors = Annotated[bool, Query(description="Also test whether a recipe needs an E of its own.")]

READS = declare(404, 422)
TAKES_SPEC = declare(409, 413, 415, 422, 507)


@router.post("/v1/plans", responses=TAKES_SPEC, openapi_extra=SPEC_BODY)
def plan(service: Served, spec: SpecBody) -> PlanView:
    """Lay a sweep out: cells, runs, what is reused, tokens, FLOPs and time left."""
    laid_out = lay_out(spec)
    return PlanView.of(laid_out, service.price(laid_out))


@router.post(
    "/v1/sweeps",
    status_code=201,
    responses=TAKES_SPEC | {200: {"model": SweepView, "description": "It was there already."}},
    openapi_extra=SPEC_BODY,
)
def submit(service: Served, spec: SpecBody, response: Response) -> SweepView:
    """Submit a sweep; the same sweep again queues only what is missing."""
    asked_at = service.clock()
    summary = service.submit(lay_out(spec))
    response.headers["location"] = f"/v1/sweeps/{summary.sweep_id}"
    response.status_code = 201 if summary.created_at >= asked_at else 200
    return SweepView.of(summary)


@router.get("/v1/sweeps", responses=declare(422))
def list_sweeps(service: Served, limit: Limit = 50, cursor: Cursor = None) -> SweepPage:
    """All sweeps, newest first; follow `next_cursor` for more."""
    shown, next_cursor = page(service.list(), cursor, limit)
    return SweepPage(sweeps=[SweepView.of(sweep) for sweep in shown], next_cursor=next_cursor)


@router.get("/v1/sweeps/{sweep}", responses=READS)
def show(service: Served, sweep: Sweep) -> SweepDetail:
    """One sweep with its progress and its spec."""
    summary = service.show(sweep)
    spec = service.spec(summary.sweep_id).model_dump(mode="json")
    return SweepDetail.with_progress(summary, service.progress(summary.sweep_id), spec)


@router.get("/v1/sweeps/{sweep}/runs", responses=READS)
def runs(service: Served, sweep: Sweep) -> RunsView:
    """The runs of a sweep in plan order."""
    sweep_id = service.show(sweep).sweep_id
    return RunsView(sweep_id=sweep_id, runs=[RunView.of(run) for run in service.runs(sweep_id)])


@router.get("/v1/sweeps/{sweep}/gaps", responses=READS)
def gaps(
    service: Served,
    sweep: Sweep,
    level: Level = 0.95,
    margin: Margin = 0.01,
    floors: Floors = False,
) -> GapsView:
    """Every planned endpoint and its gap to BF16, how sure it is, and what has no pair."""
    sweep_id = service.show(sweep).sweep_id
    records = service.records(sweep_id)
    return GapsView.of(sweep_id, answer(records, level=level, margin=margin, floors=floors))


@router.get("/v1/sweeps/{sweep}/claims", responses=READS)
def claims(service: Served, sweep: Sweep) -> ClaimsView:
    """What the runs say of each claim, and which runs would decide the open ones."""
    sweep_id = service.show(sweep).sweep_id
    return ClaimsView.of(sweep_id, service.judgements(sweep_id))


@router.get("/v1/sweeps/{sweep}/report", responses=READS, response_class=HTMLResponse)
def report(service: Served, sweep: Sweep) -> HTMLResponse:
    """The report of a sweep, from what is measured so far."""
    return HTMLResponse(report_page(service, sweep))


@router.post("/v1/sweeps/{sweep}/cancel", status_code=202, responses=READS)
def cancel(service: Served, sweep: Sweep) -> SweepView:
    """Ask a sweep to stop; runs that another sweep wants go on. A sweep that is over stays."""
    return SweepView.of(service.cancel(sweep))


@router.post("/v1/sweeps/{sweep}/retry", status_code=202, responses=READS)
def retry(service: Served, sweep: Sweep) -> SweepView:
    """Queue again what failed or was cancelled in a sweep."""
    return SweepView.of(service.retry(sweep))


@router.get("/healthz", responses=declare(507))
def health(service: Served) -> Health:
    """Whether the server answers and its store can be read."""
    service.list()
    return Health(time=service.clock())


@router.get("/", response_class=HTMLResponse, responses=declare())
def index(service: Served) -> HTMLResponse:
    """The page of the newest sweeps."""
    return HTMLResponse(index_page(service))
