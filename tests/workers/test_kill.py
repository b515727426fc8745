"""A run whose process is killed again and again is the run that was left alone, bit for bit."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from sweeps.metrics import Endpoint, StepMetrics, TrainEvent
from tests.workers.kill_stage import STEPS, spec_of
from tests.workers.tiny import BATCH, curve, endpoints, write_corpus

CASES = ("bf16 adamw dense", "ufp4 muon dense", "bf16 adamw moe", "ufp4 muon moe")
KILLS = 6

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def home(corpus, tmp_path_factory):
    """Where all cases were trained."""
    folder = tmp_path_factory.mktemp("runs")
    stage = [sys.executable, "-m", "tests.workers.kill_stage", corpus, folder, str(KILLS), *CASES]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        stage, capture_output=True, text=True, check=False, env={**os.environ, **threads}
    )
    assert done.returncode == 0, done.stderr
    return folder


def attempts(folder: Path) -> list[list[TrainEvent]]:
    """What each process told before its end."""
    paths = sorted(folder.glob("told-*.jsonl"), key=lambda path: int(path.stem[5:]))
    return [list(told(path)) for path in paths]


def told(path: Path) -> Iterator[TrainEvent]:
    """Reports and endpoints; a line that was torn off was never told."""
    kinds: dict[str, Callable[..., TrainEvent]] = {
        "StepMetrics": StepMetrics,
        "Endpoint": Endpoint,
    }
    for line in path.read_text().splitlines(keepends=True):
        kind, fields = json.loads(line) if line.endswith("\n") else ("", {})
        if kind in kinds:
            yield kinds[kind](**fields)


def saved(folder: Path, branch_steps: list[int]) -> dict[str, bytes]:
    """Weights at the endpoints; weights, moments and all else at the branch points."""
    names = [f"endpoint-{step * BATCH}" for step in STEPS]
    names += [f"trunk-{branch:09d}" for branch in branch_steps]
    return {name: (folder / "run" / f"{name}.safetensors").read_bytes() for name in names}


def branches(corpus: Path, case: str) -> list[int]:
    return [spec_of(corpus, case).branch_tokens(step * BATCH) // BATCH for step in STEPS]


@pytest.mark.parametrize("case", CASES)
def test_processes_were_killed_in_the_middle(home, case):
    """Else nothing is shown here."""
    stories = attempts(home / case / "hunted")
    assert len(stories) > 3
    assert all(len(endpoints(story)) < len(STEPS) for story in stories[:-1])
    assert sum(0 < len(curve(story)) for story in stories[:-1]) >= 2


@pytest.mark.parametrize("case", CASES)
def test_all_attempts_together_tell_what_one_would(home, case):
    (whole,) = attempts(home / case / "alone")
    stories = attempts(home / case / "hunted")
    merged: dict[tuple[int | None, int], StepMetrics] = {}
    for story in stories:
        repeated = curve(story).keys() & merged.keys()
        assert all(curve(story)[place] == merged[place] for place in repeated)
        merged |= curve(story)
    assert merged == curve(whole)
    assert endpoints(stories[-1]) == endpoints(whole)


@pytest.mark.parametrize("case", CASES)
def test_weights_moments_and_history_are_the_same_files(home, corpus, case):
    alone, hunted = (
        saved(home / case / name, branches(corpus, case)) for name in ("alone", "hunted")
    )
    for name, content in alone.items():
        assert hunted[name] == content, name


@pytest.mark.parametrize("case", CASES)
def test_the_files_hold_all_that_a_run_goes_on_from(home, corpus, case):
    last = branches(corpus, case)[-1]
    state = load_file(home / case / "alone" / "run" / f"trunk-{last:09d}.safetensors")
    parts = {name.split(".")[0] for name in state}
    assert parts - {"kept"} == {"weight", "moment", "history", "loss_scaling"}
    assert ("kept" in parts) == ("moe" in case)
    assert len(state["history"]) == last
