"""The house rules that a machine can hold: sizes, frameworks behind doors, tested documents."""

import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kernels.presets import PRESETS

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("api", "benchmarks", "dashboards", "kernels", "orchestrator", "sweeps", "workers")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# On a bare GPU node these are all that the training core may find.
CORE = ("workers.train",)
CORE_LIBRARIES = {"numpy", "safetensors", "tokenizers", "torch", "triton"}
HEAVY = {"mlflow", "ray", "torch", "triton"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_roots(path: Path) -> set[str]:
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            roots.add(node.module.split(".")[0])
    return roots


def test_each_framework_enters_through_its_own_file() -> None:
    doors = {
        framework: {name(path) for path in SOURCES if framework in imported_roots(path)}
        for framework in ("ray", "mlflow", "sqlalchemy", "alembic")
    }
    assert all(file.startswith("workers/ray_") for file in doors["ray"])
    assert doors["mlflow"] == {"workers/tracking.py"}
    assert all(file.startswith("orchestrator/") for file in doors["sqlalchemy"] | doors["alembic"])


@pytest.mark.parametrize("path", SOURCES + TESTS, ids=name)
def test_a_file_is_short_enough_to_hold_one_idea(path: Path) -> None:
    bound = 400 if path in TESTS else 320
    assert len(path.read_text().splitlines()) <= bound


def test_no_file_has_a_name_that_says_nothing() -> None:
    vague = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}
    assert not [name(path) for path in SOURCES if path.stem in vague]


@pytest.mark.parametrize(
    "path", [path for path in SOURCES + TESTS if path.name == "__init__.py"], ids=name
)
def test_a_package_file_holds_a_docstring_and_nothing_else(path: Path) -> None:
    (statement,) = ast.parse(path.read_text()).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Constant)


@pytest.mark.parametrize("module", ["api.cli", "api.app", "dashboards.report", "sweeps.plan"])
def test_the_light_side_loads_no_torch_ray_or_mlflow(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("module", CORE)
def test_the_training_core_needs_only_what_a_gpu_node_has(module: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {requirement_name(line) for line in project["dependencies"]}
    absent = listed - CORE_LIBRARIES | {"yaml"}
    code = f"""
import sys
for module in {sorted(absent)!r}:
    sys.modules[module] = None  # an import of it now fails
import {module}
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def requirement_name(line: str) -> str:
    for separator in "<>=;[ ":
        line = line.split(separator)[0]
    return line.lower()


def test_every_dependency_is_explained_and_every_explanation_has_its_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["dependencies"] + project["optional-dependencies"]["dev"]
    rows = [
        line.split("|")[1].strip()
        for line in (ROOT / "docs" / "dependencies.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| package", "| ---"))
    ]
    assert sorted(rows) == sorted(requirement_name(line) for line in listed)


def test_the_lock_file_pins_every_dependency_inside_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["dependencies"] + project["optional-dependencies"]["dev"]
    pins = {
        requirement_name(line)
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if "==" in line
    }
    assert {requirement_name(line) for line in listed} <= pins


def test_every_recipe_has_a_section_in_the_numerics_page() -> None:
    headings = [
        line for line in (ROOT / "docs" / "numerics.md").read_text().splitlines() if line[:1] == "#"
    ]
    for preset in PRESETS:
        assert f"## {preset}" in headings, preset


def test_every_function_that_the_architecture_page_names_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = re.findall(rf"`((?:{'|'.join(PACKAGES)})\.[\w.]+)`", page)
    assert len(names) > 10
    for dotted in names:
        pkgutil.resolve_name(dotted)
