"""A fresh store for each test: SQLite always, PostgreSQL too where a server is named."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from orchestrator.store import Store
from tests.orchestrator.bench import Bench
from tests.orchestrator.values import LEASE

POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL")
"""A database on a server whose tables may be thrown away."""

DATABASES = ["sqlite", *(["postgresql"] if POSTGRES_URL else [])]


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database."""
    if request.param == "sqlite" or POSTGRES_URL is None:
        return f"sqlite:///{tmp_path / 'home' / 'gridlaw.db'}"
    engine = create_engine(POSTGRES_URL)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return POSTGRES_URL


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied: migrating takes most of a small test's time."""
    file = tmp_path_factory.mktemp("blank") / "gridlaw.db"
    Store(f"sqlite:///{file}", runs=file.parent, lease=LEASE).close()
    return file


@pytest.fixture
def store(url: str, tmp_path: Path, blank: Path) -> Iterator[Store]:
    """An empty store."""
    if url.startswith("sqlite"):
        (tmp_path / "home").mkdir()
        shutil.copy(blank, url.removeprefix("sqlite:///"))
    opened = Store(url, runs=tmp_path / "runs", lease=LEASE)
    yield opened
    opened.close()


@pytest.fixture
def bench(store: Store, tmp_path: Path) -> Bench:
    """A loop over an empty store."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return Bench(store, home)
