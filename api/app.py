"""The HTTP application: the service behind the routes, and a problem document for every error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from api import errors, openapi
from api.body import MAX_BYTES
from api.body_limit import BodyLimit
from api.routes import ROUTERS
from orchestrator.service import Service
from orchestrator.settings import Settings

DESCRIPTION = "Sweeps of low-precision training: BF16-relative loss gaps and scaling-law fits."


def create_app(settings: Settings) -> FastAPI:
    """The application over the store of these settings.

    Raises:
        StorageError: If the store cannot be used.
    """
    service = Service.open(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        service.store.close()

    app = FastAPI(
        title="Gridlaw",
        version="1",
        description=DESCRIPTION,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.service = service
    app.add_middleware(BodyLimit, max_bytes=MAX_BYTES)
    for router in ROUTERS:
        app.include_router(router)
    errors.install(app, [route for router in ROUTERS for route in router.routes])
    openapi.install(app)
    return app
