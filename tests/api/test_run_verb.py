"""`gridlaw run` around the scheduler: what needs none, and what it says when it cannot have one."""

import json
import socket

import pytest

from orchestrator.scheduler_lock import only_scheduler
from tests.api.homes import fails, finish, settings_of


@pytest.fixture
def busy_home(finished):
    """The finished home while another scheduler holds it: whoever starts one is refused."""
    with only_scheduler(settings_of(finished.home).layout):
        yield finished


def test_a_finished_sweep_is_answered_at_once_and_twice_the_same(gridlaw, busy_home):
    first = gridlaw("run", busy_home.spec_file, "--home", busy_home.home)
    again = gridlaw("run", busy_home.spec_file, "--home", busy_home.home)
    assert first.code == again.code == 0
    assert first.out == again.out
    assert first.out


def test_the_answer_has_the_table_the_words_and_the_places(gridlaw, busy_home):
    out = gridlaw("run", busy_home.spec_file, "--home", busy_home.home).out
    for part in (
        "Unigram entropy of the training tokens: 3.4000",
        "+0.0500",
        "diverged",
        "bf16 has the lower loss in every one of the 4 pairs.",
        "Fit of bf16 and ",
        f"mlflow ui --backend-store-uri sqlite:///{busy_home.home}/mlflow/mlflow.db",
        f"{busy_home.home}/runs",
    ):
        assert part in out
    report = busy_home.home / "reports" / busy_home.sweep_id / "report.html"
    assert str(report) in out
    assert report.is_file()


def test_an_old_report_is_written_anew_with_the_answer(gridlaw, busy_home):
    report = busy_home.home / "reports" / busy_home.sweep_id / "report.html"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("of an earlier state")
    assert gridlaw("run", busy_home.spec_file, "--home", busy_home.home).code == 0
    assert "<html" in report.read_text()
    assert list(report.parent.iterdir()) == [report]


def test_a_report_that_cannot_be_written_takes_no_answer_away(gridlaw, tmp_path, spec_file):
    sweep_id = finish(tmp_path / "home", spec_file)
    (tmp_path / "home" / "reports").write_text("no folder")
    said = gridlaw("run", spec_file, "--home", tmp_path / "home")
    assert said.code == 1
    assert "endpoints measured" in said.out
    assert f"cannot write {tmp_path / 'home' / 'reports' / sweep_id}" in said.err


def test_the_plan_is_on_standard_error_and_the_answer_alone_on_standard_output(gridlaw, busy_home):
    said = gridlaw("run", busy_home.spec_file, "--home", busy_home.home, "--json")
    answer = json.loads(said.out)
    assert (
        sorted(answer)
        == (
            "additivity claims conventions effective endpoints fits gaps headline not_beaten "
            "orders places predicted sentences signs sweep_id unigram_entropy"
        ).split()
    )
    assert "12 cells, 6 runs, 4 reused" in said.err


def test_a_second_scheduler_is_refused_in_one_sentence(gridlaw, tmp_path, spec_file):
    home = tmp_path / "home"
    with only_scheduler(settings_of(home).layout):
        ran = gridlaw("run", spec_file, "--home", home)
        served = gridlaw("serve", "--home", home, "--port", "0")
    for said in (ran, served):
        assert said.code == 1
        assert f"is at work on {home}" in said.err.splitlines()[-1]
        assert "Traceback" not in said.err
    assert served.err.count("\n") == 1


def test_failed_runs_are_exit_1_after_the_answer_with_the_way_on(gridlaw, tmp_path, spec_file):
    sweep_id = finish(tmp_path / "home", spec_file, fails)
    said = gridlaw("run", spec_file, "--home", tmp_path / "home")
    assert said.code == 1
    assert "0 of 12 endpoints measured, 12 failed" in said.out
    last = said.err.splitlines()[-1]
    assert "6 of 6 runs failed" in last
    assert "the tokenizer cache is gone" in last
    assert f"`gridlaw retry {sweep_id}`" in last
    assert gridlaw("retry", sweep_id, "--home", tmp_path / "home").out.endswith(": queued\n")


def test_submit_queues_and_cancel_stops(gridlaw, tmp_path, spec_file):
    home = tmp_path / "home"
    sweep = json.loads(gridlaw("submit", spec_file, "--home", home, "--json").out)
    assert (sweep["state"], sweep["runs"]["queued"]) == ("queued", 6)
    assert "gridlaw serve" in gridlaw("submit", spec_file, "--home", home).out
    cancelled = gridlaw("cancel", "tiny", "--home", home)
    assert cancelled.out == f"Sweep {sweep['sweep_id']}: cancelled\n"


def test_a_port_that_is_taken_is_exit_1_and_starts_nothing(gridlaw, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = gridlaw("serve", "--home", tmp_path / "home", "--port", port)
    assert said.code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in said.err
    assert not (tmp_path / "home").exists()


def test_a_host_that_is_none_is_exit_2(gridlaw, tmp_path):
    said = gridlaw("serve", "--home", tmp_path / "home", "--host", "999.1.1.1")
    assert said.code == 2
    assert "host = 999.1.1.1" in said.err
