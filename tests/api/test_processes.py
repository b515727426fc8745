"""The command as its own process: what it loads, pipes that close, terminals of any width."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GRIDLAW = [sys.executable, "-c", "from api.cli import main; main()"]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GRIDLAW_")}
    return kept | {"PYTHONPATH": str(ROOT)} | more


def loaded(code: str, names: set[str]) -> list[str]:
    asks = f"import sys\n{code}\nprint(*sorted({names!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", asks], env=environment(), capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.slow
def test_no_verb_loads_what_trains():
    verbs = "import api.acting_verbs, api.reading_verbs, api.run_verb, api.serve_verb"
    assert loaded(verbs, {"torch", "triton", "ray", "mlflow"}) == []


def test_help_loads_nothing_that_takes_long():
    code = "\n".join(
        (
            "import io, contextlib",
            "from api.cli import main",
            "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):",
            "    main(['run', '--help'])",
        )
    )
    heavy = {"alembic", "fastapi", "numpy", "plotly", "scipy", "sqlalchemy", "yaml"}
    assert loaded(code, heavy) == []


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error_message(finished):
    process = subprocess.Popen(
        [*GRIDLAW, "export", "tiny", "--home", str(finished.home)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait() in (0, 1)
    assert said == b""


@pytest.mark.slow
@pytest.mark.parametrize("words", ["gaps tiny", "gaps tiny --json", "export tiny", "--help"])
def test_an_answer_that_cannot_be_written_is_one_sentence_and_exit_1(finished, words):
    verb = words.split()
    place = [] if verb == ["--help"] else ["--home", str(finished.home)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*GRIDLAW, *verb, *place], env=environment(), stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    sentence = "gridlaw: cannot write to standard output: No space left on device\n"
    assert done.stderr.decode() == sentence


def on_terminal(arguments: list[str], **variables: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*GRIDLAW, *arguments],
        env=environment(**variables),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 65536):
            text += chunk
    except OSError:  # the terminal is closed by its last user
        pass
    os.close(ours)
    return process.wait(), text.decode()


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["30", "80"])
def test_no_number_is_cut_on_a_narrow_terminal(finished, columns):
    code, text = on_terminal(
        ["gaps", "tiny", "--home", str(finished.home)],
        COLUMNS=columns,
        NO_COLOR="1",
        TERM="xterm",
    )
    assert code == 0
    assert "\x1b[3" not in text  # no colours
    shown = re.sub(r"\x1b\[[0-9;]*m", "", text)
    words = {word for line in shown.splitlines() for word in line.split()}
    assert {"+0.0500", "8,192", "diverged", "bf16"} <= words
    assert "\u2026" not in shown
    if int(columns) >= 80:
        assert max(map(len, shown.splitlines())) <= int(columns)
