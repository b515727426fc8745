"""A run of a mixture of experts from its first step to the questions that are asked of it later."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.presets import PRESETS
from sweeps.metrics import Diagnosis, Endpoint, StepMetrics
from sweeps.run_questions import PtqQuestion, RunPlace, RunQuestion
from sweeps.runspec import Diagnostics, RunSpec
from tests.workers.models.shapes import MOE
from tests.workers.tiny import BATCH, endpoints, run, tiny_spec, write_corpus
from workers.ptq import cast_endpoints
from workers.run_quality import run_quality

DOWN = "blocks.1.mlp.experts.down"


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def home(corpus, tmp_path_factory):
    """A run in BF16 and one in four bits, to two horizons."""
    folder = tmp_path_factory.mktemp("home")
    for recipe in ("bf16", "ufp4"):
        run(spec_of(corpus, recipe), [10, 20], folder / recipe)
    return folder


def spec_of(corpus: Path, recipe: str) -> RunSpec:
    return replace(tiny_spec(corpus, recipe, learning_rate=1e-3), model=MOE)


def place(home: Path, spec: RunSpec) -> RunPlace:
    folder = home / spec.recipe.name
    return RunPlace(spec=spec, folder=str(folder), cache=str(home / "cache"))


def test_it_says_how_uneven_the_loads_of_its_experts_are(corpus, tmp_path):
    events = run(spec_of(corpus, "ufp4"), [12], tmp_path / "run")
    told = [event.imbalance for event in events if isinstance(event, StepMetrics)]
    assert all(one is not None and 1 <= one <= 3 for one in told)
    losses = [event.loss for event in events if isinstance(event, StepMetrics)]
    assert losses[-1] < losses[0] - 0.2


def test_a_longer_horizon_goes_on_from_the_trunk_with_the_biases_of_its_routers(
    home, corpus, tmp_path
):
    spec = spec_of(corpus, "ufp4")
    folder = tmp_path / "run"
    run(spec, [10], folder)
    later = endpoints(run(spec, [10, 20], folder))
    assert later[-1] == endpoints(run(spec, [10, 20], home / "ufp4"))[-1]


def test_its_endpoint_is_read_again_to_the_bit(home, corpus):
    spec = spec_of(corpus, "bf16")
    stored: list[Endpoint] = endpoints(run(spec, [10, 20], home / "bf16"))
    question = PtqQuestion(
        run=place(home, spec),
        horizons=(10 * BATCH, 20 * BATCH),
        recipes=(PRESETS["bf16"], PRESETS["e2m1-ref"]),
        weights_only=False,
        trained=(),
    )
    rows = cast_endpoints(question).endpoints
    plain = [row for row in rows if row.recipe == "bf16"]
    assert [row.loss for row in plain] == [point.loss for point in stored]
    low = [row for row in rows if row.recipe == "e2m1-ref"]
    assert all(row.loss is not None and row.loss != row.loss_bf16 for row in low)


def test_its_experts_are_diagnosed_afterwards_as_in_training(home, corpus, tmp_path):
    spec = spec_of(corpus, "ufp4")
    asked = RunQuestion(run=place(home, spec), recipe=spec.recipe, layers=(DOWN,))
    found = run_quality(asked)
    watching = replace(spec, diagnostics=Diagnostics(every=found.measured_step, layers=(DOWN,)))
    events = run(watching, [40], tmp_path / "run")
    logged = next(event for event in events if isinstance(event, Diagnosis))
    assert logged.step == found.measured_step
    assert found.layers == logged.layers
    assert {layer.layer for layer in found.layers} <= {f"{DOWN}.{index}" for index in range(6)}
    assert len(found.layers) > 1
