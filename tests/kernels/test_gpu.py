"""A GPU against the reference on the CPU: fake quantization bit by bit, layers to FP32 sums.

Run by `pytest -m gpu`; without a GPU everything here is skipped.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from kernels import ops, reference
from kernels.blocks import ROW, TENSOR, Block
from kernels.checkpointing import checkpointed
from kernels.draws import on_device
from kernels.formats import E2M1, E4M3, INT4, Grid
from kernels.gemm import DGRAD, FORMS, WGRAD, Form, operand_of
from kernels.hadamard import Rotation, random_signs
from kernels.linear import QuantLinear
from kernels.matmul import emulated_matmul
from kernels.operands import Operand, Rounding, Scale
from kernels.philox import uniforms
from kernels.presets import PRESETS
from kernels.recipes import Gemm, Precision, Recipe, Signs
from kernels.reference import FakeQuantized
from kernels.request import Request
from kernels.rounding import round_significand, round_stochastic_
from kernels.streams import Streams
from tests.kernels.drawn_cases import ALL_GRIDS, KINDS, assert_same, cases, rows

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),  # most of it compiles
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning"),
    # What torch itself does while it compiles.
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores for float32:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning"),
]

GPU = torch.device("cuda")
KEY = 0xFEDCBA9876543210
CASES = 4  # of each grid
MEBI = 2**20
STOCHASTIC = Operand(grid=INT4, rounding=Rounding.SR)
LAYERS = ("ufp4", "nvfp4", "mxfp4-rht-sr", "quartet2", "tetrajet2", "fp8-block", "int8", "bf16")
grids = pytest.mark.parametrize("grid", ALL_GRIDS.values(), ids=ALL_GRIDS)
layers = pytest.mark.parametrize("name", LAYERS)
axes = pytest.mark.parametrize("axis", [0, 1])


def turned(size: int, *, step: int = 0, to_bf16: bool = False) -> Rotation:
    signs = random_signs(
        Signs.STEP, seed=1, layer="", gemm="", step=step, microbatch=0, size=size
    )  # fmt: skip
    return Rotation(signs, to_bf16)


def assert_reference(ours: FakeQuantized, x: Tensor, request: Request) -> None:
    """Of a matrix on the CPU, for a request whose words are not on a GPU."""
    is_bf16 = request.precision is Precision.BF16
    assert ours.values.device.type == "cuda"
    assert ours.values.dtype is (torch.bfloat16 if is_bf16 else torch.float32)
    assert_same(on_cpu(ours), request.of(x, reference.fake_quantize))


def on_cpu(ours: FakeQuantized) -> FakeQuantized:
    factor = None if ours.factor is None else ours.factor.cpu()
    return FakeQuantized(ours.values.cpu().to(torch.float32), factor)


# ---- Fake quantization ----


@grids
def test_every_bit_is_that_of_the_reference(grid: Grid) -> None:
    for case in cases(grid, CASES):
        x = case.matrix()
        assert_reference(ops.fulfil(x.to(GPU), case.request), x, case.request)


def test_an_operand_without_a_grid_is_rotated_and_rounded_to_the_carrier() -> None:
    for case in cases(None, CASES):
        x = case.matrix()
        assert_reference(ops.fulfil(x.to(GPU), case.request), x, case.request)


def under(recipe: Recipe, precision: Precision) -> Recipe:
    return replace(recipe, gemm=precision) if recipe.is_quantized else recipe


def asked(recipe: Recipe, form: Form, word: str, key: int = KEY) -> Request:
    operand, axis = operand_of(recipe, form, word)
    gemm: Gemm = getattr(recipe, form.name)
    rht = gemm.rht
    rotation = None if rht is None else turned(rht.size, to_bf16=rht.to_bf16)
    return Request(
        operand=operand, key=key, rotation=rotation, axis=axis, precision=recipe.gemm
    )  # fmt: skip


def preset_calls() -> list[Any]:
    """Presets with a precision and a shape: tails of tiles and of runs, then of tiles alone."""
    quantized = [name for name, recipe in PRESETS.items() if recipe.is_quantized]
    calls = [
        *((name, Precision.FP32, (273, 545)) for name in PRESETS),
        *((name, Precision.BF16, (272, 528)) for name in quantized),
        *((name, Precision.TF32, (272, 528)) for name in ("ufp4", "nvfp4")),
    ]
    return [
        pytest.param(under(PRESETS[name], precision), shape, id=f"{name}-{precision}")
        for name, precision, shape in calls
    ]


@pytest.mark.parametrize(("recipe", "shape"), preset_calls())
def test_every_operand_of_every_preset_has_the_bits_of_the_reference(
    recipe: Recipe, shape: tuple[int, int]
) -> None:
    x = rows(*shape, KINDS["finite"]).to(torch.bfloat16)
    for form in FORMS.values():
        for word in (form.left, form.right):
            request = asked(recipe, form, word)
            assert_reference(ops.fulfil(x.to(GPU), request), x, request)
    pair = asked(recipe, DGRAD, "dy"), asked(recipe, WGRAD, "dy", KEY + 1)
    for ours, request in zip(ops.fulfil_both(x.to(GPU), *pair), pair, strict=True):
        assert_reference(ours, x, request)


@axes
@pytest.mark.parametrize(
    "operand",
    [
        STOCHASTIC,
        replace(STOCHASTIC, scale=Scale.E4M3, headroom=17 / 16),
        Operand(grid=E4M3, block=Block(along=128, across=128)),
        Operand(grid=E2M1, rounding=Rounding.EDEN, block=Block(along=256)),
        Operand(grid=E4M3, block=TENSOR),
        Operand(grid=E2M1, block=ROW, scale=Scale.E8M0_RCEIL),
    ],
    ids=["fp32", "e4m3", "square", "eden", "tensor", "row"],
)
def test_a_tensor_of_many_tiles_has_the_bits_of_the_cpu(operand: Operand, axis: int) -> None:
    x = torch.randn(8192 + 3, 4096 + 5, generator=torch.Generator().manual_seed(4))
    x = (x * torch.rand(len(x), 1, generator=torch.Generator().manual_seed(5))).to(torch.bfloat16)
    assert x.nbytes > 64 * MEBI
    request = Request(operand=operand, key=KEY, rotation=turned(16), axis=axis)
    ours, expected = ops.fulfil(x.to(GPU), request), ops.fulfil(x, request)
    assert_same(on_cpu(ours), expected)


@axes
def test_places_have_more_than_31_bits(axis: int) -> None:
    """The last run along the axis of a matrix of 2**31 elements and some, its maxima 7."""
    height, width = 2**15 + 16, 2**16
    if torch.cuda.mem_get_info()[0] < 7 * height * width:
        pytest.skip("not enough memory")
    x = torch.zeros(height, width, dtype=torch.bfloat16, device=GPU)
    part = torch.rand(16, width, generator=torch.Generator().manual_seed(6)) * 6
    if axis == 1:
        part[:, ::16] = 7
    else:
        part[0] = 7
    x[-16:] = part.to(GPU)
    ours = ops.fulfil(x, Request(operand=STOCHASTIC, key=KEY, axis=axis)).values
    assert not ours[:-16].any()
    if axis == 1:
        runs = torch.arange((height - 16) * width // 16, height * width // 16)
        u = uniforms(runs, KEY).t().reshape(16, width)
    else:
        u = uniforms((torch.arange(width) + 1) * (height // 16) - 1, KEY)
    size = part.to(torch.bfloat16).to(torch.float32)
    expected = round_stochastic_(size, u.contiguous(), torch.empty_like(size), INT4)
    assert torch.equal(ours[-16:].cpu(), expected)


# ---- Graphs and waiting ----


@pytest.mark.parametrize("name", ["ufp4", "nvfp4", "quartet2", "mxfp4-rht-sr", "fp8-tensor"])
def test_a_graph_that_is_replayed_draws_by_the_words_of_the_moment(name: str) -> None:
    sizes = {gemm.rht.size for gemm in gemms(PRESETS[name]) if gemm.rht is not None} or {16}
    size = sizes.pop()
    x, draws = torch.empty(256, 384, dtype=torch.bfloat16, device=GPU), words(0, size)
    forms = (DGRAD, "dy"), (WGRAD, "dy")
    pair = [replace(asked(PRESETS[name], *form), draws=draws) for form in forms]
    for request in pair:
        assert request.rotation is None or len(request.rotation.signs) == size

    def both() -> tuple[FakeQuantized, FakeQuantized]:
        return ops.fulfil_both(x, pair[0], pair[1])

    graph, results = captured(both)
    for step in (1, 2):
        rows_now = torch.randn(256, 384, generator=torch.Generator().manual_seed(step))
        rows_now = rows_now.to(torch.bfloat16)
        x.copy_(rows_now)
        draws.copy_(words(step, size))
        graph.replay()
        for ours, request in zip(results, pair, strict=True):
            there = replace(request, draws=words(step, size).cpu())
            assert_reference(ours, rows_now, there)


def gemms(recipe: Recipe) -> tuple[Gemm, ...]:
    return recipe.fprop, recipe.dgrad, recipe.wgrad


def words(step: int, size: int) -> Tensor:
    return on_device(KEY + step, turned(size, step=step), GPU)


def captured(call: Callable[[], tuple[Any, ...]]) -> tuple[torch.cuda.CUDAGraph, tuple[Any, ...]]:
    """A graph of the call and what it fills when it is replayed."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()
    return graph, results


@pytest.fixture
def no_waiting() -> Iterator[Callable[[], None]]:
    """From the call on, whatever waits for the GPU is an error."""
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@layers
@pytest.mark.parametrize("precision", Precision)
def test_a_step_of_a_layer_never_waits_for_the_gpu(
    name: str, precision: Precision, no_waiting: Callable[[], None]
) -> None:
    layer = make_layer(under(PRESETS[name], precision), GPU)
    x, dy = (tensor.to(GPU) for tensor in tensors())
    apply(layer, layer.weight, x, dy)
    torch.cuda.synchronize()
    no_waiting()
    layer.streams.move(step=6)
    apply(layer, layer.weight, x, dy)


# ---- Layers ----

TOKENS, IN, OUT = 384, 256, 512


def make_layer(recipe: Recipe, device: torch.device, *, out: int = OUT) -> QuantLinear:
    streams = Streams(sr=11, rht=22, step=5, microbatch=1)
    layer = QuantLinear(IN, out, recipe=recipe, name="blocks.0.mlp.up", streams=streams)
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    return layer.to(device)


def tensors() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(TOKENS, IN, generator=generator).to(torch.bfloat16)
    return x, torch.randn(TOKENS, OUT, generator=generator).to(torch.bfloat16)


def apply(
    layer: Callable[[Tensor], Tensor], weight: Tensor, x: Tensor, dy: Tensor
) -> tuple[Tensor, ...]:
    """y, dx and dw."""
    x = x.detach().requires_grad_()
    y = layer(x)
    return y.detach(), *torch.autograd.grad(y, (x, weight), dy)


@layers
@pytest.mark.parametrize("precision", Precision)
def test_a_layers_products_are_those_of_the_cpu_but_for_the_order_of_sums(
    name: str, precision: Precision
) -> None:
    recipe, (x, dy) = under(PRESETS[name], precision), tensors()
    here, there = make_layer(recipe, torch.device("cpu")), make_layer(recipe, GPU)
    expected = apply(here, here.weight, x, dy)
    found = apply(there, there.weight, x.to(GPU), dy.to(GPU))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype is theirs.dtype
        a, b = ours.cpu().double(), theirs.double()
        if ours.dtype is torch.float32:
            assert (a - b).norm() < 1e-5 * b.norm()
        else:
            # Where a sum lies between two BF16 numbers it may come out as either.
            assert ((a - b).abs() <= 2.0**-7 * b.abs() + 1e-5 * b.abs().max()).all()
            assert (a != b).double().mean() < 0.01


@layers
def test_a_compiled_layer_has_the_bits_of_an_eager_one(name: str) -> None:
    torch.compiler.reset()
    layer, (x, dy) = make_layer(PRESETS[name], GPU), tensors()
    x, dy = x.to(GPU), dy.to(GPU)
    compiled = torch.compile(layer, fullgraph=True)
    for step in (5, 6):
        layer.streams.move(step=step)
        expected = apply(layer, layer.weight, x, dy)
        with torch.compiler.set_stance("default" if step == 5 else "fail_on_recompile"):
            found = apply(compiled, layer.weight, x, dy)
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["ufp4", "quartet2"])
def test_a_checkpointed_layer_has_the_same_gradients(name: str) -> None:
    layer, (x, dy) = make_layer(PRESETS[name], GPU), tensors()
    x, dy = x.to(GPU), dy.to(GPU)
    expected = apply(layer, layer.weight, x, dy)
    again = apply(lambda x: checkpointed(layer, layer.streams, x), layer.weight, x, dy)
    for ours, theirs in zip(again, expected, strict=True):
        assert torch.equal(ours, theirs)


def test_a_graph_of_a_training_step_follows_the_streams() -> None:
    """Captured once at one step; at another it gives what an eager layer gives there."""
    layer, (x, dy) = make_layer(PRESETS["ufp4"], GPU), tensors()
    x, dy = x.to(GPU).requires_grad_(), dy.to(GPU)

    def step() -> tuple[Tensor, ...]:
        y = layer(x)
        return y.detach(), *torch.autograd.grad(y, (x, layer.weight), dy)

    graph, results = captured(step)
    seen = []
    for place in (6, 7):
        layer.streams.move(step=place)
        graph.replay()
        seen.append([result.clone() for result in results])
        for ours, theirs in zip(seen[-1], step(), strict=True):
            assert torch.equal(ours, theirs)
    assert not torch.equal(seen[0][1], seen[1][1])


@pytest.mark.parametrize("precision", Precision)
def test_products_are_exact_and_summed_in_fp32(precision: Precision) -> None:
    generator = torch.Generator().manual_seed(4)
    a, b = torch.randn(256, 512, generator=generator), torch.randn(512, 128, generator=generator)
    bits = precision.dropped_bits
    left, right = round_significand(a, bits), round_significand(b, bits)
    found = emulated_matmul(left.to(GPU), right.to(GPU), precision).cpu()
    bound = 2e-6 * (a.double().abs() @ b.double().abs())
    assert found.dtype is torch.float32
    assert ((found.double() - left.double() @ right.double()).abs() < bound).all()
    if bits:
        # What rounded the operands once more, or not at all, would be seen.
        assert ((found.double() - a.double() @ b.double()).abs() > bound).any()
