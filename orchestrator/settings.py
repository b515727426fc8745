"""Settings: where things live and how patient the scheduler is, read once from the environment.

Everything that Gridlaw keeps lies in one folder, the home:

    gridlaw.db                 the store, unless a database URL says otherwise
    scheduler.lock, .pid       held by the one scheduler of this home
    runs/<run_id>/             checkpoints and logs of a run
    cache/                     tokenizers and tokenized corpora, by content
    reports/<sweep_id>/        what was drawn for a sweep
    mlflow/                    the local MLflow store, unless an MLflow URL says otherwise

Every setting is one variable, `GRIDLAW_` and the field's name in upper case. Command-line options
come in as overrides and win. Nothing is read or made at import.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sweeps.errors import InputError

PREFIX = "GRIDLAW_"
NOT_SETTINGS = frozenset({"GRIDLAW_PUBLIC_DATA"})
"""Variables of the prefix that others read: the tests look there for public run data."""


class ExecutorKind(StrEnum):
    """Who carries runs out: Ray actors, or this process and its children."""

    RAY = "ray"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that holds everything; see the module docstring."""

    path: Path

    @property
    def database(self) -> Path:
        """SQLite file of the store."""
        return self.path / "gridlaw.db"

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of that file."""
        return _sqlite_url(self.database)

    @property
    def scheduler_lock(self) -> Path:
        """Locked by the scheduler for as long as it lives."""
        return self.path / "scheduler.lock"

    @property
    def scheduler_pid(self) -> Path:
        """Process number of the scheduler that took the lock last, for the message to others."""
        return self.path / "scheduler.pid"

    @property
    def runs(self) -> Path:
        """One folder for each run, named by its `run_id`."""
        return self.path / "runs"

    @property
    def cache(self) -> Path:
        """What can be made again from the corpus."""
        return self.path / "cache"

    @property
    def reports(self) -> Path:
        """One folder for each sweep, named by its `sweep_id`."""
        return self.path / "reports"

    @property
    def mlflow(self) -> Path:
        """Database and artifacts of the local MLflow store."""
        return self.path / "mlflow"

    @property
    def mlflow_url(self) -> str:
        """MLflow tracking URI of the local store."""
        return _sqlite_url(self.mlflow / "mlflow.db")


class Settings(BaseModel):
    """How this process runs.

    Attributes:
        home: Folder that holds everything, made absolute.
        database_url: SQLAlchemy URL of the store.
        mlflow_url: MLflow tracking URI.
        ray_address: Of a running cluster, None to start one on this machine.
        executor: Who carries runs out.
        slots: Runs that train at the same time; by default as many as there are CPUs, but one for
            the local executor, whose threads share an interpreter.
        gpu_memory_bytes: What runs that may share a GPU share of it; by default the memory of the
            cluster's smallest.
        accelerate: Whether training on a GPU compiles and records its passes; it rounds a little
            otherwise, so that a run should not change this on its way.
        tick_seconds: Between two turns of the scheduler's loop.
        lease_seconds: Without a word from an attempt, until it is given up.
        stop_grace_seconds: Between asking an attempt to stop and no longer waiting for it.
        min_free_bytes: Free disk space in the home below which nothing is launched.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path
    database_url: str
    mlflow_url: str
    ray_address: str | None
    executor: ExecutorKind
    slots: Annotated[int, Field(ge=1)]
    gpu_memory_bytes: Annotated[int, Field(ge=1)] | None
    accelerate: bool
    tick_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    lease_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    stop_grace_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    min_free_bytes: Annotated[int, Field(ge=0)]

    @property
    def layout(self) -> Home:
        """Where things lie inside the home."""
        return Home(self.home)


def load_settings(env: Mapping[str, str] | None = None, **overrides: object) -> Settings:
    """Settings from the environment, with overrides that win; overrides of None are left out.

    Args:
        env: Variables to read, the process's own if None; an empty value counts as unset.
        overrides: Fields of `Settings`.

    Raises:
        InputError: If a variable is unknown or a value makes no sense; names both.
    """
    variables = os.environ if env is None else env
    given: dict[str, object] = {}
    for variable, value in variables.items():
        if variable.startswith(PREFIX) and variable not in NOT_SETTINGS and value:
            given[_field(variable)] = value
    given |= {key: value for key, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate(_defaults(given) | given)
    except ValidationError as error:
        raise InputError(_sentence(error, given, overrides)) from error


def _field(variable: str) -> str:
    field = variable.removeprefix(PREFIX).lower()
    if field not in Settings.model_fields or variable != PREFIX + field.upper():
        known = [PREFIX + name.upper() for name in Settings.model_fields]
        near = get_close_matches(variable.upper(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise InputError(f"environment variable {variable} is not a setting; {hint}")
    return field


def _defaults(given: dict[str, object]) -> dict[str, object]:
    folder = Path(str(given.get("home", ".gridlaw")))
    try:
        home = Home(folder.expanduser().absolute())
    except RuntimeError as error:
        raise InputError(f"home = {folder}: there is no such user") from error
    given["home"] = home.path
    return {
        "database_url": home.database_url,
        "mlflow_url": home.mlflow_url,
        "ray_address": None,
        "executor": ExecutorKind.RAY,
        "slots": 1 if given.get("executor") == ExecutorKind.LOCAL else _cpus(),
        "gpu_memory_bytes": None,
        "accelerate": True,
        "tick_seconds": 0.25,
        "lease_seconds": 90.0,
        "stop_grace_seconds": 30.0,
        "min_free_bytes": 200_000_000,
    }


def _sqlite_url(file: Path) -> str:
    """URL of a SQLite file; SQLAlchemy ends the path at a `?` and decodes percent signs."""
    return f"sqlite:///{str(file).replace('%', '%25').replace('?', '%3F')}"


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))  # what this process may use, as in a container
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _sentence(
    error: ValidationError, given: Mapping[str, Any], overrides: Mapping[str, object]
) -> str:
    problem = error.errors()[0]
    field = str(problem["loc"][0])
    name = field if overrides.get(field) is not None else PREFIX + field.upper()
    return f"{name} = {given[field]}: {problem['msg'].lower()}"
