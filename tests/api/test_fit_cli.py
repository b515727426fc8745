"""`gridlaw fit`, `fits` and `export`: on a finished home, on files, and on the public run data."""

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeps.tables.exports import What
from tests.api.conftest import Said
from tests.sweeps.fits.public_data import FOLDER, public_rows

ROOT = Path(__file__).resolve().parents[2]
REFIT = "--arm-col recipe --group-col cluster --label-col label --excluded-col excluded".split()

QUICK = ("--resamples", "100")


@pytest.fixture
def runs(tmp_path):
    """A file of 16 runs of a known law."""
    path = tmp_path / "runs.csv"
    lines = ["N,D,loss,format,tokenizer"]
    for size in (3e7, 1e8, 3e8, 1e9):
        for ratio in (10, 30, 100, 300):
            loss = 1.7 + 400 / size**0.34 + 1000 / (size * ratio) ** 0.33
            lines.append(f"{size},{size * ratio},{loss},bf16,gpt2")
    path.write_text("\n".join(lines) + "\n")
    return path


def fits_of(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    found: list[dict[str, Any]] = json.loads(said.out)["fits"]
    return found


def test_a_file_is_fitted_without_a_home_and_none_is_made(gridlaw, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (fit,) = fits_of(gridlaw("fit", runs, "--law", "chinchilla", *QUICK, "--json"))
    constants = {item["name"]: item["value"] for item in fit["estimates"]}
    assert constants["E"] == pytest.approx(1.7, rel=1e-6)
    assert constants["alpha"] == pytest.approx(0.34, rel=1e-6)
    assert constants["beta"] == pytest.approx(0.33, rel=1e-6)
    assert constants["A"] == pytest.approx(400, rel=1e-4)
    assert [path.name for path in tmp_path.iterdir()] == ["runs.csv"]


def test_a_fit_is_kept_once_in_a_home_listed_and_printed_whole(gridlaw, runs, tmp_path, finished):
    home = tmp_path / "home"
    home.mkdir()
    (home / "gridlaw.db").write_bytes((finished.home / "gridlaw.db").read_bytes())
    (fit,) = fits_of(gridlaw("fit", runs, *QUICK, "--home", home, "--json"))
    fits_of(gridlaw("fit", runs, *QUICK, "--home", home, "--json"))
    listed = json.loads(gridlaw("fits", "--home", home, "--json").out)["fits"]
    assert [(one["fit_id"], one["source"]) for one in listed] == [(fit["fit_id"], str(runs))]
    whole = json.loads(gridlaw("fits", fit["fit_id"][:8], "--home", home, "--json").out)
    assert whole["solution"]["samples"]["data"]
    assert whole["estimates"] == fit["estimates"]
    text = gridlaw("fits", fit["fit_id"], "--home", home).out
    assert fit["verdict"][0] in text
    assert fit["fit_id"] in gridlaw("fits", "--home", home).out
    curves = gridlaw("export", fit["fit_id"], "--what", "curves", "--home", home)
    assert len(list(csv.DictReader(io.StringIO(curves.out)))) == 7 * 33
    said = gridlaw("export", fit["fit_id"], "--what", "points", "--home", home)
    assert (said.code, said.out) == (2, "")
    assert "not its runs" in said.err


def test_a_store_that_cannot_be_opened_costs_a_fit_of_a_file_only_the_keeping(
    gridlaw, runs, tmp_path
):
    (tmp_path / "gridlaw.db").write_text("no database, but long enough to be taken for one" * 20)
    said = gridlaw("fit", runs, *QUICK, "--home", tmp_path, "--json")
    assert len(fits_of(said)) == 1
    assert re.fullmatch(r"Not kept: the database .* is not a database file\n", said.err)
    assert gridlaw("fits", "--home", tmp_path).code == 1


def test_fits_are_written_whole_to_a_file(gridlaw, runs, tmp_path):
    said = gridlaw(
        "fit", runs, *QUICK, "--out", tmp_path / "fits.json", "--home", tmp_path / "none"
    )
    (whole,) = json.loads((tmp_path / "fits.json").read_text())["fits"]
    assert whole["settings"]["law"] == "auto"
    assert whole["fit_id"] in said.out
    assert "Not kept: there is no store in" in said.err


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_fitting_the_exported_points_gives_the_same_bytes(gridlaw, finished, tmp_path, ending):
    there = fits_of(gridlaw("fit", "tiny", "--home", finished.home, "--json"))
    path = tmp_path / f"points.{ending}"
    out = ("--what", "points", "--out", path)
    assert gridlaw("export", "tiny", "--home", finished.home, *out).code == 0
    again = fits_of(gridlaw("fit", path, *REFIT, "--home", tmp_path, "--json"))
    assert [fit["label"] for fit in again] == ["bf16", "ufp4", "e4m3"]
    for first, second in zip(there, again, strict=True):
        del first["curves"], second["curves"]  # a file does not know its models' FLOPs
        assert json.dumps(first) == json.dumps(second)


def test_the_command_of_the_checklist_is_the_one_that_refits(
    gridlaw, finished, tmp_path, monkeypatch
):
    gridlaw("export", "tiny", "--home", finished.home, "--out", tmp_path)
    with (tmp_path / "checklist.csv").open(newline="") as file:
        (command,) = [
            row["value"] for row in csv.DictReader(file) if row["item"] == "to fit them again"
        ]
    monkeypatch.chdir(tmp_path)
    again = fits_of(gridlaw(*shlex.split(command)[1:], "--json"))
    there = fits_of(gridlaw("fit", "tiny", "--home", finished.home, "--json"))
    assert [fit["fit_id"] for fit in again] == [fit["fit_id"] for fit in there]


def test_a_file_that_is_called_as_a_sweep_does_not_hide_it(
    gridlaw, finished, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("tiny", "tiny.txt"):
        (tmp_path / name).write_text("notes")
    assert gridlaw("fit", "tiny", *QUICK, "--home", finished.home).code == 0
    for name in ("./tiny", "tiny.txt"):
        said = gridlaw("fit", name, "--home", finished.home)
        assert said.code == 2
        assert "a file of runs ends in .csv" in said.err


def test_a_folder_gets_every_table(gridlaw, finished, tmp_path):
    said = gridlaw("export", "tiny", "--home", finished.home, "--out", tmp_path / "all")
    assert said.code == 0
    assert {path.name for path in (tmp_path / "all").iterdir()} == {f"{what}.csv" for what in What}
    for path in (tmp_path / "all").iterdir():
        assert f"Wrote {path}" in said.err


def test_one_table_in_each_form(gridlaw, finished, tmp_path):
    place = ("--home", finished.home, "--what", "endpoints")
    for form in ("csv", "parquet", "json"):
        gridlaw("export", "tiny", *place, "--out", tmp_path / f"rows.{form}")
    with (tmp_path / "rows.csv").open(newline="") as file:
        losses = [row["loss"] for row in csv.DictReader(file)]
    table = parquet.read_table(tmp_path / "rows.parquet")
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert table.column("loss").to_pylist() == [row["loss"] for row in rows]
    assert [float(loss) if loss else None for loss in losses] == [row["loss"] for row in rows]
    assert table.schema.field("tokens").type == pa.int64()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["fit", "{runs}", "--loss-col", "los"], 2, "loss-col = los: .*did you mean loss"),
        (["fit", "{runs}", "--where", "n > 3"], 2, "where = n > 3: name 'n' is not defined"),
        (["fit", "{runs}", "--law", "chincilla"], 2, "did you mean chinchilla"),
        (["fit", "{runs}", "--delta", "0"], 2, "delta = 0.0: .* must be positive"),
        (["fit", "{runs}", "--residual", "lin"], 2, "residual = 'lin': must be one of 'log'"),
        (["fit", "{runs}", "--diverged", "drop"], 2, "diverged = 'drop': must be one of 'leave"),
        (["fit", "{runs}", "--resamples", "3"], 2, "resamples = 3: .* at least 100"),
        (["fit", "{runs}", "--joint", "N"], 2, "--joint is about arms; --arm-col says what they"),
        (["fit", "{runs}", "--baseline", "bf16"], 2, "--baseline is about arms; --arm-col says"),
        (["fit", "{runs}", "--joint", "N,N", "--arm-col", "format"], 2, "names an effect twice"),
        (["fit", "{runs}", "--joint", "X", "--arm-col", "format"], 2, "joint = 'X': must be"),
        (["fit", "missing.csv"], 2, "missing.csv cannot be read: .*No such file"),
        (["fit", "tiny", "--n-col", "N"], 2, "--n-col is for a file of runs, and tiny is taken"),
        (["export", "tiny", "--what", "all"], 2, "what = 'all': must be one of 'endpoints'"),
        (["export", "tiny", "--out", "x.xls"], 2, "out = x.xls: must end in .csv, .parquet, .json"),
        (["export", "tiny", "--format", "xls"], 2, "format = 'xls': must be one of 'csv'"),
        (["export", "nothing"], 1, "there is no sweep and no kept fit 'nothing'"),
        (["fits", "zzzz"], 1, "there is no fit 'zzzz'"),
    ],
)
def test_a_mistake_is_one_sentence(gridlaw, finished, runs, arguments, code, sentence):
    words = [word.replace("{runs}", str(runs)) for word in arguments]
    said = gridlaw(*words, "--home", finished.home)
    assert (said.code, said.out) == (code, "")
    (line,) = said.err.splitlines()
    assert line.startswith("gridlaw: ")
    assert re.search(sentence, line), line


def test_two_tokenizers_are_refused_though_nobody_named_the_column(gridlaw, runs):
    runs.write_text(runs.read_text().replace("gpt2", "llama", 3))
    said = gridlaw("fit", runs)
    assert said.code == 2
    assert "tokenizer-col = tokenizer: runs holds 2 values, 'llama', 'gpt2'" in said.err
    assert gridlaw("fit", runs, *QUICK, "--tokenizer-col", "").code == 0


def test_rows_fewer_than_the_constants_give_no_law_and_say_so(gridlaw, runs):
    (fit,) = fits_of(gridlaw("fit", runs, "--where", "N < 2e8 and D < 2e9", "--json"))
    assert fit["status"] == "not identified"
    assert all(item["value"] is None for item in fit["estimates"])
    assert fit["verdict"]


# The public data, as a reader would type it.


@pytest.fixture
def on_public(gridlaw):
    def call(name, *arguments):
        public_rows(name)
        return gridlaw("fit", FOLDER / name, *QUICK, "--json", *arguments)

    return call


@pytest.mark.slow
def test_quartet_constants_come_out_of_the_command_as_a_process(tmp_path):
    public_rows("quartet_formats.csv")
    script = "import sys; from api.cli import main; main(sys.argv[1:])"
    condition = "in_first_rev == 1 and fwd_format == 'BF16' and bwd_format == 'BF16'"
    options = ["--law", "gamma", "--delta", "1e-4", *QUICK, "--json"]
    file = str(FOLDER / "quartet_formats.csv")
    done = subprocess.run(
        [sys.executable, "-c", script, "fit", file, "--where", condition, *options],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    (fit,) = json.loads(done.stdout)["fits"]
    assert fit["search"]["objective"] == pytest.approx(1.876208544909919e-06, rel=1e-6)
    constants = {item["name"]: item["value"] for item in fit["estimates"]}
    assert constants["E"] == pytest.approx(1.3481410, abs=1e-5)
    assert constants["gamma"] == pytest.approx(0.2739285, abs=1e-5)
    assert list(tmp_path.iterdir()) == []


def test_mixed_cooldown_phases_are_refused_by_the_command(on_public):
    said = on_public("gemstones.csv")
    assert (said.code, said.out) == (2, "")
    assert "phase-col = phase: gemstones holds 3 values" in said.err


def test_one_phase_clustered_by_run_gives_the_published_constants(on_public):
    options = ["--group-col", "run_name", "--law", "chinchilla", "--delta", "1e-3"]
    (fit,) = fits_of(on_public("gemstones.csv", "--where", "phase == 'cool_end'", *options))
    names = {row["run_name"] for row in public_rows("gemstones.csv") if row["phase"] == "cool_end"}
    assert fit["n_clusters"] == len(names)
    assert fit["search"]["objective"] == pytest.approx(0.001964086431, rel=1e-6)


def test_formats_of_one_law_come_out_of_the_command(on_public):
    condition = (
        "in_first_rev == 1 and (bwd_format == 'BF16' and fwd_format in ['BF16', 'QuEST'] or "
        "fwd_format == 'BF16' and bwd_format == 'AlbertTsengQuantizer')"
    )
    options = ["--arm-col", "fwd_format,bwd_format", "--joint", "N,D", "--law", "gamma"]
    (fit,) = fits_of(on_public("quartet_formats.csv", "--where", condition, *options))
    assert fit["arms"] == ["BF16/BF16", "BF16/AlbertTsengQuantizer", "QuEST/BF16"]
    values = {item["name"]: item for item in fit["estimates"]}
    forward = values["eff_N[QuEST/BF16]"]
    assert forward["low"] < 0.65 < forward["high"]
    assert forward["value"] == pytest.approx(0.65, abs=0.03)
