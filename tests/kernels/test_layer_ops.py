"""What a pass keeps for backward, and that it is the same within torch.compile and autocast."""

import copy
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from kernels.followed import followed
from kernels.formats import INT4
from kernels.gemm import FPROP, LayerPass
from kernels.linear import QuantLinear
from kernels.presets import PRESETS, compose
from kernels.recipe_module import bf16_forward
from kernels.recipes import GEMMS, Recipe, Signs
from kernels.streams import Streams

# What torch itself does while it compiles.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]

TOKENS, IN, OUT = 48, 32, 80
LAYER = "blocks.0.attention.query"
TURNING = compose(
    INT4, name="turning", rht=GEMMS, sr=["x", "w", "dy"], rht_size=64, signs=Signs.STEP, pad=True
)


@pytest.fixture(autouse=True)
def nothing_compiled_yet() -> None:
    torch.compiler.reset()


def streams(step: int = 5) -> Streams:
    return Streams(sr=11, rht=22, step=step, microbatch=1)


def make_layer(recipe: Recipe, *, state: Streams | None = None) -> QuantLinear:
    layer = QuantLinear(IN, OUT, recipe=recipe, name=LAYER, streams=state or streams())
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    return layer


def tensors() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(TOKENS, IN, generator=generator).to(torch.bfloat16)
    dy = torch.randn(TOKENS, OUT, generator=generator).to(torch.bfloat16)
    return x, dy


def apply(layer: Callable[[Tensor], Tensor], weight: Tensor, x: Tensor, dy: Tensor) -> list[Tensor]:
    """y, dx and dw."""
    weight.grad = None
    x = x.detach().requires_grad_()
    y = layer(x)
    torch.autograd.backward(y, dy.to(y.dtype))
    return [y.detach(), *(it.grad for it in (x, weight) if it.grad is not None)]


def same(ours: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, expected, strict=True))


def kept(layer: QuantLinear, x: Tensor) -> list[Tensor]:
    """What a pass keeps for backward, but for the words of its draws."""
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return [tensor for tensor in saved if tensor.dtype is not torch.int64]


def test_a_pass_keeps_its_input_and_the_weight_and_copies_neither() -> None:
    for name in ("bf16", "ufp4"):
        layer, x = make_layer(PRESETS[name]), tensors()[0].requires_grad_()
        saved = kept(layer, x)
        assert [tensor.data_ptr() for tensor in saved] == [x.data_ptr(), layer.weight.data_ptr()]


@pytest.mark.parametrize("name", ["quartet2", "nvfp4"])
def test_where_dgrad_goes_by_fprops_w_that_is_kept_instead_of_the_weight(name: str) -> None:
    layer, x = make_layer(PRESETS[name]), tensors()[0].requires_grad_()
    first, values, factor = kept(layer, x)
    assert first.data_ptr() == x.data_ptr()
    call = LayerPass(recipe=layer.recipe, layer=LAYER, streams=streams())
    w = call.quantize(FPROP, "w", layer.weight.detach().to(torch.bfloat16))
    assert w.factor is not None
    assert torch.equal(values, w.values)
    assert torch.equal(factor, w.factor)


def test_nothing_is_kept_that_no_gradient_needs() -> None:
    for name in ("bf16", "ufp4", "nvfp4"):
        layer, (x, _) = make_layer(PRESETS[name]), tensors()
        assert [tensor.data_ptr() for tensor in kept(layer, x)] == [x.data_ptr()]
        layer.weight.requires_grad_(False)
        assert all(tensor.shape != (TOKENS, IN) for tensor in kept(layer, x.requires_grad_()))
        with torch.no_grad():
            assert kept(layer, x) == []
        assert kept(layer, x.detach()) == []


@pytest.mark.parametrize("name", ["bf16", "ufp4", "fp8-tensor"])
def test_autocast_does_not_touch_it(name: str) -> None:
    layer = make_layer(PRESETS[name])
    plain = apply(layer, layer.weight, *tensors())
    with torch.autocast("cpu", dtype=torch.float16):
        assert same(apply(layer, layer.weight, *tensors()), plain)
        quick, _ = compiled(layer)
        assert same(apply(quick, layer.weight, *tensors()), plain)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_a_model_draws_by_streams_of_its_own(copied: Callable[[Any], Any]) -> None:
    state = streams()
    twice = [make_layer(TURNING, state=state) for _ in range(2)]
    first, second = copied(nn.ModuleList(twice))
    assert first.streams is second.streams is not state
    there = make_layer(TURNING, state=streams(99))
    expected = [apply(layer, layer.weight, *tensors()) for layer in (twice[1], there)]
    state.move(step=99, microbatch=1)
    assert same(apply(second, second.weight, *tensors()), expected[0])
    first.streams.move(step=99, microbatch=1)
    assert same(apply(second, second.weight, *tensors()), expected[1])
    assert not torch.equal(expected[0][0], expected[1][0])


@pytest.mark.parametrize("name", ["fp16", "nvfp4", "quartet2", "mxfp4-rht-sr"])
def test_the_operations_are_what_they_say_to_torch(name: str) -> None:
    """Their shapes without data, their schema and what they alias, by torch's own examination."""
    recipe = replace(PRESETS[name], pad=True)
    layer, (x, dy) = make_layer(recipe), tensors()
    rules, w = followed(recipe, x.device), layer.weight.detach()
    keep_x = recipe.fprop.is_quantized and recipe.wgrad.is_quantized
    draws = layer.streams.row(recipe, LAYER, x.device)
    forward = torch.ops.gridlaw.linear_forward.default
    keep = (rules.number, keep_x, rules.keeps_w)
    examined = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(forward, (x, w, draws, *keep, True), test_utils=examined)
    kept = forward(x, w, draws, *keep, True)[1:]
    rest = (None if keep_x else x, None if rules.keeps_w else w, kept, *keep, IN)
    for needs in ((True, True), (True, False), (False, True)):
        backward = torch.ops.gridlaw.linear_backward.default
        torch.library.opcheck(backward, (dy, *rest, *needs), test_utils=examined)


def compiled(model: Callable[..., Tensor], backend: str = "aot_eager") -> tuple[Any, Any]:
    """The model in one graph, and what counts the graphs."""
    counter = CompileCounterWithBackend(backend)
    return torch.compile(model, backend=counter, fullgraph=True), counter


@pytest.mark.parametrize(
    "recipe",
    [PRESETS["ufp4"], PRESETS["nvfp4"], PRESETS["quartet2"], TURNING, PRESETS["bf16"]],
    ids=lambda recipe: recipe.name,
)
def test_a_compiled_layer_has_the_bits_of_an_eager_one_in_every_step(recipe: Recipe) -> None:
    state = streams()
    layer = make_layer(replace(recipe, pad=True), state=state)
    quick, graphs = compiled(layer)
    x, dy = tensors()
    seen = []
    for step in range(4):
        state.move(step=step, microbatch=step % 2)
        expected = apply(layer, layer.weight, x, dy)
        assert same(apply(quick, layer.weight, x, dy), expected)
        seen.append(expected[2])
    assert graphs.frame_count == 1
    draws = recipe.name in ("ufp4", "nvfp4", "quartet2", "turning")
    assert torch.equal(seen[0], seen[1]) is not draws


def test_a_compiled_pass_has_the_streams_of_its_own_forward() -> None:
    """Two microbatches in flight: forward, forward, backward, backward."""
    state = streams()
    layer = make_layer(TURNING, state=state)
    quick, graphs = compiled(layer)
    x, dy = tensors()
    expected, passes = [], []
    for microbatch in (0, 1):
        state.move(step=3, microbatch=microbatch)
        expected.append(apply(layer, layer.weight, x, dy))
    for microbatch in (0, 1):
        state.move(step=3, microbatch=microbatch)
        leaf = x.detach().requires_grad_()
        passes.append((leaf, quick(leaf)))
    for (leaf, y), before in zip(reversed(passes), reversed(expected), strict=True):
        layer.zero_grad()
        torch.autograd.backward(y, dy)
        assert leaf.grad is not None
        assert layer.weight.grad is not None
        assert same([y.detach(), leaf.grad, layer.weight.grad], before)
    assert graphs.frame_count == 1


def test_layers_of_one_size_share_a_graph() -> None:
    state = streams()
    layers = [
        QuantLinear(IN, IN, recipe=TURNING, name=f"blocks.{index}.a", streams=state)
        for index in range(3)
    ]
    x = tensors()[0]
    for layer in layers:
        nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    quick, graphs = compiled(QuantLinear.forward)
    outputs = [quick(layer, x) for layer in layers]
    assert graphs.frame_count == 1
    assert all(torch.equal(y, layer(x)) for y, layer in zip(outputs, layers, strict=True))
    assert not torch.equal(outputs[0], outputs[1])


def test_bf16_forward_reaches_into_a_compiled_model() -> None:
    layer = make_layer(PRESETS["ufp4"])
    quick, _ = compiled(layer)
    x, _ = tensors()
    with torch.no_grad():
        quantized = quick(x)
        with bf16_forward(layer):
            assert torch.equal(quick(x), make_layer(PRESETS["bf16"])(x))
        assert torch.equal(quick(x), quantized)
    assert not torch.equal(quantized, make_layer(PRESETS["bf16"])(x))


def test_a_probe_sees_the_same_in_a_compiled_layer_and_the_next_one_costs_no_graph() -> None:
    layer = make_layer(PRESETS["ufp4"])
    quick, graphs = compiled(layer)
    x, dy = tensors()
    plain = apply(quick, layer.weight, x, dy)
    assert graphs.frame_count == 1
    for _ in range(2):
        seen: list[tuple[str, Tensor]] = []

        def probe(word: str, tensor: Tensor, seen: list[tuple[str, Tensor]] = seen) -> None:
            if tensor.isfinite().all():  # which torch.compile could not follow
                seen.append((word, tensor))

        layer.probe = probe
        assert same(apply(quick, layer.weight, x, dy), plain)
        assert [word for word, _ in seen] == ["x", "dy"]
        assert same([it for _, it in seen], [x, dy])
    layer.probe = None
    assert same(apply(quick, layer.weight, x, dy), plain)
    assert graphs.frame_count == 2


@pytest.mark.slow
def test_the_compiler_is_not_imported_by_those_who_do_not_compile() -> None:
    asks = (
        "import sys, kernels.linear, kernels.checkpointing; print('torch._dynamo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor compiles C++")
def test_inductor_compiles_a_layer_in_one_graph_with_the_same_bits() -> None:
    state = streams()
    layer = make_layer(TURNING, state=state)
    quick, graphs = compiled(layer, "inductor")
    x, dy = tensors()
    for step in range(3):
        state.move(step=step)
        expected = apply(layer, layer.weight, x, dy)
        assert same(apply(quick, layer.weight, x, dy), expected)
    assert graphs.frame_count == 1
