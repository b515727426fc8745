"""One scheduler for a home, told apart by the operating system."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.scheduler_lock import only_scheduler
from orchestrator.settings import Home
from sweeps.errors import ConflictError, StorageError

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import sys
from pathlib import Path
from orchestrator.scheduler_lock import only_scheduler
from orchestrator.settings import Home

with only_scheduler(Home(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_told_who_holds_the_home(holder, tmp_path):
    with (
        pytest.raises(ConflictError) as caught,
        only_scheduler(Home(tmp_path)),
    ):
        pass
    assert f"process {holder.pid}" in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_killed_scheduler_blocks_nobody(holder, tmp_path):
    holder.kill()
    holder.wait()
    with only_scheduler(Home(tmp_path)):
        assert (tmp_path / "scheduler.pid").read_text().strip() == str(os.getpid())


def test_a_second_scheduler_in_the_same_process_is_refused_too(tmp_path):
    with (
        only_scheduler(Home(tmp_path)),
        pytest.raises(ConflictError, match=str(os.getpid())),
        only_scheduler(Home(tmp_path)),
    ):
        pass


def test_the_lock_is_free_after_an_exception(tmp_path):
    with pytest.raises(KeyError), only_scheduler(Home(tmp_path)):
        raise KeyError
    with only_scheduler(Home(tmp_path)):
        pass


def test_a_home_that_is_a_file_is_named(tmp_path):
    (tmp_path / "home").write_text("")
    with (
        pytest.raises(StorageError, match=f"cannot write to the home {tmp_path / 'home'}"),
        only_scheduler(Home(tmp_path / "home")),
    ):
        pass
