"""The database: opening it, short transactions, and its errors as one sentence.

SQLite (one machine) runs with a write-ahead log: readers never wait, and a writer takes the lock
when its transaction begins (`BEGIN IMMEDIATE`), waiting up to `BUSY_SECONDS`. PostgreSQL serialises
writers in the same way with one advisory lock. So on both a write transaction sees a state that
nobody else is changing, and there is nothing to retry. A SQLite file in a folder where this user
may not write is opened to be read, as one that nobody changes: no log could be made beside it.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from sweeps.errors import InputError, StorageError

BUSY_SECONDS = 30
WRITER_LOCK = 0x67726964  # any fixed number: it names the advisory lock on PostgreSQL

SQLITE_REASONS: tuple[tuple[str, str], ...] = (
    ("SQLITE_NOTADB", "is not a database file"),
    ("SQLITE_CORRUPT", "is damaged; restore it from a copy"),
    ("SQLITE_READONLY", "is not writable"),
    ("SQLITE_PERM", "is not writable"),
    ("SQLITE_CANTOPEN", "cannot be opened; does its folder exist and may this user write there?"),
)
SQLITE_PASSING: tuple[tuple[str, str], ...] = (
    ("SQLITE_FULL", "cannot be written: the disk is full"),
    ("SQLITE_IOERR", "cannot be read or written: the disk reports an error or is full"),
    ("SQLITE_BUSY", "stayed locked by another process for {seconds} seconds"),
    ("SQLITE_LOCKED", "is locked by another connection"),
)


class PassingStorageError(StorageError):
    """The disk is full, or the database is busy or away: the same request may succeed later."""


def open_engine(url: str) -> Engine:
    """Engine for a SQLAlchemy URL; makes the folder of a SQLite file, connects to nothing yet.

    Raises:
        InputError: If the URL is malformed or its driver is not installed.
        StorageError: If the folder cannot be made.
    """
    try:
        engine = create_engine(url)
        file = engine.url.database
        if engine.dialect.name == "sqlite" and file and _is_kept_from_change(Path(file)):
            return create_engine(url, creator=lambda: _unchanging(Path(file)))
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise InputError(f"database_url = {_shown(url)}: {_first_line(error)}") from error
    if engine.dialect.name == "sqlite":
        if engine.url.database in (None, "", ":memory:"):
            raise InputError(f"database_url = {_shown(url)}: the store needs a file")
        _prepare_sqlite(engine, Path(str(engine.url.database)))
    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent view of the store, given up at the end."""
    with _errors_as_sentences(engine), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes, alone; an exception inside undoes all of it."""
    with _errors_as_sentences(engine), engine.connect() as connection:
        connection.execution_options(gridlaw_writes=True)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                lock = text("SELECT pg_advisory_xact_lock(:key)")
                connection.execute(lock, {"key": WRITER_LOCK})
            yield connection


def _is_kept_from_change(file: Path) -> bool:
    """Whether the file is there, with no log of changes and no right to make one beside it."""
    log = file.with_name(f"{file.name}-wal")
    changed = log.exists() and log.stat().st_size > 0
    return file.exists() and not changed and not os.access(file.absolute().parent, os.W_OK)


def _unchanging(file: Path) -> sqlite3.Connection:
    address = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, check_same_thread=False)


def _prepare_sqlite(engine: Engine, file: Path) -> None:
    try:
        file.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot make the folder of the database {file}: {error.strerror}"
        ) from error

    @event.listens_for(engine, "connect")
    def set_pragmas(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # this module begins transactions, not the driver
        for pragma in (
            f"busy_timeout = {BUSY_SECONDS * 1000}",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("gridlaw_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def _errors_as_sentences(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise _sentence(engine, error.orig) from error
    except sqlite3.Error as error:  # from a pragma of a new connection
        raise _sentence(engine, error) from error


def _sentence(engine: Engine, error: BaseException | None) -> StorageError:
    place = engine.url.render_as_string(hide_password=True)
    match error:
        case sqlite3.Error():
            name = getattr(error, "sqlite_errorname", "")  # set only on errors of SQLite itself
            for prefix, sentence in SQLITE_PASSING:
                if name.startswith(prefix):
                    why = sentence.format(seconds=BUSY_SECONDS)
                    return PassingStorageError(f"the database {engine.url.database} {why}")
            for prefix, sentence in SQLITE_REASONS:
                if name.startswith(prefix):
                    return StorageError(f"the database {engine.url.database} {sentence}")
            return StorageError(f"the database {engine.url.database} refused: {error}")
        case _:
            return PassingStorageError(f"the database {place} refused: {_first_line(error)}")


def _shown(url: str) -> str:
    """The URL as given, without what may be a password."""
    return re.sub(r"://[^/@]*@", "://***@", url)


def _first_line(error: BaseException | None) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
