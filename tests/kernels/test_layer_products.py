"""As few quantizations as a recipe allows, with the bits of the plain path, `LayerPass`."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels import layer_products, ops
from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, INT4
from kernels.gemm import DGRAD, FPROP, WGRAD, LayerPass
from kernels.hadamard import Rotation
from kernels.kept_operands import keeps_quantized_w, shares_w
from kernels.layer_products import Products, has_factor, keeps_quantized_x
from kernels.matmul import CARRIERS
from kernels.operands import CARRIED, Operand, Rounding, Scale, Source
from kernels.presets import PRESETS, compose
from kernels.recipes import Gemm, Precision, Recipe, Rht
from kernels.reference import FakeQuantized, fake_quantize
from kernels.request import Request
from kernels.streams import Streams

LAYER = "blocks.0.mlp.up"
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
SQUARE = Operand(grid=E2M1, block=Block(along=16, across=16), scale=Scale.E4M3)
SAVED = Recipe(
    name="saved",
    fprop=Gemm(left=Operand(grid=INT4, rounding=Rounding.SR), right=SQUARE),
    dgrad=Gemm(left=Operand(grid=INT4), right=replace(SQUARE, source=Source.FORWARD)),
    wgrad=Gemm(left=CARRIED, right=Operand(grid=E4M3, source=Source.FORWARD), rht=Rht(size=32)),
    pad=True,
)
UNUSED = Recipe(
    name="unused",
    fprop=Gemm(right=SQUARE),
    dgrad=Gemm(right=replace(CARRIED, source=Source.FORWARD)),
)
ONLY_WGRAD = Recipe(name="only wgrad", wgrad=PRESETS["ufp4"].wgrad)
RECIPES = {**PRESETS, **{recipe.name: recipe for recipe in (SAVED, UNUSED, ONLY_WGRAD)}}
recipes = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def streams() -> Streams:
    return Streams(sr=11, rht=22, step=5, microbatch=1)


def products(recipe: Recipe) -> Products:
    return Products(recipe, streams().row(recipe, LAYER, CPU))


def tensors(recipe: Recipe, t: int = 256, n: int = 128, m: int = 384) -> tuple[Tensor, ...]:
    """x [t, in] and dy [t, out], of the carrier, and w [out, in]."""
    generator = torch.Generator().manual_seed(3)
    x, dy, w = (torch.randn(shape, generator=generator) for shape in ((t, n), (t, m), (m, n)))
    carrier = CARRIERS[recipe.carrier]
    return x.to(carrier), dy.to(carrier), w


def by_plain_path(recipe: Recipe, x: Tensor, dy: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    call = LayerPass(recipe=recipe, layer=LAYER, streams=streams())
    carried = w.to(call.carrier)
    return (
        call.multiply(FPROP, x, carried).to(call.carrier),
        call.multiply(DGRAD, dy, carried).to(call.carrier),
        call.multiply(WGRAD, dy, x),
    )


def same(ours: Any, expected: Any) -> bool:
    return all(
        a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(ours, expected, strict=True)
    )


@recipes
@pytest.mark.parametrize("keep_x", [False, True])
def test_every_recipe_has_the_bits_of_the_plain_path(recipe: Recipe, keep_x: bool) -> None:
    keep_x &= recipe.fprop.is_quantized and recipe.wgrad.is_quantized
    x, dy, w = tensors(recipe)
    keep_w = keeps_quantized_w(recipe)
    y, kept_x, kept_w = products(recipe).forward(x, w, keep_x=keep_x, keep_w=keep_w)
    dx, dw = products(recipe).backward(dy, kept_x if keep_x else x, kept_w if keep_w else w)
    assert (kept_x is not None, kept_w is not None) == (keep_x, keep_w)
    assert same((y, dx, dw), by_plain_path(recipe, x, dy, w))


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("name", ["ufp4", "nvfp4", "quartet2", "mxfp4-rht-sr"])
def test_the_precision_of_products_holds_in_all_three(name: str, precision: Precision) -> None:
    recipe = replace(PRESETS[name], gemm=precision)
    x, dy, w = tensors(recipe)
    y, _, kept = products(recipe).forward(x, w, keep_x=False, keep_w=keeps_quantized_w(recipe))
    ours = (y, *products(recipe).backward(dy, x, kept or w))
    assert same(ours, by_plain_path(recipe, x, dy, w))
    exact = by_plain_path(replace(recipe, gemm=Precision.FP32), x, dy, w)
    # Under E4M3 and powers of two BF16 holds every operand of these grids.
    rounds = precision is not Precision.FP32 and recipe.wgrad.left.scale is Scale.FP32
    assert same(ours[2:], exact[2:]) is not rounds


def test_tails_are_padded_as_in_the_plain_path() -> None:
    recipe = replace(PRESETS["nvfp4"], pad=True)
    x, dy, w = tensors(recipe, 41, 24, 56)
    y, kept_x, kept_w = products(recipe).forward(x, w, keep_x=True, keep_w=True)
    ours = (y, *products(recipe).backward(dy, kept_x, kept_w))
    assert same(ours, by_plain_path(recipe, x, dy, w))


class Asked:
    """Counts what is really quantized, by GEMM axis and operand, and the loads that it took."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rules: list[Operand] = []
        self.loads = 0

        def fulfil(x: Tensor, request: Request) -> FakeQuantized:
            self.loads += 1
            self.rules.append(request.operand)
            return ops.fulfil(x, request)

        def fulfil_both(x: Tensor, *requests: Request) -> tuple[FakeQuantized, FakeQuantized]:
            self.loads += 1
            self.rules.extend(request.operand for request in requests)
            return ops.fulfil_both(x, *requests)

        monkeypatch.setattr(layer_products, "fulfil", fulfil)
        monkeypatch.setattr(layer_products, "fulfil_both", fulfil_both)

    def taken(self) -> tuple[int, int]:
        """Quantizations and loads since this was asked last."""
        counted = len(self.rules), self.loads
        self.rules.clear()
        self.loads = 0
        return counted


@pytest.mark.parametrize(
    ("name", "backward", "loads"),
    [
        ("bf16", 0, 0),
        ("ufp4", 4, 3),  # dy twice at once, w, x
        ("nvfp4", 3, 2),  # fprop's w serves
        ("fp8-block", 3, 2),
        ("fp8-tensor", 3, 2),
        ("quartet2", 5, 4),  # dy twice at once, w from fprop's, x again and from that
    ],
)
def test_each_operand_is_quantized_once_for_each_gemm_that_sees_another_one(
    name: str, backward: int, loads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, recipe = Asked(monkeypatch), PRESETS[name]
    x, dy, w = tensors(recipe)
    keep_w = keeps_quantized_w(recipe)
    _, _, kept = products(recipe).forward(x, w, keep_x=False, keep_w=keep_w)
    assert asked.taken() == ((2, 2) if recipe.is_quantized else (0, 0))
    products(recipe).backward(dy, x, kept or w)
    assert asked.taken() == (backward, loads)


@pytest.mark.parametrize(
    ("name", "forward", "backward"), [("ufp4", (3, 2), (3, 2)), ("quartet2", (3, 3), (3, 2))]
)
def test_an_x_that_is_kept_quantized_is_loaded_once_and_never_again(
    name: str, forward: tuple[int, int], backward: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, recipe = Asked(monkeypatch), PRESETS[name]
    x, dy, w = tensors(recipe)
    keep_w = keeps_quantized_w(recipe)
    _, kept_x, kept_w = products(recipe).forward(x, w, keep_x=True, keep_w=keep_w)
    assert asked.taken() == forward
    products(recipe).backward(dy, kept_x, kept_w or w)
    assert asked.taken() == backward


@pytest.mark.parametrize(("needs_x", "needs_w", "expected"), [(1, 1, 4), (1, 0, 2), (0, 1, 2)])
def test_no_operand_is_quantized_that_nobody_needs(
    needs_x: int, needs_w: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, recipe = Asked(monkeypatch), PRESETS["ufp4"]
    x, dy, w = tensors(recipe)
    dx, dw = products(recipe).backward(dy, x if needs_w else None, w if needs_x else None)
    assert (dx is not None, dw is not None) == (bool(needs_x), bool(needs_w))
    assert len(asked.rules) == expected


def test_a_gemm_without_a_grid_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    x, dy, w = tensors(ONLY_WGRAD)
    products(ONLY_WGRAD).forward(x, w, keep_x=False, keep_w=False)
    products(ONLY_WGRAD).backward(dy, x, w)
    assert Counter(asked.rules) == Counter([ONLY_WGRAD.wgrad.left, ONLY_WGRAD.wgrad.right])


SHARED = {name: recipe for name, recipe in PRESETS.items() if shares_w(recipe)}


def test_the_presets_that_quantize_w_once_are_those_of_square_blocks() -> None:
    assert sorted(SHARED) == ["fp8-block", "fp8-tensor", "int8", "nvfp4"]


@pytest.mark.parametrize("shape", [(384, 256), (130, 70), (16, 48), (1, 5)])
@pytest.mark.parametrize("name", SHARED)
def test_what_is_shared_is_the_same_along_either_axis(name: str, shape: tuple[int, int]) -> None:
    operand = PRESETS[name].dgrad.right
    w = torch.randn(shape, generator=torch.Generator().manual_seed(1)).exp().to(torch.bfloat16)
    along, across = (fake_quantize(w, operand, 7, axis=axis) for axis in (1, 0))
    assert torch.equal(along.values, across.values)
    assert along.dequantized().isfinite().all()
    assert torch.equal(along.dequantized(), across.dequantized())


UNSHARED = {
    "another rule": {"dgrad": Gemm(right=replace(SQUARE, scale_maximum=256.0))},
    "a transform in fprop": {"fprop": Gemm(right=SQUARE, rht=Rht())},
    "a transform in dgrad": {"dgrad": Gemm(right=SQUARE, rht=Rht())},
    "draws": {gemm: Gemm(right=replace(SQUARE, rounding=Rounding.SR)) for gemm in
              ("fprop", "dgrad")},
    "an oblong block": {gemm: Gemm(right=replace(SQUARE, block=Block(along=32, across=16)))
                        for gemm in ("fprop", "dgrad")},
    "rows": {gemm: Gemm(right=Operand(grid=E2M1, block=ROW)) for gemm in ("fprop", "dgrad")},
    "no grid": {gemm: Gemm(left=SQUARE) for gemm in ("fprop", "dgrad")},
}  # fmt: skip


@pytest.mark.parametrize("change", UNSHARED.values(), ids=UNSHARED.keys())
def test_w_is_quantized_for_each_gemm_where_they_could_differ(change: dict[str, Any]) -> None:
    both = Recipe(name="both", fprop=Gemm(right=SQUARE), dgrad=Gemm(right=SQUARE))
    assert shares_w(both)
    assert not keeps_quantized_w(replace(both, **change))


def test_the_quantized_x_is_kept_where_it_takes_no_more_memory_than_x() -> None:
    narrow = replace(PRESETS["ufp4"], gemm=Precision.BF16)
    assert keeps_quantized_x(narrow, CUDA)
    assert not keeps_quantized_x(narrow, CPU)
    assert not keeps_quantized_x(replace(narrow, gemm=Precision.TF32), CUDA)
    assert not keeps_quantized_x(replace(narrow, fprop=Gemm()), CUDA)
    assert not keeps_quantized_x(replace(narrow, wgrad=Gemm()), CUDA)


FACTORS = (
    *(operand for recipe in PRESETS.values() for _, _, operand in recipe.operands()),
    Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, block=TENSOR),
    Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, headroom=4 / 3),
)


@pytest.mark.parametrize("operand", dict.fromkeys(FACTORS), ids=repr)
def test_an_operand_has_a_factor_where_it_is_said_to(operand: Operand) -> None:
    x, signs = tensors(PRESETS["bf16"])[0], (1.0,) * 16
    for rotation in (None, Rotation(signs)):
        quantized = ops.fulfil(x, Request(operand=operand, key=1, rotation=rotation))
        assert (quantized.factor is not None) is has_factor(operand)


def test_compose_shares_nothing_that_is_rounded_by_chance() -> None:
    nearest = compose(E4M3, name="n", block=TENSOR)
    assert shares_w(nearest)
    assert not shares_w(compose(E4M3, name="s", block=TENSOR, sr=["w"]))


@pytest.mark.parametrize("name", ["ufp4", "quartet2", "nvfp4"])
def test_a_device_that_reads_the_words_by_itself_finds_those_of_each_operand(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = PRESETS[name]
    x, dy, w = tensors(recipe)
    blind = products(recipe)
    monkeypatch.setattr(blind, "_words", None)  # as on a GPU, where the host does not know them
    y, kept_x, kept_w = blind.forward(x, w, keep_x=True, keep_w=keeps_quantized_w(recipe))
    ours = (y, *blind.backward(dy, kept_x, kept_w or w))
    assert same(ours, by_plain_path(recipe, x, dy, w))
