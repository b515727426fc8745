"""A run's checkpoint, looked at afterwards, against what training itself logs there."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.presets import PRESETS
from kernels.recipes import Recipe
from sweeps.errors import CheckpointError, GridlawError, InputError
from sweeps.metrics import Diagnosis
from sweeps.run_questions import RunPlace, RunQuality, RunQuestion
from sweeps.runspec import Diagnostics, RunSpec
from tests.workers.tiny import BATCH, run, start, tiny_spec, write_corpus
from workers.run_quality import run_quality

LAYERS = ("*.query", "*.down")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def home(corpus, tmp_path_factory):
    """A bf16 and a ufp4 run to one horizon; their trunks were kept after 8 steps."""
    folder = tmp_path_factory.mktemp("home")
    for recipe in ("bf16", "ufp4"):
        run(tiny_spec(corpus, recipe), [10], folder / recipe)
    return folder


def ask(
    spec: RunSpec, folder: Path, recipe: Recipe, layers: tuple[str, ...] = LAYERS
) -> RunQuality:
    place = RunPlace(spec=spec, folder=str(folder), cache=str(folder.parent / "cache"))
    return run_quality(RunQuestion(run=place, recipe=recipe, layers=layers))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_is_the_diagnosis_that_training_makes_three_steps_on(home, corpus, tmp_path):
    spec = tiny_spec(corpus, "ufp4")
    found = ask(spec, home / "ufp4", spec.recipe)
    assert (found.horizon, found.step, found.tokens) == (None, 8, 8 * BATCH)
    watching = replace(spec, diagnostics=Diagnostics(every=11, layers=LAYERS))
    events = run(watching, [20], tmp_path / "run")
    (logged,) = (event for event in events if isinstance(event, Diagnosis))
    assert (logged.step, logged.horizon) == (found.measured_step, None)
    assert found.layers == logged.layers
    assert all(layer.motion is not None for layer in found.layers)


def test_a_bf16_run_is_seen_under_another_recipe_and_left_as_it_was(home, corpus):
    spec = tiny_spec(corpus, "bf16")
    before = contents(home / "bf16")
    four, eight = (ask(spec, home / "bf16", PRESETS[name]) for name in ("e2m1-ref", "mxfp8"))
    assert contents(home / "bf16") == before
    for coarse, fine in zip(four.layers, eight.layers, strict=True):
        assert coarse.layer == fine.layer
        for low, high in zip(coarse.operands, fine.operands, strict=True):
            assert low.plain.sqnr is not None
            assert high.plain.sqnr is not None
            assert low.plain.sqnr < high.plain.sqnr - 5
        assert coarse.motion is not None


def test_endpoint_weights_without_moments_are_measured_without_motion(home, corpus, tmp_path):
    spec = tiny_spec(corpus, "ufp4")
    (tmp_path / "run").mkdir()
    for name, content in contents(home / "ufp4").items():
        if not name.startswith("trunk"):
            (tmp_path / "run" / name).write_bytes(content)
    found = ask(spec, tmp_path / "run", spec.recipe)
    assert (found.horizon, found.step, found.measured_step) == (10 * BATCH, 10, 11)
    assert [layer.motion for layer in found.layers] == [None, None]
    assert all(len(layer.operands) == 6 for layer in found.layers)


def test_a_name_that_fits_no_quantized_layer_is_refused(home, corpus):
    spec = tiny_spec(corpus, "ufp4")
    with pytest.raises(InputError, match=r"layers = \*.gatee: ufp4 quantizes no layer of tiny"):
        ask(spec, home / "ufp4", spec.recipe, ("*.gatee",))


def test_a_run_without_a_checkpoint_is_refused(corpus, tmp_path):
    spec = tiny_spec(corpus, "ufp4")
    with pytest.raises(CheckpointError, match=f"run {spec.run_id} has no checkpoint"):
        ask(spec, tmp_path / "run", spec.recipe)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_diverges_from_its_checkpoint_on_is_told(home, corpus):
    """Its first step, at an absurd rate, was checkpointed before the second could tell."""
    spec = tiny_spec(corpus, "ufp4")
    folder = home / "hot"
    hot = replace(spec, training=replace(spec.training, learning_rate=1e30))
    first = start(hot, [10], folder)
    next(event for event in first if getattr(event, "step", 0) == 1)
    first.close()
    with pytest.raises(
        GridlawError, match=f"{hot.run_id} diverges from here on: .* at step|finite"
    ):
        ask(hot, folder, hot.recipe)
