"""The loop where the disk or the database refuses."""

import logging
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from orchestrator.loop import Loop
from orchestrator.states import State
from orchestrator.store import Store
from sweeps.errors import StorageError
from tests.orchestrator.bench import Bench, ticking_clock
from tests.orchestrator.values import LEASE, START


def test_nothing_is_launched_while_the_disk_is_nearly_full(bench, caplog):
    bench.submit()
    bench.settings = bench.settings.model_copy(update={"min_free_bytes": 2**62})
    loop = bench.new_loop()
    with caplog.at_level(logging.WARNING):
        loop.tick()
        loop.tick()
    assert bench.counts() == {State.QUEUED: 2}
    assert "MB free in" in str(loop.paused)
    assert len(caplog.records) == 1


def short_of_space(bench: Bench) -> Loop:
    bench.settings = bench.settings.model_copy(update={"min_free_bytes": 2**62})
    return bench.new_loop()


def test_one_sweep_ends_in_one_sentence_when_the_disk_is_short_and_nothing_is_under_way(bench):
    bench.submit()
    with pytest.raises(StorageError, match=r"^\d+ MB free in .*, launching needs \d+ MB$"):
        short_of_space(bench).run_until("small", Event())
    assert bench.counts() == {State.QUEUED: 2}


def test_one_sweep_on_a_short_disk_ends_only_after_what_is_under_way(bench):
    bench.submit(seeds=(0, 1))
    bench.loop.tick()
    with pytest.raises(StorageError, match="MB free in"):
        short_of_space(bench).run_until("small", Event())
    assert bench.counts() == {State.SUCCEEDED: 2, State.QUEUED: 2}


def test_a_sweep_whose_last_runs_end_on_a_short_disk_is_over(bench):
    bench.submit()
    bench.loop.tick()
    short_of_space(bench).run_until("small", Event())
    assert bench.counts() == {State.SUCCEEDED: 2}


def test_a_loop_for_all_sweeps_waits_for_disk_space(bench):
    bench.submit()
    stop, turns = Event(), iter(range(3))
    loop = short_of_space(bench)
    loop.run_until(None, stop, lambda: None if next(turns, None) is not None else stop.set())
    assert "launching needs" in str(loop.paused)


def test_a_database_that_cannot_be_written_makes_the_loop_wait_and_then_go_on(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("orchestrator.database.BUSY_SECONDS", 0)
    monkeypatch.setattr("orchestrator.loop.PAUSE_SECONDS", 0.001)
    file = tmp_path / "gridlaw.db"
    store = Store(f"sqlite:///{file}", runs=tmp_path / "runs", lease=LEASE)
    bench = Bench(store, tmp_path)
    bench.submit()
    other = lock_of(file)
    looks = iter(range(6))

    def look() -> datetime:
        if next(looks, None) is None and other.in_transaction:
            other.rollback()
        return START

    bench.loop = Loop(store, bench.executor, look, bench.settings)
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 2}
    assert [record.message for record in caplog.records] == [
        f"waiting: the database {file} stayed locked by another process for 0 seconds"
    ]
    assert bench.loop.paused is None
    other.close()
    store.close()


def lock_of(file: Path) -> sqlite3.Connection:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_draining_into_a_store_that_refuses_waits_the_grace_time_and_leaves_the_rest(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("orchestrator.database.BUSY_SECONDS", 0)
    monkeypatch.setattr("orchestrator.loop.PAUSE_SECONDS", 0.001)
    file = tmp_path / "gridlaw.db"
    store = Store(f"sqlite:///{file}", runs=tmp_path / "runs", lease=LEASE)
    bench = Bench(store, tmp_path)
    bench.submit()
    stop, held = Event(), []

    def fill() -> None:
        held.append(lock_of(file))
        stop.set()

    loop = Loop(store, bench.executor, ticking_clock(bench), bench.settings)
    loop.run_until("small", stop, fill)
    assert bench.now - START < timedelta(seconds=60)
    assert "not everything could be stopped in order" in caplog.text
    held.pop().close()
    bench.loop = bench.new_loop()
    bench.run()
    assert bench.counts() == {State.SUCCEEDED: 2}
    store.close()
