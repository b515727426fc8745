"""The page about the front doors names everything that they have, and nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi.routing import APIRoute

from api.app import create_app
from api.body import MAX_BYTES
from api.cli import app as cli
from api.errors import STATUS
from api.routes import ROUTERS
from tests.api.homes import settings_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text()
COMMANDS = typer.main.get_group(cli).commands
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def openapi(tmp_path_factory):
    return create_app(settings_of(tmp_path_factory.mktemp("home"))).openapi()


def operations(openapi: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, item in openapi["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def test_every_route_is_in_the_openapi_document_and_on_the_page(openapi):
    every = [route for router in ROUTERS for route in router.routes]
    routes = [route for route in every if isinstance(route, APIRoute)]
    assert len(routes) == len(every)
    served = {(method, route.path) for route in routes for method in route.methods or ()}
    listed = {(method.upper(), path) for method, path, _ in operations(openapi)}
    on_page = set(re.findall(r"^\| `(GET|POST|PUT|DELETE) (\S+)` \|", PAGE, re.MULTILINE))
    assert served == listed == on_page


def test_every_verb_is_on_the_page():
    assert set(re.findall(r"^\| `gridlaw (\w+)", PAGE, re.MULTILINE)) == set(COMMANDS)


def test_every_verb_that_takes_json_is_on_the_page():
    takes = {
        verb
        for verb, command in COMMANDS.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    keys = PAGE.split("### Keys of `--json`")[1].split("\n##")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", keys, re.MULTILINE)) == takes


def test_every_status_and_limit_is_on_the_page():
    table = PAGE.split("| status | when |")[1]
    assert {status.value for status in STATUS.values()} <= set(map(int, re.findall(r"\d+", table)))
    assert f"at most {MAX_BYTES} bytes" in PAGE


def test_every_route_declares_its_errors_as_problem_documents(openapi):
    for method, path, operation in operations(openapi):
        errors = {code: item for code, item in operation["responses"].items() if code >= "4"}
        assert "500" in errors, (method, path)
        assert operation["summary"]
        assert operation["description"]
        for item in errors.values():
            (media_type,) = item["content"]
            assert media_type == "application/problem+json"
            name = item["content"][media_type]["schema"]["$ref"].rpartition("/")[2]
            assert name == "ProblemDocument"


def test_every_reference_of_the_document_leads_somewhere(openapi):
    def references(value: Any) -> Iterator[str]:
        match value:
            case {"$ref": str(reference)}:
                yield reference
            case dict():
                for item in value.values():
                    yield from references(item)
            case list():
                for item in value:
                    yield from references(item)
            case _:
                pass

    names = {reference.rpartition("/")[2] for reference in references(openapi)}
    assert {"SweepSpec", "ProblemDocument", "SweepPage"} <= names
    assert names <= set(openapi["components"]["schemas"])


def test_the_spec_in_the_document_is_the_spec_that_is_parsed(openapi):
    schema = openapi["components"]["schemas"]["SweepSpec"]
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"name", "models", "budgets", "train"}
