"""A stack of layers against separate layers of the same names, bit for bit."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from kernels.followed import followed
from kernels.formats import INT4
from kernels.grouped import GroupedQuantLinear
from kernels.linear import QuantLinear
from kernels.presets import PRESETS, compose
from kernels.recipe_module import bf16_forward, unrounded
from kernels.recipes import GEMMS, Recipe, Signs
from kernels.streams import Streams

IN, OUT = 32, 80
NAME = "blocks.3.mlp.experts.gate"
BLOCKS = (2, 0, 1, 3, 0)
"""Blocks of wgrad that the layers have rows for: some have none."""
TURNING = compose(
    INT4, name="turning", rht=GEMMS, sr=["x", "w", "dy"], rht_size=64, signs=Signs.STEP, pad=True
)
RECIPES = {**PRESETS, "turning": TURNING}
recipes = pytest.mark.parametrize("name", RECIPES)


def recipe_called(name: str) -> Recipe:
    return replace(RECIPES[name], pad=True)


def streams() -> Streams:
    return Streams(sr=11, rht=22, step=5, microbatch=1)


def stack(recipe: Recipe, state: Streams | None = None) -> GroupedQuantLinear:
    layer = GroupedQuantLinear(
        len(BLOCKS), IN, OUT, recipe=recipe, name=NAME, streams=state or streams()
    )
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    return layer


def ends_of(layer: GroupedQuantLinear) -> Tensor:
    return torch.tensor(BLOCKS).cumsum(0) * max(layer.block, 16)


def tensors(ends: Tensor, spare: int = 7) -> tuple[Tensor, Tensor]:
    """x and dy; rows that belong to no layer follow."""
    generator = torch.Generator().manual_seed(2)
    rows = int(ends[-1]) + spare
    x = torch.randn(rows, IN, generator=generator).to(torch.bfloat16)
    dy = torch.randn(rows, OUT, generator=generator).to(torch.bfloat16)
    return x, dy


def passed(layer: GroupedQuantLinear, ends: Tensor, x: Tensor, dy: Tensor) -> list[Tensor]:
    """y, dx and dw."""
    layer.zero_grad()
    x = x.detach().to(layer.carrier).requires_grad_()
    y = layer(x, ends)
    torch.autograd.backward(y, dy.to(y.dtype))
    assert x.grad is not None
    assert layer.weight.grad is not None
    return [y.detach(), x.grad, layer.weight.grad]


def separately(layer: GroupedQuantLinear, ends: Tensor, x: Tensor, dy: Tensor) -> list[Tensor]:
    """The same by one layer for each group, zero where there is none."""
    y, dx = (x.new_zeros(len(x), width, dtype=layer.carrier) for width in (OUT, IN))
    dw = torch.zeros_like(layer.weight)
    for index, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        if start == end:
            continue
        one = QuantLinear(
            IN, OUT, recipe=layer.recipe, name=f"{NAME}.{index}", streams=layer.streams
        ).to(x.device)
        with torch.no_grad():
            one.weight.copy_(layer.weight[index])
        rows = x[start:end].to(layer.carrier).requires_grad_()
        product = one(rows)
        torch.autograd.backward(product, dy[start:end].to(product.dtype))
        assert rows.grad is not None
        assert one.weight.grad is not None
        y[start:end], dx[start:end], dw[index] = product.detach(), rows.grad, one.weight.grad
    return [y, dx, dw]


def same(ours: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


@recipes
def test_each_group_is_what_a_layer_of_its_name_makes_of_it(name: str) -> None:
    layer = stack(recipe_called(name))
    ends = ends_of(layer)
    x, dy = tensors(ends)
    assert same(passed(layer, ends, x, dy), separately(layer, ends, x, dy))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@recipes
def test_a_gpu_gives_what_separate_layers_give_there(name: str) -> None:
    layer = stack(recipe_called(name)).cuda()
    ends = ends_of(layer)
    x, dy = (tensor.cuda() for tensor in tensors(ends))
    assert same(passed(layer, ends, x, dy), separately(layer, ends, x, dy))


@recipes
def test_rows_of_zeros_have_products_of_zeros_and_touch_no_other_group(name: str) -> None:
    layer = stack(recipe_called(name))
    ends = ends_of(layer)
    x, _ = tensors(ends)
    with torch.no_grad():
        full = layer(x, ends)
        x[ends[0] - 3 : ends[0]] = 0
        short = layer(x, ends)
    assert not short[ends[0] - 3 : ends[0]].any()
    assert torch.equal(short[ends[0] :], full[ends[0] :])


def test_draws_of_a_stack_follow_its_streams() -> None:
    state = streams()
    layer = stack(TURNING, state)
    ends = ends_of(layer)
    first = passed(layer, ends, *tensors(ends))
    state.move(step=6)
    second = passed(layer, ends, *tensors(ends))
    assert same(second, separately(layer, ends, *tensors(ends)))
    assert not torch.equal(first[0], second[0])
    assert not torch.equal(first[2], second[2])


def test_backward_draws_by_the_step_of_its_own_forward_pass() -> None:
    state = streams()
    layer = stack(TURNING, state)
    ends = ends_of(layer)
    x, dy = tensors(ends)
    expected = passed(layer, ends, x, dy)
    layer.zero_grad()
    x = x.requires_grad_()
    y = layer(x, ends)
    state.move(step=9)
    torch.autograd.backward(y, dy)
    assert x.grad is not None
    assert layer.weight.grad is not None
    assert same([y.detach(), x.grad, layer.weight.grad], expected)


def test_a_group_that_is_no_whole_blocks_is_refused() -> None:
    layer = stack(PRESETS["ufp4"])
    ends = ends_of(layer) - 1
    with pytest.raises(ValueError, match=r"layer 0 .* 31 rows, .* not a multiple of the 16"):
        layer(tensors(ends)[0], ends)


def test_other_features_are_refused() -> None:
    layer = stack(PRESETS["bf16"])
    with pytest.raises(ValueError, match=rf"'{NAME}' takes {IN} features, got {IN + 1}"):
        layer(torch.zeros(16, IN + 1), ends_of(layer))
    with pytest.raises(ValueError, match=rf"'{NAME}': fprop contracts over in_features = 24"):
        GroupedQuantLinear(
            2, 24, OUT, recipe=PRESETS["ufp4"], name=NAME, streams=Streams(sr=0, rht=0)
        )


def test_it_is_plain_bf16_and_unrounded_where_that_is_asked_for() -> None:
    layer = stack(PRESETS["ufp4"])
    ends = ends_of(layer)
    x, dy = tensors(ends)
    with bf16_forward(layer):
        plain = passed(layer, ends, x, dy)
    assert same(plain, separately(stack(PRESETS["bf16"]), ends, x, dy))
    layer.double()
    with unrounded(layer):
        exact = passed(layer, ends, x, dy)
    y, dx, dw = (torch.zeros_like(tensor) for tensor in exact)
    for index, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        rows, gradients = x[start:end].double(), dy[start:end].double()
        y[start:end] = rows @ layer.weight[index].detach().t()
        dx[start:end] = gradients @ layer.weight[index].detach()
        dw[index] = gradients.t() @ rows
    for ours, expected in zip(exact, (y, dx, dw), strict=True):
        assert ours.dtype is torch.float64
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["fp16", "nvfp4", "quartet2", "mxfp4-rht-sr"])
def test_the_operations_are_what_they_say_to_torch(name: str) -> None:
    layer = stack(recipe_called(name))
    ends = ends_of(layer)
    x, dy = (tensor.to(layer.carrier) for tensor in tensors(ends))
    rules, w = followed(layer.recipe, x.device), layer.weight.detach()
    keep_x = layer.recipe.fprop.is_quantized and layer.recipe.wgrad.is_quantized
    draws = layer.streams.rows(layer.recipe, layer.names, x.device)
    keep = rules.number, keep_x, rules.keeps_w
    forward = torch.ops.gridlaw.grouped_forward.default
    torch.library.opcheck(forward, (x, w, draws, ends, *keep, True))
    _, *kept = forward(x, w, draws, ends, *keep, True)
    rest = (None if keep_x else x), (None if rules.keeps_w else w)
    backward = torch.ops.gridlaw.grouped_backward.default
    torch.library.opcheck(backward, (dy, *rest, ends, kept, *keep, IN, True, True))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("name", ["bf16", "turning"])
def test_one_graph_serves_every_step_and_every_split_of_the_rows(name: str) -> None:
    torch.compiler.reset()
    state = streams()
    layer = stack(recipe_called(name), state)
    counter = CompileCounterWithBackend("aot_eager")
    quick = torch.compile(layer, backend=counter, fullgraph=True)
    ends = ends_of(layer)
    x, dy = tensors(ends)
    for step, split in enumerate((ends, ends.flip(0).sort().values, ends // 2 // 64 * 64)):
        state.move(step=step)
        expected = passed(layer, split, x, dy)
        layer.zero_grad()
        rows = x.detach().requires_grad_()
        y = quick(rows, split)
        torch.autograd.backward(y, dy)
        assert rows.grad is not None
        assert layer.weight.grad is not None
        assert same([y.detach(), rows.grad, layer.weight.grad], expected)
    assert counter.frame_count == 1


def test_a_probe_sees_the_groups_the_rows_and_their_gradients() -> None:
    layer = stack(PRESETS["ufp4"])
    ends = ends_of(layer)
    x, dy = tensors(ends)
    plain = passed(layer, ends, x, dy)
    seen: dict[str, Tensor] = {}
    layer.probe = seen.__setitem__
    assert same(passed(layer, ends, x, dy), plain)
    assert list(seen) == ["ends", "x", "dy"]
    assert same(list(seen.values()), [ends, x, dy])


@pytest.mark.parametrize("name", ["bf16", "ufp4", "nvfp4"])
def test_nothing_is_kept_that_no_gradient_needs(name: str) -> None:
    layer = stack(recipe_called(name))
    ends = ends_of(layer)
    x, _ = tensors(ends)
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        with torch.no_grad():
            layer(x, ends)
        assert saved == []
        layer(x, ends)
    floating = [tensor for tensor in saved if tensor.is_floating_point()]
    assert [tensor.data_ptr() for tensor in floating] == [x.data_ptr()]
