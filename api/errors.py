"""The error border of the HTTP side: every answer that is not a success is a problem document.

    {"type": "urn:gridlaw:problem:invalid", "title": "Unprocessable Content", "status": 422,
     "detail": "models[0].width = 33: must be a multiple of 16", "instance": "/v1/sweeps",
     "errors": [{"pointer": "/models/0/width", "key": "models[0].width", "value": "33",
                 "message": "must be a multiple of 16"}]}

Source: RFC 9457 (problem details), RFC 6901 (JSON pointers). `STATUS` is the only map from the
error tree of `sweeps/errors.py` to HTTP.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute

from sweeps.errors import (
    CheckpointError,
    ConflictError,
    GridlawError,
    InputError,
    NotFoundError,
    PreflightError,
    Problem,
    SpecError,
    StorageError,
)

MEDIA_TYPE = "application/problem+json"

STATUS: dict[type[GridlawError], HTTPStatus] = {
    GridlawError: HTTPStatus.INTERNAL_SERVER_ERROR,
    InputError: HTTPStatus.UNPROCESSABLE_ENTITY,
    SpecError: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotFoundError: HTTPStatus.NOT_FOUND,
    ConflictError: HTTPStatus.CONFLICT,
    StorageError: HTTPStatus.INSUFFICIENT_STORAGE,
    CheckpointError: HTTPStatus.INTERNAL_SERVER_ERROR,
    PreflightError: HTTPStatus.INTERNAL_SERVER_ERROR,
}

NAME: dict[int, str] = {
    404: "not-found",
    405: "method-not-allowed",
    409: "conflict",
    413: "too-large",
    415: "media-type",
    422: "invalid",
    507: "storage",
}
"""Last word of the problem's `type`; every other status is `internal` or `request`."""


class ProblemItem(BaseModel):
    """One thing wrong with the request."""

    model_config = ConfigDict(frozen=True)

    pointer: str
    key: str
    value: str
    message: str


class ProblemDocument(BaseModel):
    """What went wrong, as RFC 9457 has it, with every offending key in `errors`."""

    model_config = ConfigDict(frozen=True)

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[ProblemItem, ...] = ()


def declare(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route that may answer with these statuses, for OpenAPI."""
    schema = {"$ref": f"#/components/schemas/{ProblemDocument.__name__}"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in sorted({*statuses, 500})
    }


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every error of the application, whose routes these are, with a problem document."""
    app.state.routes = [route for route in routes if isinstance(route, APIRoute)]
    app.add_exception_handler(GridlawError, _gridlaw_error)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(Exception, _unforeseen)


def pointer(key: str) -> str:
    """JSON pointer of a key path: `models[0].width` becomes `/models/0/width`."""
    parts = [part for part in re.split(r"[.\[\]]+", key) if part]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _gridlaw_error(request: Request, error: Exception) -> Response:
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    problems = error.problems if isinstance(error, SpecError) else ()
    return _answer(request, status, str(error), problems)


def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    match error.status_code:
        case 404:
            detail = f"there is nothing at {request.url.path}"
        case 405:
            detail = f"{request.url.path} does not take {request.method}"
            headers["allow"] = ", ".join(_methods(request))
        case _:
            detail = error.detail
    return _answer(request, error.status_code, detail, headers=headers)


def _methods(request: Request) -> list[str]:
    """All methods of a path; the framework names those of the first route alone."""
    routes: Sequence[APIRoute] = request.app.state.routes
    fitting = [route for route in routes if route.path_regex.match(request.url.path)]
    return sorted({method for route in fitting for method in route.methods or ()})


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = tuple(
        Problem(
            key=".".join(str(part) for part in item["loc"][1:]),
            value=str(item["input"]),
            message=item["msg"],
        )
        for item in error.errors()
    )
    return _answer(request, 422, "; ".join(str(problem) for problem in problems), problems)


def _unforeseen(request: Request, error: Exception) -> Response:
    detail = f"an unforeseen {type(error).__name__} stopped this request; the server's log has it"
    return _answer(request, 500, detail)


def _answer(
    request: Request,
    status: int,
    detail: str,
    problems: tuple[Problem, ...] = (),
    headers: dict[str, str] | None = None,
) -> Response:
    document = ProblemDocument(
        type=f"urn:gridlaw:problem:{NAME.get(status, 'internal' if status >= 500 else 'request')}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=request.url.path,
        errors=tuple(
            ProblemItem(
                pointer=pointer(problem.key),
                key=problem.key,
                value=problem.value,
                message=problem.message,
            )
            for problem in problems
        ),
    )
    return Response(
        document.model_dump_json(), status_code=status, headers=headers, media_type=MEDIA_TYPE
    )
