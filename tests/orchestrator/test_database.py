"""What the database refuses comes out as one sentence that names the file."""

import os
import re
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from orchestrator.database import PassingStorageError, open_engine, reading, writing
from orchestrator.store import Store
from sweeps.errors import InputError, StorageError
from tests.orchestrator.values import LEASE, START, plan_of


def open_store(file: Path) -> Store:
    return Store(f"sqlite:///{file}", runs=file.parent / "runs", lease=LEASE)


def write(engine: Engine, *statements: str) -> None:
    with writing(engine) as connection:
        for statement in statements:
            connection.execute(text(statement))


def test_sqlite_runs_with_a_write_ahead_log_and_checks_foreign_keys(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with reading(engine) as connection:
        values = {
            name: connection.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    engine.dispose()
    assert values == {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "synchronous": 1,
        "busy_timeout": 30_000,
    }


def test_an_exception_undoes_the_transaction(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    write(engine, "CREATE TABLE t (x INTEGER)")
    with pytest.raises(StorageError, match="no such table"):
        write(engine, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT count(*) FROM t")) == 0
    engine.dispose()


def test_a_reader_keeps_its_view_while_another_writes(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")
    write(engine, "CREATE TABLE t (x INTEGER)")
    with reading(engine) as reader:
        before = reader.scalar(text("SELECT count(*) FROM t"))
        write(engine, "INSERT INTO t VALUES (1)")
        assert reader.scalar(text("SELECT count(*) FROM t")) == before
    engine.dispose()


def test_a_file_that_is_no_database_is_named(tmp_path):
    file = tmp_path / "gridlaw.db"
    file.write_text("this is a letter, not a database; " * 40)
    with pytest.raises(StorageError, match=f"^the database {file} is not a database file$"):
        open_store(file)


def test_a_damaged_database_is_named(tmp_path):
    file = tmp_path / "gridlaw.db"
    store = open_store(file)
    store.submit(plan_of(), START)
    store.close()
    content = bytearray(file.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises(StorageError, match=f"{file} is damaged"):
        open_store(file)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "home").write_text("a file where the home should be")
    with pytest.raises(StorageError, match=f"cannot make the folder of the database {tmp_path}"):
        open_store(tmp_path / "home" / "gridlaw.db")


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path):
    (tmp_path / "gridlaw.db").mkdir()
    with pytest.raises(StorageError, match=r"gridlaw\.db cannot be opened"):
        open_store(tmp_path / "gridlaw.db")


def test_a_lock_held_too_long_may_pass(tmp_path, monkeypatch):
    monkeypatch.setattr("orchestrator.database.BUSY_SECONDS", 0)
    store = open_store(tmp_path / "gridlaw.db")
    other = sqlite3.connect(tmp_path / "gridlaw.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(PassingStorageError, match="stayed locked by another process"):
        store.submit(plan_of(), START)
    assert store.sweeps() == ()
    other.rollback()
    store.submit(plan_of(), START)
    other.close()
    store.close()


def test_a_full_disk_may_pass_and_leaves_nothing_half_written(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'a.db'}")

    @event.listens_for(engine, "connect")
    def a_small_disk(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA max_page_count = 8")

    write(engine, "CREATE TABLE t (x BLOB)")
    small, large = (f"INSERT INTO t VALUES (zeroblob({size}))" for size in (1000, 100_000))
    with pytest.raises(PassingStorageError, match="the disk is full"):
        write(engine, small, large)
    with reading(engine) as connection:
        assert connection.scalar(text("SELECT count(*) FROM t")) == 0
    engine.dispose()


@pytest.mark.parametrize(
    "url", ["gridlaw.db", "sqlight:///a.db", "sqlite://", "sqlite:///:memory:", "mysql+nope://x/y"]
)
def test_a_url_that_makes_no_sense_is_named(url, tmp_path):
    with pytest.raises(InputError, match=re.escape(f"database_url = {url}")):
        Store(url, runs=tmp_path, lease=LEASE)


def test_a_password_is_never_shown(tmp_path):
    url = "sqlite://someone:secret@/nowhere"
    with pytest.raises(InputError) as caught:
        Store(url, runs=tmp_path, lease=LEASE)
    assert "secret" not in str(caught.value)
