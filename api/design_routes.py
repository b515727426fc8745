"""The REST routes of planning: which runs to make next, and what a sweep will resolve.

GET  /v1/sweeps/{sweep}/next    runs that narrow a quantity most, or would decide a claim
POST /v1/power                  gaps and claims that a sweep will tell from nothing; stores nothing
"""

from typing import Annotated

from fastapi import APIRouter, Query

from api.body import SpecBody
from api.design_asks import ask_next, ask_power
from api.design_views import NextView, PowerView
from api.errors import declare
from api.openapi import SPEC_BODY
from api.served import Served, Sweep

router = APIRouter()

Want = Annotated[
    str, Query(max_length=256, description="As in `gap(ufp4) at N=1e9, D=20e9` or `claim NAME`.")
]
Flops = Annotated[float | None, Query(gt=0, le=1e30, description="FLOPs to spend.")]
Sd = Annotated[
    float | None, Query(ge=1e-6, le=10, description="S.d. of a pair's gap between seeds, nats.")
]
Gap = Annotated[float | None, Query(gt=0, le=100, description="A gap to be found, nats.")]
Level = Annotated[float, Query(ge=0.5, le=0.9999, description="Of the two-sided test.")]


@router.get("/v1/sweeps/{sweep}/next", responses=declare(404, 422))
def next_runs(
    service: Served, sweep: Sweep, want: Want, budget: Flops = None, sd: Sd = None
) -> NextView:
    """Which runs to make next, their FLOPs, and the interval now and after."""
    sweep_id = service.show(sweep).sweep_id
    return NextView.of(sweep_id, ask_next(service, sweep_id, want, budget=budget, sd=sd))


@router.post("/v1/power", responses=declare(413, 415, 422, 507), openapi_extra=SPEC_BODY)
def power(
    service: Served, spec: SpecBody, sd: Sd = None, gap: Gap = None, level: Level = 0.95
) -> PowerView:
    """Which gaps and claims the seeds of a sweep will resolve, before it runs."""
    return PowerView.of(ask_power(service, spec, sd=sd, gap=gap, level=level))
