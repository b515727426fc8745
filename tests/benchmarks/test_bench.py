"""`python -m benchmarks` as a process: quick runs of what the repository has, and its refusals."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from benchmarks.__main__ import RESULTS, main
from benchmarks.machine import ROOT, machine
from benchmarks.results import Result, Setting
from kernels.presets import PRESETS


class Ran(NamedTuple):
    tables: str
    said: str
    files: dict[str, dict[str, Any]]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    out = tmp_path_factory.mktemp("results") / "new" / "folder"
    done = bench(
        "kernels", "step", "train", "fits", "--quick", "--threads", "1", "--device", "cpu",
        "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    files = {path.name: json.loads(path.read_text()) for path in out.iterdir()}
    return Ran(done.stdout, done.stderr, files)


def rows(ran: Ran, name: str) -> list[dict[str, Any]]:
    return [row for table in ran.files[name]["tables"] for row in table["rows"]]


@pytest.mark.slow
def test_each_benchmark_writes_a_file_that_says_on_what_it_ran(ran: Ran) -> None:
    expected = {f"{name}-cpu.json" for name in ("kernels", "step", "train", "fits")}
    assert set(ran.files) == expected
    for name, found in ran.files.items():
        assert name in ran.said
        assert found["quick"] is True
        machine = found["machine"]
        assert machine["device"] == "cpu"
        assert machine["torch"] == torch.__version__
        assert torch.backends.cpu.get_cpu_capability() in machine["name"]
        age = datetime.now(UTC) - datetime.fromisoformat(machine["date"])
        assert timedelta(0) <= age < timedelta(minutes=10)
        assert machine["name"] in ran.tables


@pytest.mark.slow
def test_the_legend_explains_every_key_of_every_row(ran: Ran) -> None:
    def keys(row: dict[str, Any]) -> set[str]:
        inner = [keys(value) for value in row.values() if isinstance(value, dict)]
        return set(row).union(*inner)

    for name, found in ran.files.items():
        explained = {word for key in found["legend"] for word in key.split(", ")}
        for row in rows(ran, name):
            assert keys(row) <= explained


@pytest.mark.slow
def test_kernels_report_each_way_along_each_axis_with_its_bytes(ran: Ran) -> None:
    found = [row for row in rows(ran, "kernels-cpu.json") if "way" in row]
    assert {(row["name"], row["way"]) for row in found} == {
        (name, way)
        for name in ("e2m1", "int4", "e4m3 16x16", "fp32 row")
        for way in ("rtne", "sr", "rht rtne", "rht sr")
    }
    for row in found:
        elements = row["shape"][0] * row["shape"][1]
        for axis, bytes_each in (("row", 6), ("col", 6), ("both", 10)):
            figures = row[axis]
            assert figures["bytes"] == elements * bytes_each
            rate = elements / figures["seconds"] / 1e9
            assert figures["gelem_per_s"] == pytest.approx(rate, rel=0.01)
            for ratio in (figures["to_cast"], figures["copy_share"]):
                low, high = ratio["quartiles"]
                assert 0 < low <= ratio["median"] <= high
                assert ratio["rounds"] == 3


@pytest.mark.slow
def test_kernels_report_what_the_transform_adds_to_each_rounding(ran: Ran) -> None:
    found = [row for row in rows(ran, "kernels-cpu.json") if "rht_adds" in row]
    assert sorted((row["name"], row["rounding"]) for row in found) == sorted(
        (name, rounding)
        for name in ("e2m1", "int4", "e4m3 16x16", "fp32 row")
        for rounding in ("rtne", "sr")
    )
    for row in found:
        assert list(row["rht_adds"]) == ["row", "col", "both"]
        for adds in row["rht_adds"].values():
            assert -1 < adds["median"]
            assert f"{adds['median']:+.1%}" in ran.tables


@pytest.mark.slow
def test_kernels_on_one_thread_say_which_take_more_casts_than_aimed_at(ran: Ran) -> None:
    tables = ran.files["kernels-cpu.json"]["tables"]
    for row in tables[0]["rows"]:
        aim = {"rht rtne": 3, "sr": 5, "rht sr": 5}.get(row["way"])
        assert row["aim"] == aim
        assert row["beyond_aim"] == [
            axis for axis in ("row", "col") if aim and row[axis]["to_cast"]["median"] > aim
        ]
    assert "over the aim of 3 casts for rht rtne, 5 for sr: " in tables[0]["note"]
    (others,) = (table for table in tables if table["title"].startswith("Other scales"))
    assert all(row["aim"] is None for row in others["rows"])
    assert "aim" not in others["note"]


@pytest.mark.slow
def test_steps_report_recipes_against_bf16_for_both_models(ran: Ran) -> None:
    found = rows(ran, "step-cpu.json")
    assert [row["recipe"] for row in found] == ["bf16", "ufp4"] * 2
    assert [row["gemm"] for row in found] == [None, PRESETS["ufp4"].gemm.value] * 2
    narrow, wide = found[1], found[3]
    assert wide["N"] > 10 * narrow["N"]
    for row in found:
        assert row["threads"] == 1
        assert row["milliseconds"] == pytest.approx(1e3 * row["seconds"]["median"], rel=0.01)
        if row["recipe"] == "bf16":
            assert row["ratio"]["median"] == 1


@pytest.mark.slow
def test_train_reports_the_speed_of_each_model_that_fits_under_each_recipe(ran: Ran) -> None:
    found = rows(ran, "train-cpu.json")
    assert [row["recipe"] for row in found] == ["bf16", "ufp4"] * (len(found) // 2)
    assert found[0]["preset"] == "50k"
    for row in found:
        seconds = row["seconds"]["median"]
        assert row["tokens_per_second"] == pytest.approx(row["tokens"] / seconds, rel=0.01)
        assert row["mfu"] == pytest.approx(row["flops"] / seconds / row["peak"], rel=0.01)
        assert 0 < row["mfu"] < 1


@pytest.mark.slow
def test_a_quick_run_leaves_the_kept_figures_alone() -> None:
    before = {path: path.read_bytes() for path in RESULTS.glob("*.json")}
    done = bench("kernels", "--quick", "--threads", "1", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "written" not in done.stderr
    assert {path: path.read_bytes() for path in RESULTS.glob("*.json")} == before


def test_chosen_grids_do_not_replace_the_kept_figures_but_go_where_they_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Setting] = []

    def run(setting: Setting) -> Result:
        asked.append(setting)
        return Result(
            benchmark="kernels", machine=machine(setting.device), quick=setting.quick, tables=(),
            reading="", legend={},
        )  # fmt: skip

    kept, told = tmp_path / "kept", tmp_path / "told"
    monkeypatch.setattr("benchmarks.__main__.RESULTS", kept)
    monkeypatch.setattr("benchmarks.kernels.run", run)
    chosen = ["kernels", "--grid", "int8", "--grid", "e3m0", "--grid", "int8"]
    for arguments in (chosen, [*chosen, "--out", str(told)], ["kernels"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert kept.exists() == (arguments == ["kernels"])
    assert [setting.grids for setting in asked] == [("int8", "e3m0")] * 2 + [()]
    assert len(list(told.iterdir())) == len(list(kept.iterdir())) == 1


def test_a_folder_that_cannot_be_is_one_sentence_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "results"
    with pytest.raises(SystemExit) as ended:
        main(["kernels", "--out", str(out)])
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("benchmarks: ")
    assert str(out) in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["speed"], ("'speed' is not one of", "kernels", "step", "train", "peers")),
        (["kernels", "--device", "tpu"], ("'tpu' is not one of", "cpu", "cuda")),
        (["kernels", "--threads", "0"], ("'--threads'", "1")),
        (["kernels", "--grid", "e9m9"], ("--grid e9m9", "e2m1", "int4")),
        (["step", "--grid", "e2m1"], ("--grid e2m1", "kernels", "not to run")),
    ],
)
def test_what_is_unknown_is_refused_in_one_sentence(
    arguments: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    last = said.err.strip().splitlines()[-1]
    assert all(word in last for word in words)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["kernels", "--device", "cuda"])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.err == "benchmarks: --device cuda: torch finds no such device here\n"


@pytest.mark.gpu
@pytest.mark.slow
def test_a_gpu_runs_kernels_and_steps_and_is_named(tmp_path: Path) -> None:
    done = bench("kernels", "step", "--quick", "--device", "cuda", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for name in ("kernels-cuda.json", "step-cuda.json"):
        found = json.loads((tmp_path / name).read_text())
        assert found["machine"]["name"] == torch.cuda.get_device_name()
