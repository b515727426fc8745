"""The page about fitting: its laws are the laws, and what it shows is what the commands print."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from sweeps.fits.fit import fit
from sweeps.fits.points import make_points
from sweeps.fits.predict import predict
from sweeps.fits.settings import Settings
from sweeps.laws.law import at
from sweeps.laws.registry import LAWS
from tests.sweeps.fits.public_data import FOLDER, column, public_rows

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "fitting.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SHOWN = [part for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
ON_PUBLIC_RUNS = [part for part in SHOWN if "$DATA" in part]


def words(line: str) -> list[str]:
    """A line without its padding, and without what was left out of it."""
    return line.replace("…", " … ").split()


def test_every_law_is_on_the_page_with_its_number_of_constants() -> None:
    listed = dict(re.findall(r"^\| `([a-z ]+)` \| .* \| (\d) \|$", PAGE, re.MULTILINE))
    where = at(np.geomspace(1e7, 1e9, 5), np.geomspace(1e9, 1e11, 5))
    laws = {name: str(len(about(where).parameters)) for name, about in LAWS.items()}
    assert listed == laws


def test_every_file_that_the_page_names_is_there() -> None:
    root = Path(__file__).resolve().parents[2]
    named = set(re.findall(r"`((?:sweeps|tests)/[\w/]+\.py)`", PAGE))
    assert named
    assert [name for name in sorted(named) if not (root / name).is_file()] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ON_PUBLIC_RUNS, ids=lambda part: part.splitlines()[0][:60])
def test_a_command_on_public_runs_prints_what_the_page_shows(gridlaw, tmp_path, part):
    public_rows("quartet_formats.csv")
    command, _, shown = part.replace("\\\n", " ").partition("\n")
    _, *arguments = shlex.split(command.replace("$DATA", str(FOLDER)))
    said = gridlaw(*arguments)
    printed = [" ".join(words(line)) for line in (said.out + said.err).splitlines()]
    for line in filter(str.strip, shown.splitlines()):
        pieces = [piece.strip() for piece in " ".join(words(line)).split("…") if piece.strip()]
        pattern = ".*".join(map(re.escape, pieces))
        assert any(re.search(pattern, one) for one in printed), line


def test_the_page_shows_commands_on_every_file_of_public_runs() -> None:
    files = set(re.findall(r"\$DATA/(\w+\.csv)", PAGE))
    assert files == {path.name for path in FOLDER.glob("*.csv")} or not FOLDER.is_dir()


@pytest.mark.slow
def test_the_table_of_thresholds_is_what_the_fits_say(gridlaw):
    public_rows("gemstones.csv")
    rows = re.findall(
        r"^\| (1e-\d|least squares) \| (\S+) \((\S+) to (\S+)\) \| (\S+) \| (\S+) \|$",
        PAGE,
        re.MULTILINE,
    )
    assert len(rows) == 3
    for delta, *shown in rows:
        said = gridlaw(
            *("fit", FOLDER / "gemstones.csv", "--where", "phase == 'cool_end'", "--json"),
            *("--group-col", "run_name", "--law", "chinchilla"),
            *("--delta", "inf" if delta == "least squares" else delta),
        )
        (whole,) = json.loads(said.out)["fits"]
        of = {one["name"]: one for one in whole["estimates"]}
        found = [of["E"]["value"], of["E"]["low"], of["E"]["high"]]
        found += [of["alpha"]["value"], of["beta"]["value"]]
        assert [f"{value:.3f}" for value in found] == shown


@pytest.mark.slow
def test_the_prediction_of_the_13b_model_is_what_the_fit_says():
    rows = public_rows("olmo_ladder_losses.csv")
    (target,) = [row for row in rows if row["role"] == "target" and row["size"] == "13B"]
    ladder = [row for row in rows if row["role"] == "ladder" and row["size"] != "3B"]
    kept = [row for row in ladder if float(row["D"]) > 15 * float(row["N"])]
    points = make_points(*(column(kept, name) for name in ("N", "D", "c4_en_ma5")))
    settings = Settings(law="gamma", delta=1e-3)
    found = predict(
        fit(points, label="ladder", settings=settings), float(target["N"]), float(target["D"])
    )
    ends = (found.loss, found.low, found.high, found.form_low, found.form_high)
    assert None not in ends
    loss, *bands = (f"{end:.3f}" for end in ends if end is not None)
    sentence = (
        f"predicts {loss}: its 95 % interval of the mean, {bands[0]} to {bands[1]}, and its band "
        f"over forms, {bands[2]} to {bands[3]}, hold the {float(target['c4_en_ma5']):.3f}"
    )
    assert sentence in " ".join(PAGE.split())
