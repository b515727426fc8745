"""Gradients of a part that runs again for backward are the same to the bit."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from kernels.checkpointing import checkpointed
from kernels.formats import INT4
from kernels.linear import QuantLinear
from kernels.presets import PRESETS, compose
from kernels.recipes import GEMMS, Recipe, Signs
from kernels.streams import Streams

TURNING = compose(INT4, name="turning", rht=GEMMS, sr=["x", "w", "dy"], signs=Signs.STEP)
RECIPES = {name: PRESETS[name] for name in ("bf16", "ufp4", "nvfp4", "quartet2")}
recipes = pytest.mark.parametrize("recipe", [*RECIPES.values(), TURNING], ids=lambda it: it.name)
Forward = Callable[[nn.Module, Streams, Tensor], Tensor]


def plainly(part: nn.Module, _: Streams, x: Tensor) -> Tensor:
    out: Tensor = part(x)
    return out


class Pass:
    """One forward pass of two layers, whose backward may come later."""

    def __init__(self, recipe: Recipe, forward: Forward, streams: Streams) -> None:
        generator = torch.Generator().manual_seed(1)
        self.part = nn.Sequential(
            *(
                QuantLinear(128, 128, recipe=recipe, name=f"blocks.{i}.a", streams=streams)
                for i in range(2)
            )
        )
        for weight in self.part.parameters():
            nn.init.normal_(weight, std=0.1, generator=generator)
        self.x = torch.randn(128, 128, generator=generator).requires_grad_()
        self.y = forward(self.part, streams, self.x)

    def gradients(self) -> list[Tensor | None]:
        torch.autograd.backward(self.y.square().sum())
        return [self.x.grad, *(weight.grad for weight in self.part.parameters())]


def same(ours: list[Tensor | None], expected: list[Tensor | None]) -> bool:
    pairs = zip(ours, expected, strict=True)
    return all(a is not None and b is not None and torch.equal(a, b) for a, b in pairs)


@recipes
@pytest.mark.parametrize("moves", [False, True])
def test_gradients_are_the_same_wherever_the_streams_are_by_then(
    recipe: Recipe, moves: bool
) -> None:
    expected = Pass(recipe, plainly, Streams(sr=1, rht=2, step=3, microbatch=1)).gradients()
    streams = Streams(sr=1, rht=2, step=3, microbatch=1)
    ours = Pass(recipe, checkpointed, streams)
    if moves:
        streams.move(step=9)
    assert same(ours.gradients(), expected)
    assert (streams.step, streams.microbatch) == ((9, 0) if moves else (3, 1))


def test_microbatches_in_flight_run_again_each_with_its_own_draws() -> None:
    def microbatches(forward: Forward) -> list[list[Tensor | None]]:
        streams = Streams(sr=1, rht=2)
        passes = []
        for microbatch in range(3):
            streams.move(step=4, microbatch=microbatch)
            passes.append(Pass(TURNING, forward, streams))
        return [one.gradients() for one in passes]

    expected = microbatches(plainly)
    assert not same(expected[0], expected[1])
    pairs = zip(microbatches(checkpointed), expected, strict=True)
    assert all(same(ours, theirs) for ours, theirs in pairs)


def test_the_streams_return_from_a_second_run_that_fails() -> None:
    streams = Streams(sr=1, rht=2)
    runs = []

    def part(x: Tensor) -> Tensor:
        runs.append(streams.step)
        if len(runs) == 2:
            raise OverflowError
        return x.exp()

    y = checkpointed(part, streams, torch.ones(2, requires_grad=True))
    streams.move(step=7, microbatch=2)
    with pytest.raises(OverflowError):
        torch.autograd.backward(y.sum())
    assert runs == [0, 0]
    assert (streams.step, streams.microbatch) == (7, 2)


def test_only_the_input_is_kept() -> None:
    def bytes_kept(forward: Forward) -> int:
        kept: list[Tensor] = []

        def pack(tensor: Tensor) -> Tensor:
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            Pass(TURNING, forward, Streams(sr=1, rht=2))
        return sum(tensor.nbytes for tensor in kept)

    size = 128 * 128
    assert bytes_kept(plainly) > 4 * size
    assert bytes_kept(checkpointed) <= 4 * size


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("moves", [False, True])
def test_a_compiled_part_has_the_same_gradients_or_says_that_the_streams_have_moved(
    moves: bool,
) -> None:
    torch.compiler.reset()
    quick = torch.compile(checkpointed, backend="aot_eager", fullgraph=True)
    expected = Pass(TURNING, plainly, Streams(sr=1, rht=2, step=3)).gradients()
    streams = Streams(sr=1, rht=2, step=3)
    ours, found, said = Pass(TURNING, quick, streams), None, ""
    if moves:
        streams.move(step=9)
    try:
        found = ours.gradients()
    except RuntimeError as error:
        said = str(error)
    if found is None:
        assert moves, said
        assert "modified by an inplace operation" in said, said
    else:
        assert same(found, expected)
