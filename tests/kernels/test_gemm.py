"""One GEMM from raw operands: which rule, axis, key and transform each operand gets."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from kernels.blocks import ROW, Block
from kernels.formats import E2M1, INT4, uniform
from kernels.gemm import DGRAD, FORMS, FPROP, WGRAD, Form, LayerPass, refusal
from kernels.hadamard import Rotation, random_signs
from kernels.matmul import CARRIERS, carried_matmul
from kernels.operands import CARRIED, Operand, Rounding, Scale, Source
from kernels.philox import stream_key
from kernels.presets import PRESETS, compose
from kernels.recipes import GEMMS, RHT_SIZES, Carrier, Gemm, Recipe, Rht, Signs
from kernels.reference import fake_quantize
from kernels.streams import Streams

LAYER = "blocks.1.mlp.down"
TOKENS, IN, OUT = 64, 128, 192
FINE = uniform("fine", 2**14)
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
presets = pytest.mark.parametrize("recipe", PRESETS.values(), ids=PRESETS)


def layer_pass(recipe: Recipe, **streams: int) -> LayerPass:
    here = Streams(**{"sr": 11, "rht": 22, "step": 5, "microbatch": 1, **streams})
    return LayerPass(recipe=recipe, layer=LAYER, streams=here)


def raw(carrier: Carrier = Carrier.BF16, sizes=(TOKENS, IN, OUT)) -> dict[str, Tensor]:
    """x [t, in], w [out, in] and dy [t, out]."""
    generator = torch.Generator().manual_seed(3)
    t, n, m = sizes
    shapes = {"x": (t, n), "w": (m, n), "dy": (t, m)}
    return {
        word: torch.randn(shape, generator=generator).to(CARRIERS[carrier])
        for word, shape in shapes.items()
    }


def of_one(form: Form, gemm: Gemm) -> Recipe:
    """A recipe that quantizes this GEMM alone."""
    gemms: dict[str, Any] = {form.name: gemm}
    return Recipe(name="one", **gemms)


def rows(form: Form, word: str, tensors: dict[str, Tensor]) -> Tensor:
    """An operand with its contraction axis last, as the formula of the GEMM has it."""
    x, w, dy = tensors["x"], tensors["w"], tensors["dy"]
    return {
        ("fprop", "x"): x,
        ("fprop", "w"): w,
        ("dgrad", "dy"): dy,
        ("dgrad", "w"): w.t(),
        ("wgrad", "dy"): dy.t(),
        ("wgrad", "x"): x.t(),
    }[form.name, word].contiguous()


def by_contract(recipe: Recipe, form: Form, tensors: dict[str, Tensor]) -> Tensor:
    """Steps 2 to 5 of docs/numerics.md, written out in FP64 around the quantizer."""
    gemm: Gemm = getattr(recipe, form.name)
    here: dict[str, Any] = {"layer": LAYER, "step": 5, "microbatch": 1}
    rotation = None
    if gemm.rht is not None:
        size = gemm.rht.size
        signs = random_signs(gemm.rht.signs, seed=22, gemm=form.name, size=size, **here)
        rotation = Rotation(signs, gemm.rht.to_bf16)
    product: list[Tensor] = []
    scale = 1.0
    for word, operand in ((form.left, gemm.left), (form.right, gemm.right)):
        source = rows(form, word, tensors)
        if operand.source is Source.FORWARD:
            rule = recipe.fprop.left if word == "x" else recipe.fprop.right
            key = stream_key(seed=11, gemm="fprop", operand=word, **here)
            forward = fake_quantize(tensors[word], rule, key).dequantized()
            source = rows(form, word, {**tensors, word: forward})
        key = stream_key(seed=11, gemm=form.name, operand=word, **here)
        values, factor = fake_quantize(
            source, operand, key, rotation=rotation, carrier=CARRIERS[recipe.carrier]
        )
        product.append(values.double())
        scale *= 1.0 if factor is None else factor.item()
    return product[0] @ product[1].t() * scale


@forms
@presets
def test_every_preset_multiplies_what_the_contract_says(recipe: Recipe, form: Form) -> None:
    tensors = raw(recipe.carrier)
    ours = layer_pass(recipe).multiply(form, tensors[form.left], tensors[form.right])
    expected = by_contract(recipe, form, tensors)
    assert ours.dtype is torch.float32
    torch.testing.assert_close(ours.double(), expected, rtol=1e-5, atol=1e-4)


@forms
@pytest.mark.parametrize("kind", Signs)
@pytest.mark.parametrize("size", RHT_SIZES)
def test_the_transform_cancels_in_a_product_of_unequal_sizes(
    form: Form, kind: Signs, size: int
) -> None:
    tensors = raw(sizes=(384, 128, 256))
    gemm = Gemm(left=Operand(grid=FINE), right=Operand(grid=FINE), rht=Rht(size=size, signs=kind))
    recipe = of_one(form, gemm)
    ours = layer_pass(recipe).multiply(form, tensors[form.left], tensors[form.right])
    left, right = (rows(form, word, tensors).double() for word in (form.left, form.right))
    exact = left @ right.t()
    assert (ours.double() - exact).norm() < 1e-4 * exact.norm()


@forms
def test_padding_adds_nothing_to_the_product(form: Form) -> None:
    tensors = raw(sizes=(24, 40, 56))
    recipe = compose(FINE, name="padded", rht=GEMMS, rht_size=128, pad=True)
    here = layer_pass(recipe)
    ours = here.multiply(form, tensors[form.left], tensors[form.right])
    left, right = (rows(form, word, tensors).double() for word in (form.left, form.right))
    exact = left @ right.t()
    assert (ours.double() - exact).norm() < 1e-4 * exact.norm()
    axis = form.left_axis
    assert here.quantize(form, form.left, tensors[form.left]).values.shape[axis] == 128


@forms
@pytest.mark.parametrize(("carrier", "bound"), [(Carrier.BF16, 2.0**-8), (Carrier.FP16, 2.0**-11)])
def test_an_operand_without_a_grid_is_padded_as_the_other_is_and_ends_in_the_carrier(
    form: Form, carrier: Carrier, bound: float
) -> None:
    tensors = raw(carrier, sizes=(24, 40, 56))
    gemm = Gemm(left=CARRIED, right=Operand(grid=FINE), rht=Rht(size=32))
    recipe = replace(of_one(form, gemm), pad=True, carrier=carrier)
    ours = layer_pass(recipe).multiply(form, tensors[form.left], tensors[form.right])
    left, right = (rows(form, word, tensors).double() for word in (form.left, form.right))
    exact = left @ right.t()
    assert bound / 8 * exact.norm() < (ours.double() - exact).norm() < bound * exact.norm()


def test_the_left_factor_comes_before_the_right_one() -> None:
    recipe, tensors = PRESETS["nvfp4"], raw()
    here = layer_pass(recipe)
    x, w = (here.quantize(FPROP, word, tensors[word]) for word in ("x", "w"))
    assert x.factor is not None
    assert w.factor is not None
    product = x.values @ w.values.t()
    ours = here.multiply(FPROP, tensors["x"], tensors["w"])
    assert torch.equal(ours, product * x.factor * w.factor)
    assert not torch.equal(ours, product * w.factor * x.factor)


def test_a_forward_source_repeats_the_draws_of_fprop() -> None:
    stochastic = Operand(grid=INT4, rounding=Rounding.SR)
    saved = Operand(grid=FINE, source=Source.FORWARD)
    recipe = Recipe(
        name="saved",
        fprop=Gemm(left=stochastic, right=stochastic),
        dgrad=Gemm(left=Operand(grid=FINE), right=saved),
        wgrad=Gemm(left=Operand(grid=FINE), right=saved),
    )
    here, tensors = layer_pass(recipe), raw()
    for form, word in ((DGRAD, "w"), (WGRAD, "x")):
        forward = here.quantize(FPROP, word, tensors[word]).dequantized()
        again = here.seen(form, word, tensors[word])
        torch.testing.assert_close(again, forward, rtol=0, atol=2e-4)
        assert (again - tensors[word]).abs().max() > 0.05


@pytest.mark.parametrize(("form", "word"), [(FPROP, "w"), (DGRAD, "w"), (WGRAD, "x")])
@pytest.mark.parametrize("size", [4, 16, 128])
def test_what_is_seen_of_a_finely_quantized_operand_is_the_operand(
    form: Form, word: str, size: int
) -> None:
    tensors = raw(sizes=(40, 56, 72))
    recipe = compose(FINE, name="fine", rht=GEMMS, rht_size=size, pad=True)
    seen = layer_pass(recipe).seen(form, word, tensors[word])
    torch.testing.assert_close(seen, tensors[word].float(), rtol=0, atol=5e-4)


@pytest.mark.parametrize(("form", "axis"), [(FPROP, 1), (DGRAD, 0)])
@pytest.mark.parametrize("name", ["ufp4-no-rht", "nvfp4", "e4m3"])
def test_what_is_seen_without_a_transform_is_what_is_multiplied(
    name: str, form: Form, axis: int
) -> None:
    w, operand = raw()["w"], getattr(PRESETS[name], form.name).right
    expected = fake_quantize(w, operand, 0, axis=axis).dequantized()
    assert torch.equal(layer_pass(PRESETS[name]).seen(form, "w", w), expected)


def test_what_is_seen_without_a_grid_is_what_the_carrier_holds() -> None:
    w = torch.randn(OUT, IN, generator=torch.Generator().manual_seed(0))
    for carrier in Carrier:
        seen = layer_pass(Recipe(name="plain", carrier=carrier)).seen(FPROP, "w", w)
        assert torch.equal(seen, w.to(CARRIERS[carrier]).float())


def test_multiplying_what_is_seen_gives_the_product() -> None:
    recipe, tensors = PRESETS["quartet2"], raw(sizes=(128, 128, 256))
    here = layer_pass(recipe)
    for form in FORMS.values():
        seen = {word: here.seen(form, word, tensors[word]) for word in (form.left, form.right)}
        left, right = (rows(form, word, {**tensors, **seen}) for word in (form.left, form.right))
        ours = here.multiply(form, tensors[form.left], tensors[form.right])
        torch.testing.assert_close(ours, left @ right.t(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "moves"), [(Signs.LAYER, False), (Signs.FIXED, False), (Signs.STEP, True)]
)
@pytest.mark.parametrize("stream", ["step", "microbatch"])
def test_signs_move_with_the_step_only_where_the_recipe_says_so(
    kind: Signs, moves: bool, stream: str
) -> None:
    recipe = replace(compose(INT4, name="rht", rht=["fprop"], signs=kind), pad=True)
    first, later = layer_pass(recipe), layer_pass(recipe, **{stream: 9})
    assert (first.rotation(FPROP) != later.rotation(FPROP)) is moves
    tensors = raw()
    products = [here.multiply(FPROP, tensors["x"], tensors["w"]) for here in (first, later)]
    assert torch.equal(*products) is not moves


def test_the_stream_of_stochastic_rounding_moves_with_step_and_microbatch() -> None:
    recipe, tensors = PRESETS["ufp4"], raw()
    products = [
        layer_pass(recipe, **where).multiply(WGRAD, tensors["dy"], tensors["x"])
        for where in ({}, {"step": 6}, {"microbatch": 2}, {"sr": 12})
    ]
    assert all(not torch.equal(products[0], other) for other in products[1:])
    again = layer_pass(recipe).multiply(WGRAD, tensors["dy"], tensors["x"])
    assert torch.equal(again, products[0])


BLOCK_32 = compose(INT4, name="32", scale=Scale.E8M0_CEIL, block=Block(along=32))
ODD = Recipe(
    name="odd",
    fprop=Gemm(
        left=Operand(grid=INT4, block=Block(along=16)),
        right=Operand(grid=INT4, block=Block(along=48)),
    ),
)
REFUSED = {
    "no multiple": (FPROP, BLOCK_32, 48, "in_features = 48, which is not a multiple of the block "
                    "1x32 of x"),
    "too short": (DGRAD, BLOCK_32, 16, "out_features = 16, which is shorter than the block 1x32 of "
                  "dy"),
    "the other operand": (FPROP, ODD, 64, "in_features = 64, which is not a multiple of the block "
                          "1x48 of w"),
    "the transform": (WGRAD, compose(INT4, name="r", rht=["wgrad"], rht_size=64), 32,
                      "tokens = 32, which is shorter than the RHT size 64"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "recipe", "size", "sentence"), REFUSED.values(), ids=REFUSED.keys()
)
def test_an_axis_that_does_not_divide_is_refused_with_what_it_lacks(
    form: Form, recipe: Recipe, size: int, sentence: str
) -> None:
    reason = refusal(form, recipe, size)
    assert reason is not None
    assert f"{form.name} contracts over {sentence}; " in reason
    assert refusal(form, replace(recipe, pad=True), size) is None


@presets
def test_an_axis_of_whole_blocks_is_never_refused(recipe: Recipe) -> None:
    assert all(refusal(form, recipe, 384) is None for form in FORMS.values())


def test_rows_and_tensors_as_blocks_fit_every_axis() -> None:
    assert refusal(FPROP, PRESETS["int8"], 7) is None
    assert refusal(FPROP, compose(E2M1, name="rows", block=ROW), 7) is None


@pytest.mark.parametrize("carrier", Carrier)
def test_products_of_a_carrier_are_exact_and_summed_in_fp32(carrier: Carrier) -> None:
    generator = torch.Generator().manual_seed(4)
    a, b = torch.randn(7, 333, generator=generator), torch.randn(333, 5, generator=generator)
    kind = CARRIERS[carrier]
    exact = a.to(kind).double() @ b.to(kind).double()
    out = carried_matmul(a, b, kind)
    assert out.dtype is torch.float32
    torch.testing.assert_close(out.double(), exact, rtol=1e-6, atol=2e-5)
    assert not torch.allclose(out.double(), a.double() @ b.double(), rtol=0, atol=1e-4)


def test_zero_columns_may_be_appended_to_both_operands_by_hand() -> None:
    tensors = raw(sizes=(24, 40, 56))
    recipe = compose(INT4, name="p", rht=["fprop"], rht_size=64, pad=True)
    filled = {word: functional.pad(tensors[word], (0, 24)) for word in ("x", "w")}
    here = layer_pass(recipe)
    torch.testing.assert_close(
        here.multiply(FPROP, tensors["x"], tensors["w"]),
        here.multiply(FPROP, filled["x"], filled["w"]),
    )
