from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.scheduler import Move, decide
from orchestrator.store import Store
from sweeps.errors import StorageError
from tests.orchestrator.values import START, completed, plan_of
from workers.reports import Reports


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(
        f"sqlite:///{tmp_path / 'gridlaw.db'}", runs=tmp_path / "runs", lease=timedelta(seconds=60)
    )
    yield opened
    opened.close()


def carry_out(store: Store) -> None:
    """Complete every run that waits."""
    while waiting := store.snapshot(room=1).waiting:
        task = store.claim(waiting[0].run_id, START)
        assert task is not None
        store.apply(completed(task), START)
        for move in decide(store.snapshot(room=0), START, free_slots=0, is_draining=False):
            assert isinstance(move, Move)
            store.move(move.run_id, move.source, move.target, move.reason, now=START)


def look(store: Store, folder: Path) -> None:
    reports = Reports(store, folder, lambda: START)
    reports.look()
    reports.close()


def test_a_report_is_written_once_its_sweep_is_over(store, tmp_path):
    sweep = store.submit(plan_of(), START)
    path = tmp_path / "reports" / sweep.sweep_id / "report.html"
    look(store, tmp_path / "reports")
    assert not path.exists()
    carry_out(store)
    look(store, tmp_path / "reports")
    assert sweep.sweep_id in path.read_text()


def test_a_report_that_is_there_is_not_written_again(store, tmp_path):
    sweep = store.submit(plan_of(), START)
    carry_out(store)
    path = tmp_path / "reports" / sweep.sweep_id / "report.html"
    path.parent.mkdir(parents=True)
    path.write_text("as it was")
    look(store, tmp_path / "reports")
    assert path.read_text() == "as it was"


def test_a_report_that_cannot_be_written_is_logged_and_stops_nothing(store, tmp_path, caplog):
    store.submit(plan_of(), START)
    carry_out(store)
    (tmp_path / "reports").write_text("a file where the folder should be")
    look(store, tmp_path / "reports")
    assert "a report could not be written" in caplog.text


def test_writing_replaces_the_file_whole_and_leaves_no_draft(store, tmp_path):
    sweep = store.submit(plan_of(), START)
    reports = Reports(store, tmp_path / "new folder", lambda: START)
    path = reports.write(sweep.sweep_id)
    first = path.read_bytes()
    carry_out(store)
    assert reports.write(sweep.sweep_id) == path
    reports.close()
    assert sweep.sweep_id.encode() in first
    assert path.read_bytes() != first
    assert list(path.parent.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_one_sentence_with_the_path(store, tmp_path):
    sweep = store.submit(plan_of(), START)
    blocked = tmp_path / "file"
    blocked.write_text("")
    reports = Reports(store, blocked, lambda: START)
    with pytest.raises(StorageError, match=f"cannot write {blocked}/{sweep.sweep_id}/report.html"):
        reports.write(sweep.sweep_id)
    reports.close()


def test_a_draft_is_removed_when_the_last_step_fails(store, tmp_path):
    sweep = store.submit(plan_of(), START)
    folder = tmp_path / sweep.sweep_id / "report.html"
    (folder / "inside").mkdir(parents=True)
    reports = Reports(store, tmp_path, lambda: START)
    with pytest.raises(StorageError, match="cannot write"):
        reports.write(sweep.sweep_id)
    reports.close()
    assert list(folder.parent.iterdir()) == [folder]
