"""Every recipe trains, and goes on after an interruption as if there had been none."""

from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import pytest
import torch

from kernels.loss_scaling import LossScaling
from kernels.presets import PRESETS
from kernels.recipes import Precision, Recipe
from sweeps.metrics import StepMetrics
from sweeps.runspec import RunSpec
from sweeps.shapes import ModelShape
from tests.workers.tiny import (
    after_preflight,
    curve,
    endpoints,
    open_tiny,
    run,
    start,
    tiny_spec,
    write_corpus,
)
from workers.trainee import Trainee

WIDE = ModelShape(name="wide", num_layers=1, width=64, num_heads=2, mlp_width=128)
JUMPY = replace(
    PRESETS["fp16"], name="fp16-jumpy", loss_scaling=LossScaling(initial=2.0**27, interval=2)
)
RESUMED = [*(PRESETS[name] for name in ("bf16", "nvfp4", "quartet2")), JUMPY]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shared, so that the corpus is tokenised once."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def wide_spec(corpus: Path, recipe: Recipe) -> RunSpec:
    return replace(tiny_spec(corpus), model=WIDE, recipe=recipe)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_trains(corpus, folder, name):
    """By the first step BF16 and the preset have the same weights, and then learn alike."""
    events = run(wide_spec(corpus, PRESETS[name]), [6], folder / name)
    losses = [event.loss for event in events if isinstance(event, StepMetrics)]
    point = endpoints(events)[0]
    assert len(losses) == 6
    assert losses[-1] < losses[0] - 0.3
    assert point.loss == pytest.approx(point.loss_bf16, abs=0.1)
    if name != "bf16":
        assert point.loss != point.loss_bf16


@pytest.mark.parametrize(("name", "is_exact"), [("nvfp4", True), ("ufp4", False)])
def test_bf16_products_change_a_run_exactly_where_operands_are_rounded(
    corpus, folder, name, is_exact
):
    fp32, bf16 = (
        run(wide_spec(corpus, replace(PRESETS[name], gemm=gemm)), [6], folder / f"{name} {gemm}")
        for gemm in (Precision.FP32, Precision.BF16)
    )
    assert (endpoints(fp32)[0].loss == endpoints(bf16)[0].loss) == is_exact
    assert endpoints(fp32)[0].loss == pytest.approx(endpoints(bf16)[0].loss, abs=0.05)


@pytest.mark.parametrize("recipe", RESUMED, ids=lambda recipe: recipe.name)
def test_an_interrupted_run_repeats_the_uninterrupted_one_bit_for_bit(corpus, folder, recipe):
    spec = wide_spec(corpus, recipe)
    whole = run(spec, [6], folder / f"whole {recipe.name}")
    events = start(spec, [6], folder / f"parts {recipe.name}")
    before = after_preflight(islice(events, 1 + 3))
    events.close()
    after = run(spec, [6], folder / f"parts {recipe.name}", attempt=2)
    assert len(curve(after)) == 3
    assert {**curve(before), **curve(after)} == curve(whole)
    assert endpoints(after) == endpoints(whole)


def test_a_run_under_loss_scaling_skips_steps_and_learns(corpus, folder):
    spec = wide_spec(corpus, JUMPY)
    trainee = Trainee(spec, open_tiny(spec, folder / "cache"), seconds=0.0)
    norms, scales = [], []
    for _ in range(12):
        trainee.step()
        norms.append(trainee.scheduled_report().gradient_norm)
        scales.append(trainee.state().tensors["loss_scaling"][0].item())
    skipped = [norm == 0 for norm in norms]
    assert skipped[0]
    assert 1 < sum(skipped) < 12
    for i in range(1, 12):
        assert scales[i] == scales[i - 1] / 2 if skipped[i] else scales[i] >= scales[i - 1]
    assert any(after > before for before, after in pairwise(scales))
    assert trainee.state().tensors["loss_scaling"][2] == sum(skipped)
    assert trainee.tokens == 12 * spec.training.batch_tokens


def test_a_skipped_step_changes_no_weight(corpus, folder):
    spec = wide_spec(corpus, JUMPY)
    trainee = Trainee(spec, open_tiny(spec, folder / "cache"), seconds=0.0)
    before = {name: tensor.clone() for name, tensor in trainee.state().tensors.items()}
    trainee.step()
    assert trainee.scheduled_report().gradient_norm == 0
    after = trainee.state().tensors
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert before.keys() - same == {"history", "loss_scaling"}


def test_fp16_lands_near_bf16(corpus, folder):
    ends = {
        name: endpoints(run(wide_spec(corpus, PRESETS[name]), [10], folder / f"ten {name}"))[0]
        for name in ("bf16", "fp16")
    }
    assert ends["fp16"].loss == pytest.approx(ends["bf16"].loss, abs=0.01)
    assert ends["fp16"].loss_bf16 == pytest.approx(ends["bf16"].loss, abs=0.01)
    assert ends["fp16"].loss != ends["bf16"].loss
