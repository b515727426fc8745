"""The front doors with a real scheduler behind them: run, interrupted, served."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from api.scheduler_process import scheduler
from orchestrator.scheduler_lock import only_scheduler
from sweeps.errors import ConflictError, GridlawError
from tests.api.homes import mapping, settings_of, write_spec

ROOT = Path(__file__).resolve().parents[2]
GRIDLAW = [sys.executable, "-c", "from api.cli import main; main()"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name[:8] != "GRIDLAW_"} | {
    "PYTHONPATH": str(ROOT),
    "GRIDLAW_EXECUTOR": "local",
    "GRIDLAW_SLOTS": "1",
    "GRIDLAW_MIN_FREE_BYTES": "0",
    "OMP_NUM_THREADS": "1",
}
SMALL = {"models": [{"layers": 1, "width": 16, "heads": 1}], "recipes": ["bf16", "ufp4"]}


def gridlaw(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a verb in its own process, away from the sources."""
    return subprocess.run(
        [*GRIDLAW, *map(str, arguments)],
        env=ENVIRONMENT | variables,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=240,
    )


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A verb under way; its standard error can be read."""
    process = subprocess.Popen(
        [*GRIDLAW, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str], words: str) -> str:
    """The first line of standard error with these words."""
    assert process.stderr is not None
    for line in process.stderr:
        if re.search(words, line):
            return line
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.mark.slow
def test_a_sweep_is_trained_answered_and_answered_again_with_the_same_bytes(tmp_path):
    spec, home = write_spec(tmp_path, **SMALL), tmp_path / "home"
    first = gridlaw("run", spec, "--home", home)
    assert first.returncode == 0, first.stderr
    assert "4 of 4 endpoints measured." in first.stdout
    assert "4 of 4 cells" in first.stderr
    with only_scheduler(settings_of(home).layout):  # so that a second scheduler would be refused
        again = gridlaw("run", spec, "--home", home)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout


@pytest.mark.slow
def test_an_interrupted_run_says_how_to_go_on_and_goes_on(tmp_path):
    spec = write_spec(tmp_path, **SMALL | {"budgets": ["8192tok", "65536tok"]})
    home = tmp_path / "home"
    with started("run", spec, "--home", home) as process:
        said(process, r"[1-3] of 4 cells")
        process.send_signal(signal.SIGINT)
        line = said(process, "goes on from there")
        assert f"`gridlaw run {spec}`" in line
        assert process.wait() == 130
    with only_scheduler(settings_of(home).layout):  # the child is gone too
        shown = gridlaw("show", "tiny", "--home", home)
    assert " running " not in shown.stdout
    done = gridlaw("run", spec, "--home", home)
    assert done.returncode == 0, done.stderr
    assert "4 of 4 endpoints measured." in done.stdout


@pytest.mark.slow
def test_a_server_trains_what_is_posted_refuses_a_second_and_ends_cleanly(tmp_path):
    write_spec(tmp_path)
    body = mapping(**SMALL, corpus=str(tmp_path / "texts"))
    home = tmp_path / "home"
    with started("serve", "--home", home, "--port", 0) as process:
        url = said(process, "Gridlaw serves").split()[-1]
        with httpx.Client(base_url=url, timeout=60) as client:
            sweep = client.post("/v1/sweeps", json=body).json()["sweep_id"]
            while client.get("/v1/sweeps").json()["sweeps"][0]["state"] != "over":
                assert process.poll() is None
            assert len(client.get(f"/v1/sweeps/{sweep}/gaps").json()["gaps"]) == 2
        second = gridlaw("serve", "--home", home, "--port", 0)
        assert second.returncode == 1
        assert second.stderr.count("\n") == 1
        assert "another scheduler" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    with only_scheduler(settings_of(home).layout):
        pass


def test_a_scheduler_that_ends_is_told_in_its_own_sentence_with_the_place_of_its_log(tmp_path):
    settings = settings_of(tmp_path / "home")
    with scheduler(settings, "--sweep", "nope") as child:
        assert not child.is_running(60)
        with pytest.raises(GridlawError) as told:
            child.check()
    log = settings.home / "scheduler.log"
    assert str(told.value) == f"the scheduler ended: there is no sweep 'nope'; its log is {log}"
    assert child.log == log
    assert "there is no sweep 'nope'" in log.read_text()


def test_a_scheduler_that_is_killed_is_told_with_the_signal(tmp_path):
    with scheduler(settings_of(tmp_path / "home"), "--serve") as child:
        child.stop(0)
        with pytest.raises(GridlawError, match=r"was killed by signal (9|15); its log is .*\.log$"):
            child.check()


@pytest.mark.slow
def test_a_run_without_disk_space_is_one_sentence_and_exit_1(tmp_path):
    spec, home = write_spec(tmp_path, **SMALL), tmp_path / "home"
    ran = gridlaw("run", spec, "--home", home, GRIDLAW_MIN_FREE_BYTES=str(2**62))
    assert ran.returncode == 1
    assert ran.stdout == ""
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("gridlaw: the scheduler ended: ")
    assert f"MB free in {home}, launching needs" in last
    assert "Traceback" not in ran.stderr


def test_a_home_with_a_scheduler_gets_no_second(tmp_path):
    settings = settings_of(tmp_path / "home")
    with (
        only_scheduler(settings.layout),
        pytest.raises(ConflictError, match="another scheduler"),
        scheduler(settings, "--serve"),
    ):
        pass
    assert not (settings.home / "scheduler.log").exists()
