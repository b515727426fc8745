"""`gridlaw preflight` through the process that computes, and the preflights that runs keep."""

import json
import shutil

import pytest
from rich.console import Console

from api.schemas import PreflightView
from api.tables import preflight_lines
from tests.orchestrator.values import preflight


def text_of(found) -> list[str]:
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        for line in preflight_lines(found):
            console.print(line)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_each_check_is_a_line_that_says_ok_or_failed():
    first, _, *lines = text_of(preflight(failed="rht"))
    assert first == "Device cpu: C kernel, AVX2: FAILED in 0.2 s"
    assert [line.split()[:2] for line in lines] == [["division", "ok"], ["rht", "FAILED"]]
    assert lines[1].endswith("within 1e-07")


@pytest.mark.slow
def test_this_machine_passes_and_each_check_is_told(gridlaw):
    said = gridlaw("preflight")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Device ")
    assert ": passed in " in said.out.splitlines()[0]
    for name in ("subnormals", "sr streams", "rht", "grids and scales"):
        assert f"\n{name} " in said.out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_machine_that_computes_otherwise_is_exit_code_1_and_says_where(
    gridlaw, tmp_path, monkeypatch
):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nexec gcc "$@" -O1 -ffast-math\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = gridlaw("preflight", "--json")
    assert said.code == 1
    found = json.loads(said.out)
    assert found["passed"] is False
    wrong = [check for check in found["checks"] if not check["passed"]]
    assert "grids and scales" in {check["name"] for check in wrong}
    (sentence,) = said.err.splitlines()
    assert sentence == (
        f"gridlaw: the preflight of {found['device']} failed: "
        f"{wrong[0]['name']}: {wrong[0]['detail']}"
    )


def test_show_and_rest_tell_the_preflight_of_each_run(gridlaw, finished, reader):
    shown = json.loads(gridlaw("show", finished.sweep_id, "--home", finished.home, "--json").out)
    served = reader.get(f"/v1/sweeps/{finished.sweep_id}/runs").json()
    expected = PreflightView.of(preflight()).model_dump(mode="json")
    assert expected["passed"] is True
    assert [run["preflight"] for run in shown["runs"]] == [expected] * 6
    assert [run["preflight"] for run in served["runs"]] == [expected] * 6


def test_a_run_without_a_preflight_says_so(gridlaw, spec_file, tmp_path):
    home = tmp_path / "home"
    assert gridlaw("submit", spec_file, "--home", home).code == 0
    shown = json.loads(gridlaw("show", "tiny", "--home", home, "--json").out)
    assert {run["preflight"] for run in shown["runs"]} == {None}
