"""What a training tells of its health, and that it ends where the losses say so."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from kernels.loss_scaling import LossScaling
from kernels.presets import PRESETS
from sweeps.counts import flops_per_token
from sweeps.metrics import Diverged, StepMetrics, TrainEvent
from sweeps.runspec import RunSpec
from sweeps.training import Health
from tests.workers.kill_stage import MIXTURE
from tests.workers.test_health import step_by_definition
from tests.workers.tiny import (
    BATCH,
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
from workers.utilization import measured_peak


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def unwatched(corpus, tmp_path_factory):
    """A run that learns at first and is thrown back as its rate rises, looked at by nobody."""
    torch.set_num_threads(1)
    return run(unstable(corpus), [24], tmp_path_factory.mktemp("unwatched") / "run")


def unstable(corpus: Path) -> RunSpec:
    return tiny_spec(corpus, learning_rate=2.0, warmup_tokens=16 * BATCH, cooldown=0.05)


def losses(events: list[TrainEvent]) -> list[float]:
    return [event.loss for event in events if isinstance(event, StepMetrics)]


@pytest.fixture(params=["bound", "spike"])
def health(request, unwatched):
    """Healths that end that run in its middle."""
    second, most = sorted(losses(unwatched))[-2:]
    healths = {
        "bound": Health(loss_bound=(second + most) / 2),
        "spike": Health(spike=0.5, spike_steps=2),
    }
    return healths[request.param]


def test_a_run_ends_at_the_step_that_the_definition_names(corpus, tmp_path, unwatched, health):
    step = step_by_definition(losses(unwatched), health)
    assert step is not None
    assert step > 4
    *before, last = run(replace(unstable(corpus), health=health), [24], tmp_path / "run")
    assert isinstance(last, Diverged)
    assert (last.step, last.tokens, last.is_finite) == (step, step * BATCH, True)
    assert losses(before) == losses(unwatched)[: step - 1]
    assert f"at step {step}" in last.detail or f"up to step {step}" in last.detail


def test_it_ends_there_too_when_it_was_stopped_before(corpus, tmp_path, unwatched, health):
    spec = replace(unstable(corpus), health=health)
    whole = run(spec, [24], tmp_path / "whole")
    step = step_by_definition(losses(unwatched), health)
    assert step is not None
    events = start(spec, [24], tmp_path / "parts")
    before = after_preflight(islice(events, step - 1))
    events.close()
    after = run(spec, [24], tmp_path / "parts", attempt=2)
    assert after[-1] == whole[-1]
    assert {**curve(before), **curve(after)} == curve(whole)


def test_the_update_ratio_is_that_of_the_weights_before_and_after(corpus, tmp_path):
    spec = tiny_spec(corpus)
    trainee = Trainee(spec, open_tiny(spec, tmp_path), seconds=0.0)
    for _ in range(3):
        before = matrices(trainee)
        trainee.step()
        moved = matrices(trainee) - before
        assert trainee.scheduled_report().update_ratio == pytest.approx(
            float(moved.norm() / before.norm()), rel=1e-5
        )


def matrices(trainee: Trainee) -> torch.Tensor:
    """All elements of all matrices, in FP64."""
    tensors = trainee.state().part("weight.").values()
    return torch.cat([tensor.flatten().double() for tensor in tensors if tensor.ndim >= 2])


def test_it_is_taken_at_scheduled_reports_alone(corpus, tmp_path):
    spec = tiny_spec(corpus)
    trainee = Trainee(spec, open_tiny(spec, tmp_path), seconds=0.0)
    ratios = []
    for _ in range(132):
        trainee.step()
        ratios.append((trainee.is_due, trainee.live_report().update_ratio))
    assert [due for due, _ in ratios[126:]] == [True, True, False, True, False, True]
    assert all((ratio is not None) == due for due, ratio in ratios)


def test_speed_and_utilization_are_of_the_same_stretch(corpus, tmp_path):
    spec = tiny_spec(corpus)
    reports = [e for e in run(spec, [4], tmp_path / "run") if isinstance(e, StepMetrics)]
    flops = flops_per_token(spec.model, vocab_size=257, context=32)
    for report in reports:
        assert report.mfu == pytest.approx(report.tokens_per_second * flops / measured_peak())
    held = [report.memory_bytes or 0 for report in reports]
    assert held == sorted(held)
    assert held[0] > 2**26  # an interpreter with torch takes more
    assert all(report.imbalance is None for report in reports)


def test_a_mixture_says_how_unevenly_its_experts_are_loaded(corpus, tmp_path):
    spec = replace(tiny_spec(corpus), model=MIXTURE)
    reports = [e for e in run(spec, [6], tmp_path / "run") if isinstance(e, StepMetrics)]
    assert MIXTURE.experts is not None
    most = MIXTURE.experts.count / MIXTURE.experts.active
    told = {report.imbalance or 0.0 for report in reports}
    assert all(1.0 <= one <= most for one in told)
    assert len(told) > 1


def test_a_mixture_keeps_its_routers_biases_with_its_weights(corpus, tmp_path):
    spec = replace(tiny_spec(corpus), model=MIXTURE)
    point = endpoints(run(spec, [6], tmp_path / "run"))[0]
    stored = load_file(tmp_path / "run" / f"endpoint-{point.tokens}.safetensors")
    biases = {name: tensor for name, tensor in stored.items() if name.startswith("kept.")}
    assert biases
    assert all(tensor.abs().max() > 0 for tensor in biases.values())


def test_a_skipped_step_leaves_the_routers_as_they_are(corpus, tmp_path):
    recipe = replace(PRESETS["fp16"], loss_scaling=LossScaling(initial=2.0**27))
    spec = replace(tiny_spec(corpus), model=MIXTURE, recipe=recipe)
    trainee = Trainee(spec, open_tiny(spec, tmp_path), seconds=0.0)
    before = {name: tensor.clone() for name, tensor in trainee.state().tensors.items()}
    trainee.step()
    assert trainee.scheduled_report().gradient_norm == 0
    after = trainee.state().tensors
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"history", "loss_scaling"}
    while trainee.scheduled_report().gradient_norm == 0:
        trainee.step()
    assert any(bias.any() for bias in trainee.state().part("kept.").values())
