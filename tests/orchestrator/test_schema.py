"""The schema's version: made once, equal to the tables, refused when newer."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from orchestrator.database import open_engine, reading, writing
from orchestrator.schema import upgrade
from orchestrator.tables import Table
from sweeps.errors import StorageError


@pytest.fixture
def engine(url):
    opened = open_engine(url)
    yield opened
    opened.dispose()


def test_the_migrations_make_exactly_the_tables_of_the_code(engine):
    upgrade(engine)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_upgrading_twice_is_upgrading_once(engine):
    upgrade(engine)
    with writing(engine) as connection:
        connection.execute(text("INSERT INTO sweeps VALUES ('a-1', 'a', '{}', '2026-03-01', NULL)"))
    upgrade(engine)
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT count(*) FROM sweeps")) == 1


def test_of_many_that_start_together_one_migrates(url):
    engines = [open_engine(url) for _ in range(4)]
    with ThreadPoolExecutor(len(engines)) as pool:
        list(pool.map(upgrade, engines))
    with reading(engines[0]) as connection:
        assert connection.scalar(text("SELECT count(*) FROM alembic_version")) == 1
    for engine in engines:
        engine.dispose()


def test_a_store_of_a_newer_gridlaw_is_refused_and_left_alone(engine):
    upgrade(engine)
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StorageError, match=r"schema 9999, written by a newer Gridlaw.*up to 0004"):
        upgrade(engine)
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "9999"


def test_a_migration_that_fails_leaves_nothing_behind(engine):
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE endpoints (other INTEGER)"))
    with pytest.raises(StorageError, match="endpoints"):
        upgrade(engine)
    with reading(engine) as connection:
        names = set(MigrationContext.configure(connection).dialect.get_table_names(connection))
    assert names == {"endpoints"}
