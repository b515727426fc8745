import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sweeps.training import OptimizerKind, Training
from workers.optim import Optimizer

TRAINING = Training(
    context=1,
    batch_tokens=1,
    learning_rate=0.02,
    warmup_tokens=0,
    weight_decay=0.3,
    beta1=0.8,
    beta2=0.9,
    gradient_clip=4.0,
)
STEPS = 12
TAKE, SKIP = torch.tensor(0.0), torch.tensor(1.0)


class Two(nn.Module):
    """A matrix and a vector."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.matrix = nn.Parameter(torch.randn(3, 5, generator=generator))
        self.gain = nn.Parameter(torch.randn(4, generator=generator))


def gradients(step: int) -> list[np.ndarray]:
    generator = np.random.default_rng(step)
    return [generator.normal(size=(3, 5)), generator.normal(size=4)]


def advance(model: Two, optimizer: Optimizer, steps: range, skip: Tensor = TAKE) -> list[float]:
    norms = []
    for step in steps:
        for weight, gradient in zip(model.parameters(), gradients(step), strict=True):
            weight.grad = torch.tensor(gradient, dtype=torch.float32)
        norms.append(optimizer.clip().item())
        optimizer.update(0.02 / (1 + step), skip)
    return norms


def by_hand(weights: list[np.ndarray], steps: range) -> tuple[list[np.ndarray], list[float]]:
    """AdamW as its paper has it, in FP64."""
    decays = (0.3, 0.0)
    m = [np.zeros_like(weight) for weight in weights]
    v = [np.zeros_like(weight) for weight in weights]
    norms = []
    for step in steps:
        rate, t = 0.02 / (1 + step), step + 1
        grads = gradients(step)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in grads))
        norms.append(norm)
        for i, gradient in enumerate(grads):
            g = gradient * min(1.0, 4.0 / norm)
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.9 * v[i] + 0.1 * g * g
            mean, deviation = m[i] / (1 - 0.8**t), np.sqrt(v[i] / (1 - 0.9**t))
            weights[i] = weights[i] * (1 - rate * decays[i]) - rate * mean / (deviation + 1e-8)
    return weights, norms


def test_steps_equal_the_formula_in_double_precision():
    model = Two()
    start = [weight.detach().double().numpy().copy() for weight in model.parameters()]
    norms = advance(model, Optimizer(model, TRAINING), range(STEPS))
    expected, expected_norms = by_hand(start, range(STEPS))
    assert max(expected_norms) > 4.0 > min(expected_norms)
    assert norms == pytest.approx(expected_norms, rel=1e-6)
    for weight, reference in zip(model.parameters(), expected, strict=True):
        np.testing.assert_allclose(weight.detach().numpy(), reference, rtol=2e-6, atol=2e-7)


class Small(nn.Module):
    """A parameter of each kind that a decoder has, under its names."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        shapes = {
            "query": (8, 8),
            "down": (8, 12),
            "experts": (3, 12, 8),
            "router": (3, 8),
        }
        block = nn.Module()
        for name, shape in shapes.items():
            layer = nn.Module()
            layer.weight = nn.Parameter(torch.randn(shape, generator=generator))
            block.add_module(name, layer)
        block.add_module("norm", nn.RMSNorm(8))
        self.embedding = nn.Embedding(7, 8)
        self.blocks = nn.ModuleList([block])
        self.norm = nn.RMSNorm(8)
        self.head = nn.Linear(8, 7, bias=False)
        with torch.no_grad():
            for weight in (self.embedding.weight, self.head.weight):
                weight.copy_(torch.randn(weight.shape, generator=generator))


def moved(training: Training) -> dict[str, Tensor]:
    """Each parameter after one update with gradients of zero, over what it was."""
    model = Small()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer = Optimizer(model, training)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.clip()
    optimizer.update(0.1, TAKE)
    return {name: weight.detach() / before[name] for name, weight in model.named_parameters()}


@pytest.mark.parametrize("kind", OptimizerKind)
def test_decay_shrinks_what_multiplies_activations_alone(kind):
    kept = {"embedding.weight", "norm.weight", "blocks.0.norm.weight"}
    for name, ratio in moved(replace(TRAINING, optimizer=kind)).items():
        expected = torch.full_like(ratio, 1.0 if name in kept else 1 - 0.1 * 0.3)
        torch.testing.assert_close(ratio, expected, msg=name)


def test_muon_moves_the_matrices_of_the_blocks_and_adamw_the_rest():
    optimizer = Optimizer(Small(), replace(TRAINING, optimizer=OptimizerKind.MUON))
    by_muon = {"blocks.0.query.weight", "blocks.0.down.weight", "blocks.0.experts.weight"}
    by_adamw = {name for name, _ in Small().named_parameters()} - by_muon
    assert optimizer.moments().keys() == {
        *(f"{name}.momentum" for name in by_muon),
        *(f"{name}.{moment}" for name in by_adamw for moment in ("mean", "square")),
    }


def test_a_parameter_without_a_gradient_is_named():
    optimizer = Optimizer(Two(), TRAINING)
    with pytest.raises(ValueError, match="without a gradient cannot be updated: matrix, gain"):
        optimizer.clip()


@pytest.mark.parametrize("skip", [TAKE, SKIP])
def test_gradients_are_gone_after_a_step(skip):
    model = Two()
    advance(model, Optimizer(model, TRAINING), range(1), skip)
    assert all(weight.grad is None for weight in model.parameters())


def test_a_skipped_step_leaves_no_trace():
    model, twin = Two(), Two()
    optimizer = Optimizer(model, TRAINING)
    advance(model, optimizer, range(3))
    advance(model, optimizer, range(90, 92), SKIP)
    advance(model, optimizer, range(3, 6))
    advance(twin, Optimizer(twin, TRAINING), range(6))
    assert all(map(torch.equal, model.parameters(), twin.parameters()))


def test_a_gradient_that_is_not_finite_does_no_harm_when_it_is_skipped():
    model, twin = Two(), Two()
    optimizer = Optimizer(model, TRAINING)
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, torch.nan)
    assert optimizer.clip().isnan()
    optimizer.update(0.1, SKIP)
    assert all(map(torch.equal, model.parameters(), twin.parameters()))
    assert all(not moment.any() for moment in optimizer.moments().values())


def test_restored_moments_continue_bit_for_bit():
    model, twin = Two(), Two()
    optimizer, fresh = Optimizer(model, TRAINING), Optimizer(twin, TRAINING)
    advance(model, optimizer, range(5))
    with torch.no_grad():
        for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
            ours.copy_(theirs)
    moments = {name: value.clone() for name, value in optimizer.moments().items()}
    fresh.restore(moments, updates=5)
    advance(model, optimizer, range(5, STEPS))
    advance(twin, fresh, range(5, STEPS))
    assert all(map(torch.equal, model.parameters(), twin.parameters()))
    assert moments.keys() == optimizer.moments().keys()


def test_restarting_forgets_everything():
    model, twin = Two(), Two()
    optimizer = Optimizer(model, TRAINING)
    advance(model, optimizer, range(2))
    model.load_state_dict(twin.state_dict())
    optimizer.restart()
    advance(model, optimizer, range(3))
    advance(twin, Optimizer(twin, TRAINING), range(3))
    assert all(map(torch.equal, model.parameters(), twin.parameters()))


@pytest.mark.slow
def test_making_and_stepping_an_optimizer_does_not_load_the_compiler():
    script = """
import sys, torch
from dataclasses import replace
from sweeps.training import OptimizerKind, Training
from workers.optim import Optimizer
model = torch.nn.ModuleDict({"blocks": torch.nn.Linear(2, 2)})
training = Training(context=1, batch_tokens=1, learning_rate=0.1, warmup_tokens=0)
for kind in OptimizerKind:
    optimizer = Optimizer(model, replace(training, optimizer=kind))
    model["blocks"](torch.ones(1, 2)).sum().backward()
    optimizer.clip()
    optimizer.update(0.1, torch.zeros(()))
assert "torch._dynamo" not in sys.modules
assert "torch.distributed.tensor" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", OptimizerKind)
def test_a_gpu_moves_weights_as_the_cpu_does_and_the_same_each_time(kind):
    def after(device: str) -> list[Tensor]:
        model = Small().to(device)
        optimizer = Optimizer(model, replace(TRAINING, optimizer=kind))
        for step in range(4):
            generator = torch.Generator().manual_seed(step)
            for weight in model.parameters():
                weight.grad = torch.randn(weight.shape, generator=generator).to(device)
            optimizer.clip()
            optimizer.update(0.01, TAKE.to(device))
        return [weight.detach().cpu() for weight in model.parameters()]

    found, again, expected = after("cuda"), after("cuda"), after("cpu")
    assert all(map(torch.equal, found, again))
    for ours, theirs in zip(found, expected, strict=True):
        # Of Muon 0.2 sqrt(12) of 4 steps of 0.01, each rounded to BF16 some times.
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-4)
