"""The linear layer against a dense emulation in float64, and against torch's own layer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import block_diag, hadamard
from torch import Tensor, nn

from kernels.formats import E2M1, INT4, uniform
from kernels.hadamard import random_signs
from kernels.linear import QuantLinear, Streams, bf16_forward
from kernels.matmul import bf16_matmul
from kernels.philox import stream_key, uniforms
from kernels.recipes import (
    BF16,
    BF16_RECIPE,
    GEMMS,
    PRESETS,
    Gemm,
    Operand,
    Recipe,
    Rounding,
    Rule,
    compose,
)
from kernels.reference import fake_quantize

TOKENS, IN, OUT = 48, 32, 80
LAYER = "blocks.0.attention.query"
FOUR_BITS = Operand(grid=INT4)
ONE_SIDED = Recipe(
    name="one-sided",
    fprop=Gemm(left=FOUR_BITS, right=BF16, rht=16),
    dgrad=Gemm(left=BF16, right=FOUR_BITS, rht=8),
    wgrad=Gemm(left=Operand(grid=E2M1, rounding=Rounding.SR), right=BF16),
)
ALL_SR = compose(INT4, name="all-sr", rht=GEMMS, sr=["x", "w", "dy"], rht_size=8)
FINE = compose(uniform("fine", 2**14), name="fine", rht=GEMMS)
RECIPES = {r.name: r for r in (*PRESETS.values(), ONE_SIDED, ALL_SR)}
recipes = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def streams() -> Streams:
    return Streams(sr=11, rht=22, step=5, microbatch=1)


def make_layer(recipe: Recipe, *, state: Streams | None = None) -> QuantLinear:
    layer = QuantLinear(IN, OUT, recipe=recipe, name=LAYER, streams=state or streams())
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    return layer


def tensors() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(3, TOKENS // 3, IN, generator=generator).to(torch.bfloat16)
    dy = torch.randn(3, TOKENS // 3, OUT, generator=generator).to(torch.bfloat16)
    return x, dy


def run(recipe: Recipe, *, state: Streams | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """y, dx and dw as [t, out], [t, in] and [out, in]."""
    layer = make_layer(recipe, state=state)
    x, dy = tensors()
    x.requires_grad_()
    y = layer(x)
    y.backward(dy)
    assert x.grad is not None
    assert layer.weight.grad is not None
    return y.detach().flatten(0, 1), x.grad.flatten(0, 1), layer.weight.grad


def nearest_codes(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    distances = np.abs(q[..., None] - values)
    odd = np.arange(len(values)) % 2
    return np.lexsort((np.broadcast_to(odd, distances.shape), distances))[..., 0]


def dense_operand(
    rows: np.ndarray, operand: Operand, gemm: Gemm, form: str, word: str
) -> np.ndarray:
    """[r, k] as the GEMM sees it, by an explicit matrix and a search among the grid's values."""
    if gemm.rht is not None:
        signs = random_signs(seed=22, layer=LAYER, gemm=form, size=gemm.rht)
        one = np.diag(signs) @ hadamard(gemm.rht) / gemm.rht**0.5
        rows = rows @ block_diag(*[one] * (rows.shape[1] // gemm.rht))
    if operand.grid is None:
        return torch.from_numpy(rows).to(torch.bfloat16).double().numpy()
    values = np.array(operand.grid.magnitudes)
    # Ties between BF16 elements are common, and which way they fall is a matter of FP32.
    blocks = rows.reshape(-1, operand.block).astype(np.float32)
    scale = np.abs(blocks).max(1, keepdims=True) / np.float32(values[-1])
    q = np.minimum(np.abs(blocks) / scale, values[-1]).astype(np.float64)
    if operand.rounding is Rounding.RTNE:
        rounded = values[nearest_codes(q, values)]
    else:
        key = stream_key(seed=11, step=5, microbatch=1, layer=LAYER, gemm=form, operand=word)
        u = uniforms(torch.arange(rows.size // 16), key).t().reshape(q.shape).double().numpy()
        low = np.minimum(np.searchsorted(values, q, side="right") - 1, len(values) - 2)
        fraction = (q - values[low]) / (values[low + 1] - values[low])
        rounded = np.where(fraction >= u, values[low + 1], values[low])
    values_of_blocks: np.ndarray = np.sign(blocks) * rounded * scale
    return values_of_blocks.reshape(rows.shape)


def dense(recipe: Recipe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, dy = (tensor.flatten(0, 1).double().numpy() for tensor in tensors())
    w = make_layer(recipe).weight.detach().to(torch.bfloat16).double().numpy()

    def product(form: str, words: tuple[str, str], left: np.ndarray, right: np.ndarray):
        gemm: Gemm = getattr(recipe, form)
        if not gemm.is_quantized:
            return left @ right.T
        a = dense_operand(left, gemm.left, gemm, form, words[0])
        return a @ dense_operand(right, gemm.right, gemm, form, words[1]).T

    return (
        product("fprop", ("x", "w"), x, w),
        product("dgrad", ("dy", "w"), dy, w.T),
        product("wgrad", ("dy", "x"), dy.T, x.T),
    )


@recipes
def test_the_three_products_equal_the_dense_emulation(recipe: Recipe) -> None:
    for name, ours, expected in zip(("y", "dx", "dw"), run(recipe), dense(recipe), strict=True):
        # y and dx end in one rounding to BF16, of 2**-9 at most; dw in an FP32 sum.
        tolerance = 1e-5 if name == "dw" else 2.0**-8
        reference = torch.from_numpy(expected)
        torch.testing.assert_close(ours.double(), reference, rtol=tolerance, atol=2e-5, msg=name)
        assert ours.dtype is (torch.float32 if name == "dw" else torch.bfloat16)


@pytest.mark.parametrize("recipe", [BF16_RECIPE, FINE], ids=["bf16", "fine"])
def test_without_quantization_it_is_torchs_linear_layer(recipe: Recipe) -> None:
    reference = nn.Linear(IN, OUT, bias=False, dtype=torch.float64)
    with torch.no_grad():
        reference.weight.copy_(make_layer(recipe).weight.to(torch.bfloat16))
    x, dy = (tensor.flatten(0, 1).double() for tensor in tensors())
    x.requires_grad_()
    y = reference(x)
    y.backward(dy)
    for ours, expected in zip(run(recipe), (y, x.grad, reference.weight.grad), strict=True):
        assert expected is not None
        error = (ours.double() - expected).norm() / expected.norm()
        assert error < 3e-3


@pytest.mark.parametrize("rotated", GEMMS)
def test_the_transform_cancels_in_each_product(rotated: str) -> None:
    grid = uniform("fine", 2**14)
    plain = run(compose(grid, name="plain"))
    turned = run(compose(grid, name="turned", rht=[rotated]))
    for gemm, a, b in zip(GEMMS, plain, turned, strict=True):
        assert torch.equal(a, b) is (gemm != rotated)
        assert (a - b).double().norm() < 4e-3 * a.double().norm()


@pytest.mark.parametrize("only", GEMMS)
def test_quantizing_one_gemm_changes_only_its_product(only: str) -> None:
    gemm = getattr(PRESETS["ufp4"], only)
    changed = run(replace(BF16_RECIPE, name=only, **{only: gemm}))
    for name, before, after in zip(GEMMS, run(BF16_RECIPE), changed, strict=True):
        assert torch.equal(before, after) is (name != only)


def test_a_repeated_pass_gives_the_same_bits_and_another_step_other_ones() -> None:
    recipe = PRESETS["ufp4"]
    first, again = run(recipe), run(recipe)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    later = run(recipe, state=Streams(sr=11, rht=22, step=6, microbatch=1))
    assert torch.equal(first[0], later[0])
    assert not torch.equal(first[1], later[1])
    assert not torch.equal(first[2], later[2])


def test_backward_uses_the_streams_of_its_forward() -> None:
    state = streams()
    layer = make_layer(PRESETS["ufp4"], state=state)
    x, dy = tensors()
    y = layer(x)
    state.step, state.microbatch = 99, 7
    y.backward(dy)
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, run(PRESETS["ufp4"])[2])


def test_layers_share_the_streams_that_the_loop_moves() -> None:
    state = streams()
    layer = make_layer(ALL_SR, state=state)
    x, _ = tensors()
    first = layer(x)
    state.step += 1
    assert not torch.equal(layer(x), first)


@pytest.mark.parametrize(("x_needs", "w_needs", "expected"), [(1, 1, 4), (1, 0, 2), (0, 1, 2)])
def test_no_operand_is_quantized_that_nobody_needs(
    x_needs: int, w_needs: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*args: object, **kwargs: object) -> Tensor:
        calls.append(args)
        return fake_quantize(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr("kernels.linear.fake_quantize", counted)
    layer = make_layer(PRESETS["ufp4"])
    layer.weight.requires_grad_(bool(w_needs))
    x, dy = tensors()
    y = layer(x.requires_grad_(bool(x_needs)))
    assert len(calls) == 2
    y.backward(dy)
    assert len(calls) == 2 + expected


def test_backward_keeps_only_the_bf16_input_and_the_weight() -> None:
    layer = make_layer(PRESETS["ufp4"])
    x, _ = tensors()
    kept: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    assert [tensor.data_ptr() for tensor in kept] == [x.data_ptr(), layer.weight.data_ptr()]


def test_an_expanded_gradient_is_accepted() -> None:
    layer = make_layer(PRESETS["ufp4"])
    x, _ = tensors()
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()


def test_an_exempt_layer_runs_in_bf16() -> None:
    rules = (Rule(pattern="*.query", quantize=False),)
    exempt = run(replace(PRESETS["ufp4"], rules=rules))
    assert all(torch.equal(a, b) for a, b in zip(exempt, run(BF16_RECIPE), strict=True))


def test_bf16_forward_lasts_as_long_as_its_context() -> None:
    model = nn.Sequential(make_layer(PRESETS["ufp4"]))
    x, _ = tensors()
    quantized = model(x)
    with bf16_forward(model):
        assert torch.equal(model(x), make_layer(BF16_RECIPE)(x))
    assert torch.equal(model(x), quantized)


def test_bf16_forward_ends_with_an_error_too() -> None:
    layer = make_layer(PRESETS["ufp4"])
    with pytest.raises(RuntimeError), bf16_forward(layer):
        layer(torch.zeros(16, IN + 1))
    assert layer.active is PRESETS["ufp4"]


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [((24, 32), "fprop contracts over in_features = 24"),
     ((32, 40), "dgrad contracts over out_features = 40")],
)  # fmt: skip
def test_features_that_do_not_divide_are_refused_at_once(
    sizes: tuple[int, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"{LAYER}.*{sentence}.*not a multiple of the block 16"):
        QuantLinear(*sizes, recipe=PRESETS["ufp4"], name=LAYER, streams=streams())


def test_tokens_that_do_not_divide_are_refused_only_when_wgrad_will_run() -> None:
    layer = make_layer(PRESETS["ufp4"])
    x = tensors()[0][:, :5]
    with pytest.raises(ValueError, match="wgrad contracts over tokens = 15"):
        layer(x)
    with torch.no_grad():
        assert layer(x).shape == (3, 5, OUT)


def test_two_block_sizes_must_both_divide_the_axis() -> None:
    gemm = Gemm(left=Operand(grid=INT4, block=32), right=Operand(grid=INT4, block=48))
    assert gemm.block == 96


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_bf16_products_are_exact_and_summed_in_fp32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(4)
    a, b = torch.randn(7, 33, generator=generator), torch.randn(33, 5, generator=generator)
    exact = a.to(torch.bfloat16).double() @ b.to(torch.bfloat16).double()
    out = bf16_matmul(a, b, dtype=dtype)
    assert out.dtype is dtype
    tolerance = 1e-6 if dtype is torch.float32 else 2.0**-8
    torch.testing.assert_close(out.double(), exact, rtol=tolerance, atol=1e-5)
