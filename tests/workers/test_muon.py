"""Muon against `torch.optim.Muon`, against the singular value decomposition, and by its laws."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from sweeps.training import OptimizerKind, Training
from workers.optim import Optimizer
from workers.optimizers import muon
from workers.optimizers.muon import orthogonalised

TRAINING = Training(
    context=1,
    batch_tokens=1,
    learning_rate=0.02,
    warmup_tokens=0,
    weight_decay=0.3,
    gradient_clip=1e9,
    optimizer=OptimizerKind.MUON,
    momentum=0.9,
)
SHAPES = {"query": (16, 16), "up": (24, 16), "down": (16, 24), "key": (8, 16), "wide": (8, 64)}
TAKE, SKIP = torch.tensor(0.0), torch.tensor(1.0)
BF16 = 2.0**-8


class Blocks(nn.Module):
    """Matrices under names that Muon moves."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.blocks = nn.ParameterDict(
            {
                name: nn.Parameter(torch.randn(of, generator=generator))
                for name, of in shapes.items()
            }
        )


def advance(model: nn.Module, optimizer: Optimizer, steps: range, skip: Tensor = TAKE) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(step)
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.clip()
        optimizer.update(0.02 / (1 + step), skip)


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).detach().norm() / expected.detach().norm())


def test_matrices_move_as_those_of_the_library_do():
    model, twin = Blocks(SHAPES), Blocks(SHAPES)
    start = [weight.detach().clone() for weight in model.parameters()]
    advance(model, Optimizer(model, TRAINING), range(4))
    library: torch.optim.Optimizer = torch.optim.Muon(
        twin.parameters(), weight_decay=0.3, momentum=0.9, adjust_lr_fn="match_rms_adamw"
    )
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        for weight in twin.parameters():
            weight.grad = torch.randn(weight.shape, generator=generator)
        library.param_groups[0]["lr"] = 0.02 / (1 + step)
        library.step()
    for ours, theirs, was in zip(model.parameters(), twin.parameters(), start, strict=True):
        # Five products of BF16 matrices, in another order of sums.
        assert relative(ours - was, theirs - was) < 5 * BF16


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 40), (1, 32, 64)])
def test_an_orthogonal_factor_has_the_directions_of_the_matrix_and_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = orthogonalised(matrices).float()
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    turned = left.mT @ found @ right.mT  # diagonal if the directions are the same
    diagonal = turned.diagonal(dim1=-2, dim2=-1)
    assert float(diagonal.min()) > 0.6
    assert float(diagonal.max()) < 1.3
    off = turned - torch.diag_embed(diagonal)
    assert float(off.norm() / turned.norm()) < 0.05


def test_a_matrix_of_zeros_has_a_factor_of_zeros():
    assert not orthogonalised(torch.zeros(2, 4, 6)).any()


def test_the_size_of_a_gradient_does_not_matter():
    matrices = torch.randn(2, 8, 12, generator=torch.Generator().manual_seed(5))
    assert torch.equal(orthogonalised(matrices), orthogonalised(matrices * 2.0**40))


@pytest.mark.parametrize("shape", [(64, 64), (64, 192), (192, 64), (4, 64, 96)])
def test_a_step_has_the_root_mean_square_of_one_of_adamw(shape):
    model = Blocks({"layer": shape})
    before = model.blocks["layer"].detach().clone()
    optimizer = Optimizer(model, replace(TRAINING, weight_decay=0.0))
    advance(model, optimizer, range(1))
    step = (model.blocks["layer"].detach() - before).square().mean().sqrt() / 0.02
    # A full-rank factor has a mean square of 1 / max(out, in), its singular values from 0.7 to 1.2.
    assert 0.2 * 0.7 < float(step) < 0.2 * 1.2


def test_each_expert_of_a_stack_moves_as_a_matrix_of_its_own():
    stacked = Blocks({"experts": (5, 12, 8)})
    apart = Blocks({f"expert{index}": (12, 8) for index in range(5)})
    experts = stacked.blocks["experts"].detach().clone()
    with torch.no_grad():
        for index, weight in enumerate(apart.parameters()):
            weight.copy_(experts[index])
    one, other = Optimizer(stacked, TRAINING), Optimizer(apart, TRAINING)
    for step in range(3):
        gradient = torch.randn(5, 12, 8, generator=torch.Generator().manual_seed(step))
        stacked.blocks["experts"].grad = gradient.clone()
        for index, weight in enumerate(apart.parameters()):
            weight.grad = gradient[index].clone()
        for optimizer in (one, other):
            optimizer.clip()
            optimizer.update(0.01, TAKE)
    assert torch.equal(stacked.blocks["experts"], torch.stack([*apart.parameters()]))


def test_how_many_matrices_go_through_at_once_changes_nothing(monkeypatch):
    together, alone = Blocks(SHAPES), Blocks(SHAPES)
    advance(together, Optimizer(together, TRAINING), range(3))
    monkeypatch.setattr(muon, "BATCHED_ELEMENTS", 1)
    advance(alone, Optimizer(alone, TRAINING), range(3))
    for ours, theirs in zip(together.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.02 * BF16)


def test_a_skipped_step_leaves_no_trace():
    model, twin = Blocks(SHAPES), Blocks(SHAPES)
    optimizer = Optimizer(model, TRAINING)
    advance(model, optimizer, range(2))
    advance(model, optimizer, range(90, 92), SKIP)
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, torch.nan)
    assert optimizer.clip().isnan()
    optimizer.update(0.1, SKIP)
    advance(model, optimizer, range(2, 4))
    advance(twin, Optimizer(twin, TRAINING), range(4))
    assert all(map(torch.equal, model.parameters(), twin.parameters()))


def test_clipping_divides_what_enters_the_momentum():
    model, twin = Blocks(SHAPES), Blocks(SHAPES)
    clipped = Optimizer(model, replace(TRAINING, gradient_clip=0.5))
    whole = Optimizer(twin, TRAINING)
    advance(model, clipped, range(1))
    advance(twin, whole, range(1))
    generator = torch.Generator().manual_seed(0)
    norm = torch.cat([torch.randn(of, generator=generator).flatten() for of in SHAPES.values()])
    for name, moment in clipped.moments().items():
        torch.testing.assert_close(moment, whole.moments()[name] * 0.5 / norm.norm())


def test_restored_moments_continue_bit_for_bit():
    model, twin = Blocks(SHAPES), Blocks(SHAPES)
    optimizer, fresh = Optimizer(model, TRAINING), Optimizer(twin, TRAINING)
    advance(model, optimizer, range(3))
    twin.load_state_dict(model.state_dict())
    fresh.restore({name: value.clone() for name, value in optimizer.moments().items()}, updates=3)
    advance(model, optimizer, range(3, 6))
    advance(twin, fresh, range(3, 6))
    assert all(map(torch.equal, model.parameters(), twin.parameters()))
    optimizer.restart()
    assert all(not moment.any() for moment in optimizer.moments().values())


def test_the_number_of_threads_changes_no_bit():
    shapes = {"square": (192, 192), "down": (192, 512), "experts": (4, 256, 128)}
    results = []
    threads = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        model = Blocks(shapes)
        advance(model, Optimizer(model, TRAINING), range(2))
        results.append([*model.parameters()])
    torch.set_num_threads(threads)
    assert all(map(torch.equal, *results))
