"""The OpenAPI document: what FastAPI finds in the routes, and the two schemas that it cannot see.

Bodies are parsed by `api/body.py` (JSON or YAML) and errors are written by `api/errors.py`, so the
sweep spec and the problem document are put among the components here, for routes to refer to.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from api.body import JSON, YAML
from api.errors import ProblemDocument
from sweeps.spec import SweepSpec

REFERENCE = "#/components/schemas/{model}"

SPEC_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A sweep spec; `corpus` is `stdlib` or an absolute path on the server.",
        "content": {
            media_type: {"schema": {"$ref": REFERENCE.format(model=SweepSpec.__name__)}}
            for media_type in (JSON, *YAML)
        },
    }
}
"""`openapi_extra` of a route that takes a spec."""


def install(app: FastAPI) -> None:
    """Make the application's document, once, when it is first asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way to extend it


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    _, schemas = models_json_schema(
        [(ProblemDocument, "serialization"), (SweepSpec, "validation")], ref_template=REFERENCE
    )
    document.setdefault("components", {}).setdefault("schemas", {}).update(schemas["$defs"])
    return document
