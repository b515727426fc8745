"""`gridlaw numerics`: real questions to the real process, and what is refused before it starts."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer

from api.numerics_cli import app
from api.numerics_process import ask
from api.numerics_tables import survey_lines
from api.terminal import answer_console, print_lines
from kernels.bias import GridBias
from kernels.quality import Quality, Survey, Surveyed, SurveyedProduct
from sweeps.errors import GridlawError
from sweeps.questions import BiasQuestion

ROOT = Path(__file__).resolve().parents[2]


def stand_in(folder: Path, code: str) -> None:
    """A `workers.numerics` of another kind."""
    (folder / "workers").mkdir()
    (folder / "workers" / "__init__.py").write_text("")
    (folder / "workers" / "numerics.py").write_text(code)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_every_verb_is_on_the_page_about_the_front_doors():
    page = (ROOT / "docs" / "api.md").read_text()
    verbs = typer.main.get_group(app).commands
    assert set(re.findall(r"^\| `gridlaw numerics (\w+)", page, re.MULTILINE)) == set(verbs)


@pytest.mark.slow
def test_the_bins_of_a_grid_are_printed_with_bias_and_measured_error(gridlaw):
    said = gridlaw("numerics", "bias", "--format", "e2m1", "--samples", "65536")
    assert (said.code, said.err) == (0, "")
    rows = {line.split()[0]: line.split() for line in said.out.splitlines()[2:10]}
    assert rows["2"][1:3] == ["-0.125", "-0.0208"]
    assert rows["4"][1:3] == ["-0.25", "-0.0417"]
    assert rows["0"][1:3] == rows["6"][1:3] == ["-", "-"]
    assert float(rows["6"][4]) == pytest.approx(0.238, abs=0.02)


@pytest.mark.slow
def test_the_bins_of_ones_own_grid_are_told_as_json(gridlaw):
    said = gridlaw("numerics", "bias", "--format", "0,1,2,4", "--samples", "65536", "--json")
    told = json.loads(said.out)
    assert [level["bias"] for level in told["levels"]] == [None, 0.0, -0.25, None]
    assert told["samples"] == 65536


@pytest.mark.slow
def test_a_tensor_is_shown_without_and_with_the_transform(gridlaw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((64, 128))
    x[:, 3] *= 30
    np.save("x.npy", x)
    said = gridlaw("numerics", "tensor", "x.npy", "--format", "int4")
    assert (said.code, said.err) == (0, "")
    title, _, plain, rotated = said.out.splitlines()
    assert title.startswith(f"{tmp_path / 'x.npy'}, 64x128, in blocks of 1x16 under scale fp32")
    assert plain.split()[:2] == ["int4", "-"]
    assert rotated.split()[:2] == ["int4", "16"]
    assert float(rotated.split()[2]) > float(plain.split()[2]) + 3


@pytest.mark.slow
def test_a_tensor_that_is_not_there_is_one_sentence(gridlaw, tmp_path):
    said = gridlaw("numerics", "tensor", tmp_path / "x.npy")
    assert (said.code, said.out) == (2, "")
    assert said.err == f"gridlaw: {tmp_path / 'x.npy'} cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bias", "--format", "e9m9"), "format = e9m9 is no number format; choose one of e2m1"),
        (("bias", "--format", "0,2,1"), "must ascend strictly from 0"),
        (("bias", "--format", "e2m1", "--samples", "100"), "samples = 100"),
        (("table", "--samples", "0"), "samples = 0"),
        (("tensor", "x.npy", "--scale", "fp31"), "scale = fp31 is none of fp32"),
        (
            ("tensor", "x.npy", "--block", "1x20"),
            "block = 1x20: block must be a positive multiple of 16",
        ),
        (("tensor", "x.npy", "--rht", "12"), "rht = 12: must be a power of two"),
        (("tensor", "x.npy", "--format", "bf17"), "format = bf17"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_process_starts(
    gridlaw, monkeypatch, arguments, words
):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")  # a start would be another error
    said = gridlaw("numerics", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert words in said.err


def test_a_process_that_breaks_off_is_one_sentence_with_its_log(monkeypatch, tmp_path):
    stand_in(tmp_path, "raise RuntimeError('no luck')\n")
    monkeypatch.setattr("api.worker_side.SOURCE", tmp_path)
    with pytest.raises(GridlawError, match=r"broke off \(RuntimeError: no luck\)") as error:
        ask(BiasQuestion(format="e2m1"), GridBias)
    log = Path(str(error.value).rpartition(" ")[2])
    assert "Traceback" in log.read_text()
    log.unlink()


def test_a_process_that_cannot_be_started_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(GridlawError, match="cannot start"):
        ask(BiasQuestion(format="e2m1"), GridBias)


def test_a_killed_process_is_one_sentence(monkeypatch, tmp_path):
    stand_in(tmp_path, "import os; os.kill(os.getpid(), 9)\n")
    monkeypatch.setattr("api.worker_side.SOURCE", tmp_path)
    with pytest.raises(GridlawError, match="was killed by signal 9"):
        ask(BiasQuestion(format="e2m1"), GridBias)


@pytest.mark.slow
def test_a_request_to_end_takes_the_process_along(tmp_path):
    os.mkfifo(tmp_path / "line")
    stand_in(
        tmp_path,
        f"""
import signal
line = open({str(tmp_path / "line")!r}, "w")
print("up", file=line, flush=True)
signal.pause()
""",
    )
    code = f"""
from pathlib import Path
from api import cli, worker_side
worker_side.SOURCE = Path({str(tmp_path)!r})
cli.main(["numerics", "bias", "--format", "e2m1"])
"""
    asking = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)
    with (tmp_path / "line").open() as line:
        assert line.readline() == "up\n"
        asking.send_signal(signal.SIGTERM)
        assert line.read() == ""  # its last writer is gone
    assert asking.wait(60) == 130


def test_a_survey_is_three_tables(capsys):
    quality = Quality(
        sqnr=20.526, gain=0.99591, utilisation=0.994, crest_factor=2.1, underflow=0.07,
        saturation=0.0, buckets=(0.5, 0.5),
    )  # fmt: skip
    tensor = Surveyed(
        data="gaussian", format="e2m1", block="1x16", scale="fp32", rounding="rtne", rht=None,
        quality=quality,
    )  # fmt: skip
    rotated = replace(tensor, rht=16, quality=replace(quality, sqnr=None))
    other = replace(tensor, scale="e8m0-even", quality=replace(quality, sqnr=19.157))
    product = SurveyedProduct(
        data="swiglu", format="int4", block="1x16", scale="e4m3", rht=16, sqnr=18.866,
        sqnr_sd=0.034, gain=1.00057, gain_sd=0.00049,
    )  # fmt: skip
    survey = Survey(samples=2048, draws=8, tensors=(tensor, rotated, other), products=(product,))
    print_lines(answer_console(), survey_lines(survey))
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["gaussian", "e2m1", "20.53", "0.9959", "0.994", "-", "0.9959", "0.994"] in words
    assert ["gaussian", "e2m1", "1x16", "e8m0-even", "rtne", "19.16", "0.9959", "0.994"] in words
    assert ["swiglu", "16", "int4", "e4m3", "18.87", "0.03", "1.0006", "0.0005"] in words
