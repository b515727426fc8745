"""The linear layer against a dense emulation in float64, and against torch's own layer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import block_diag, hadamard
from torch import Tensor, nn

from kernels.formats import E2M1, INT4, uniform
from kernels.hadamard import random_signs
from kernels.linear import QuantLinear
from kernels.operands import CARRIED, Operand, Rounding
from kernels.philox import stream_key, uniforms
from kernels.presets import PRESETS, compose
from kernels.recipe_module import Numbers, bf16_forward
from kernels.recipes import BF16_RECIPE, GEMMS, Carrier, Gemm, Recipe, Rht
from kernels.streams import Streams

TOKENS, IN, OUT = 48, 32, 80
LAYER = "blocks.0.attention.query"
FOUR_BITS = Operand(grid=INT4)
ONE_SIDED = Recipe(
    name="one-sided",
    fprop=Gemm(left=FOUR_BITS, right=CARRIED, rht=Rht(size=16)),
    dgrad=Gemm(left=CARRIED, right=FOUR_BITS, rht=Rht(size=8)),
    wgrad=Gemm(left=Operand(grid=E2M1, rounding=Rounding.SR), right=CARRIED),
)
ALL_SR = compose(INT4, name="all-sr", rht=GEMMS, sr=["x", "w", "dy"], rht_size=8)
FINE = compose(uniform("fine", 2**14), name="fine", rht=GEMMS)
FP16 = PRESETS["fp16"]
DENSE = ("bf16", "e4m3", "e2m1-ref", "e2m1-max3", "ufp4-no-rht", "ufp4-no-sr", "ufp4")
RECIPES = {r.name: r for r in (*(PRESETS[name] for name in DENSE), ONE_SIDED, ALL_SR)}
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


def apply(layer: QuantLinear, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """y, dx and dw as [t, out], [t, in] and [out, in]."""
    x = x.detach().to(layer.carrier).requires_grad_()
    y = layer(x)
    y.backward(dy.to(y.dtype))
    assert x.grad is not None
    assert layer.weight.grad is not None
    return y.detach().flatten(0, -2), x.grad.flatten(0, -2), layer.weight.grad


def run(recipe: Recipe, *, state: Streams | None = None) -> tuple[Tensor, Tensor, Tensor]:
    return apply(make_layer(recipe, state=state), *tensors())


def torchs(x: Tensor, w: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same of torch's own layer in FP64."""
    reference = nn.Linear(w.shape[1], w.shape[0], bias=False, dtype=torch.float64)
    with torch.no_grad():
        reference.weight.copy_(w)
    rows = x.detach().flatten(0, -2).double().requires_grad_()
    y = reference(rows)
    y.backward(dy.flatten(0, -2).double())
    assert rows.grad is not None
    assert reference.weight.grad is not None
    return y.detach(), rows.grad, reference.weight.grad


def nearest_codes(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    distances = np.abs(q[..., None] - values)
    odd = np.arange(len(values)) % 2
    return np.lexsort((np.broadcast_to(odd, distances.shape), distances))[..., 0]


def dense_operand(
    rows: np.ndarray, operand: Operand, gemm: Gemm, form: str, word: str
) -> np.ndarray:
    """[r, k] as the GEMM sees it, by an explicit matrix and a search among the grid's values."""
    where: dict[str, Any] = {"layer": LAYER, "gemm": form, "step": 5, "microbatch": 1}
    if gemm.rht is not None:
        size = gemm.rht.size
        signs = random_signs(gemm.rht.signs, seed=22, size=size, **where)
        one = np.diag(signs) @ hadamard(size) / size**0.5
        rows = rows @ block_diag(*[one] * (rows.shape[1] // size))
    if operand.grid is None:
        return torch.from_numpy(rows).to(torch.bfloat16).double().numpy()
    values = np.array(operand.grid.magnitudes)
    # Ties between BF16 elements are common, and which way they fall is a matter of FP32.
    blocks = rows.reshape(-1, 16).astype(np.float32)
    scale = np.abs(blocks).max(1, keepdims=True) / np.float32(values[-1])
    q = np.minimum(np.abs(blocks) / scale, values[-1]).astype(np.float64)
    if operand.rounding is Rounding.RTNE:
        rounded = values[nearest_codes(q, values)]
    else:
        key = stream_key(seed=11, operand=word, **where)
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


@pytest.mark.parametrize(
    ("recipe", "bound"),
    [(BF16_RECIPE, 2.0**-8), (FINE, 2.0**-8), (replace(FINE, carrier=Carrier.FP16), 2.0**-11),
     (FP16, 2.0**-11)],
    ids=["bf16", "fine", "fine-fp16", "fp16"],
)  # fmt: skip
def test_with_rounding_off_it_is_torchs_linear_layer(recipe: Recipe, bound: float) -> None:
    layer = make_layer(recipe)
    x, dy = tensors()
    expected = torchs(x, layer.weight.to(layer.carrier), dy)
    for name, ours, exact in zip(GEMMS, apply(layer, x, dy), expected, strict=True):
        assert (ours.double() - exact).norm() < bound * exact.norm()
        if name == "wgrad":  # ends in no rounding
            assert (ours.double() - exact).norm() < 1e-4 * exact.norm()


@pytest.mark.parametrize("name", ["ufp4-no-rht", "hifloat4", "int8"])
def test_what_the_grid_holds_has_exactly_torchs_gradients(name: str) -> None:
    """Integers whose every block has the grid's maximum: nothing is rounded, SR included."""
    recipe = PRESETS[name]
    grid = recipe.fprop.left.grid
    assert grid is not None
    largest, generator = grid.maximum, torch.Generator().manual_seed(5)

    def integers(*shape: int) -> Tensor:
        drawn = torch.randint(-7, 8, shape, generator=generator).float()
        drawn[::16], drawn[:, ::16] = largest, largest
        return drawn

    x, w, dy = integers(128, 64), integers(192, 64), integers(128, 192)
    layer = QuantLinear(64, 192, recipe=recipe, name=LAYER, streams=streams())
    with torch.no_grad():
        layer.weight.copy_(w)
    y, dx, dw = apply(layer, x, dy)
    exact = torchs(x, w, dy)
    assert torch.equal(dw.double(), exact[2])
    assert torch.equal(y, exact[0].to(y.dtype))
    assert torch.equal(dx, exact[1].to(dx.dtype))


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
    state.move(step=99, microbatch=7)
    y.backward(dy)
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, run(PRESETS["ufp4"])[2])


def test_layers_share_the_streams_that_the_loop_moves() -> None:
    state = streams()
    layer = make_layer(ALL_SR, state=state)
    x, _ = tensors()
    first = layer(x)
    state.move(step=state.step + 1, microbatch=state.microbatch)
    assert not torch.equal(layer(x), first)


def test_an_expanded_gradient_is_accepted() -> None:
    layer = make_layer(PRESETS["ufp4"])
    x, _ = tensors()
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()


def test_a_forward_source_is_what_fprop_multiplied_though_the_streams_moved() -> None:
    state = streams()
    layer = make_layer(PRESETS["quartet2"], state=state)
    x, dy = tensors()
    y = layer(x)
    state.move(step=99, microbatch=7)
    y.backward(dy)
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad, run(PRESETS["quartet2"])[2])


@pytest.mark.parametrize("name", ["bf16", "ufp4", "fp16"])
def test_a_probe_sees_x_and_dy_as_the_gemms_take_them(name: str) -> None:
    layer = make_layer(PRESETS[name])
    seen: list[tuple[str, Tensor]] = []
    layer.probe = lambda word, tensor: seen.append((word, tensor))
    x, dy = tensors()
    apply(layer, x.float() * 1.001, dy)
    assert [word for word, _ in seen] == ["x", "dy"]
    assert torch.equal(seen[0][1], (x.float() * 1.001).to(layer.carrier).flatten(0, 1))
    assert torch.equal(seen[1][1], dy.to(layer.carrier).flatten(0, 1))
    with torch.no_grad():
        layer(x)
    assert [word for word, _ in seen] == ["x", "dy", "x"]


def test_a_probe_changes_nothing() -> None:
    layer = make_layer(PRESETS["ufp4"])
    layer.probe = lambda *_: None
    probed = apply(layer, *tensors())
    assert all(torch.equal(a, b) for a, b in zip(probed, run(PRESETS["ufp4"]), strict=True))


def test_fp16_goes_over_into_infinity_where_bf16_does_not() -> None:
    x = torch.full((16, IN), 200.0)
    for recipe, finite in ((BF16_RECIPE, True), (FP16, False)):
        layer = make_layer(recipe)
        nn.init.constant_(layer.weight, 100.0)
        assert bool(layer(x).isfinite().all()) is finite


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["bf16", "ufp4", "nvfp4", "mxfp8", "int8"])
def test_what_is_not_finite_reaches_the_product(name: str, value: float) -> None:
    layer = make_layer(replace(PRESETS[name], pad=True))
    x, _ = tensors()
    x[1, 2, 3] = value
    y = layer(x)
    assert not y[1, 2].isfinite().any()
    if name != "nvfp4":  # whose rows share the tensor scale
        assert y[0].isfinite().all()


@pytest.mark.parametrize("name", ["ufp4", "fp16"])
def test_bf16_forward_lasts_as_long_as_its_context(name: str) -> None:
    model = nn.Sequential(make_layer(PRESETS[name]))
    x, _ = tensors()
    quantized = model(x)
    with bf16_forward(model):
        assert model(x).dtype is torch.bfloat16
        assert torch.equal(model(x), make_layer(BF16_RECIPE)(x))
    assert torch.equal(model(x), quantized)


def test_bf16_forward_ends_with_an_error_too() -> None:
    layer = make_layer(PRESETS["ufp4"])
    with (
        pytest.raises(ValueError, match=f"{LAYER}.* takes {IN} features, got {IN + 1}"),
        bf16_forward(layer),
    ):
        layer(torch.zeros(16, IN + 1))
    assert layer.numbers is Numbers.RECIPE


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [((24, 32), "fprop contracts over in_features = 24"),
     ((32, 40), "dgrad contracts over out_features = 40")],
)  # fmt: skip
def test_features_that_do_not_divide_are_refused_at_once(
    sizes: tuple[int, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"{LAYER}.*{sentence}.*not a multiple of the block 1x16"):
        QuantLinear(*sizes, recipe=PRESETS["ufp4"], name=LAYER, streams=streams())


def test_tokens_that_do_not_divide_are_refused_only_when_wgrad_will_run() -> None:
    layer = make_layer(PRESETS["ufp4"])
    x = tensors()[0][:, :5]
    with pytest.raises(ValueError, match="wgrad contracts over tokens = 15"):
        layer(x)
    with torch.no_grad():
        assert layer(x).shape == (3, 5, OUT)


@pytest.mark.parametrize("tokens", [1, 5, 16, 40])
def test_a_recipe_that_pads_takes_any_sizes(tokens: int) -> None:
    recipe = compose(uniform("fine", 2**14), name="pad", rht=GEMMS, rht_size=64, pad=True)
    layer = QuantLinear(24, 40, recipe=recipe, name=LAYER, streams=streams())
    nn.init.normal_(layer.weight, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(tokens, 24, generator=generator).to(torch.bfloat16)
    dy = torch.randn(tokens, 40, generator=generator).to(torch.bfloat16)
    expected = torchs(x, layer.weight.to(torch.bfloat16), dy)
    for ours, exact in zip(apply(layer, x, dy), expected, strict=True):
        assert ours.shape == exact.shape
        assert (ours.double() - exact).norm() < 4e-3 * exact.norm()
