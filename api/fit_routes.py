"""The REST routes of laws: fits of a sweep, fits that are kept, and tables to take elsewhere.

GET  /v1/sweeps/{sweep}/fits                    what fits say now; keeps nothing
POST /v1/sweeps/{sweep}/fits                    the same, kept; the query holds the settings
GET  /v1/fits                                   kept fits, newest first
GET  /v1/fits/{fit}                             one of them whole, draws included
GET  /v1/sweeps/{sweep}/export/{what}.{form}    one table of a sweep
GET  /v1/fits/{fit}/export/{what}.{form}        one table of a kept fit
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response

from api.errors import declare
from api.fit_views import FitsView, KeptFitsView, KeptFitView
from api.served import Served, Sweep
from sweeps.fit_json import models_of
from sweeps.fits.settings import AUTO, MIN_RESAMPLES, RESAMPLES, Diverged, Settings
from sweeps.fits.target import Residual
from sweeps.tables.exports import What, fit_table, sweep_table
from sweeps.tables.kept_fit import kept_json
from sweeps.tables.table import Form, Table, encode

router = APIRouter()

MEDIA_TYPE = {
    Form.CSV: "text/csv",
    Form.PARQUET: "application/vnd.apache.parquet",
    Form.JSON: "application/json",
}
MOST_RESAMPLES = 10_000
"""A request holds a worker of the server while it is fitted."""

KeptFit = Annotated[str, Path(max_length=64, description="Id of a kept fit, or the start of it.")]
READS = declare(404, 422)


def _settings(
    law: Annotated[str, Query(max_length=64)] = AUTO,
    delta: Annotated[float | None, Query(gt=0)] = None,
    residual: Residual = Residual.LOG,
    diverged: Diverged = Diverged.LEAVE_OUT,
    resamples: Annotated[int, Query(ge=MIN_RESAMPLES, le=MOST_RESAMPLES)] = RESAMPLES,
    seed: Annotated[int, Query(ge=0, lt=2**32)] = 0,
) -> Settings:
    return Settings(
        law=law,
        delta=delta,
        residual=residual,
        diverged=diverged,
        resamples=resamples,
        seed=seed,
    )


Asked = Annotated[Settings, Depends(_settings)]


@router.get("/v1/sweeps/{sweep}/fits", responses=READS)
def fits(service: Served, sweep: Sweep, asked: Asked) -> FitsView:
    """One fit for each recipe, and what it can and cannot say."""
    sweep_id = service.show(sweep).sweep_id
    found = service.fits_of(sweep_id, asked)
    return FitsView.of_sweep(sweep_id, found, models_of(service.records(sweep_id)))


@router.post("/v1/sweeps/{sweep}/fits", responses=declare(404, 422, 507))
def keep(service: Served, sweep: Sweep, asked: Asked) -> FitsView:
    """Fit each recipe and keep the fits; the same again adds nothing."""
    sweep_id = service.show(sweep).sweep_id
    found = service.fits_of(sweep_id, asked)
    service.keep_fits(found, sweep_id)
    return FitsView.of_sweep(sweep_id, found, models_of(service.records(sweep_id)))


@router.get("/v1/fits", responses=declare())
def kept_fits(service: Served) -> KeptFitsView:
    """All kept fits, newest first."""
    return KeptFitsView(fits=[KeptFitView.of(summary) for summary in service.kept_fits()])


@router.get("/v1/fits/{fit}", responses=READS)
def kept_fit(service: Served, fit: KeptFit) -> dict[str, Any]:
    """One kept fit whole: with the law's place and its draws it can be drawn again."""
    return kept_json(service.kept_fit(fit))


@router.get("/v1/sweeps/{sweep}/export/{what}.{form}", responses=READS, response_class=Response)
def export(service: Served, sweep: Sweep, what: What, form: Form) -> Response:
    """One table of a sweep: endpoints, points, curves, constants, dictionary or checklist."""
    sweep_id = service.show(sweep).sweep_id
    return _file(sweep_table(what, service.answer(sweep_id)), form, sweep_id)


@router.get("/v1/fits/{fit}/export/{what}.{form}", responses=READS, response_class=Response)
def export_fit(service: Served, fit: KeptFit, what: What, form: Form) -> Response:
    """One table of a kept fit: curves, constants, covariance, dictionary or checklist."""
    return _file(fit_table(what, [service.kept_fit(fit)]), form, fit)


def _file(table: Table, form: Form, name: str) -> Response:
    disposition = f'attachment; filename="{name}-{table.name}.{form}"'
    return Response(
        encode(table, form),
        media_type=MEDIA_TYPE[form],
        headers={"content-disposition": disposition},
    )
