"""Diagnostics against closed forms and against the same sums written out."""

from dataclasses import replace
from math import exp, log, log10, sqrt

import pytest
import torch
from torch import Tensor

from kernels.blocks import TENSOR, Block
from kernels.codes import encoded
from kernels.formats import E2M1, GRIDS, INT4
from kernels.gemm import DGRAD, FPROP, WGRAD, LayerPass
from kernels.hadamard import Rotation, rotate
from kernels.measures import layer_quality, operand_quality, product_quality, quality
from kernels.operands import Operand, Rounding, Scale
from kernels.presets import PRESETS, compose
from kernels.recipes import GEMMS, Precision, Recipe, Rht, Signs
from kernels.reference import fake_quantize
from kernels.streams import Streams

SIGNED_E2M1 = [-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0, 0.5, 1, 1.5, 2, 3, 4, 6]
ROTATION = Rotation((1.0, -1.0) * 8)
OPERANDS = {
    f"{name}-{gemm}-{word}": operand
    for name, recipe in PRESETS.items()
    for gemm, word, operand in recipe.operands()
    if operand.grid is not None
}


def gaussian(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def layer(recipe: Recipe) -> LayerPass:
    return LayerPass(recipe=recipe, layer="blocks.0.mlp.up", streams=Streams(sr=1, rht=2))


def test_what_lies_on_the_grid_loses_nothing_and_fills_its_buckets() -> None:
    found = quality(torch.tensor([SIGNED_E2M1]) * 3, Operand(grid=E2M1))
    assert (found.sqnr, found.gain) == (None, 1.0)
    assert found.buckets == (*[1 / 16] * 7, 2 / 16, *[1 / 16] * 7)
    entropy = 14 / 16 * log(16) + 2 / 16 * log(8)
    assert found.utilisation == pytest.approx(exp(entropy) / 15)
    assert (found.underflow, found.saturation) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("block", "crest"),
    [([5.0] * 16, 1.0), ([0.0] * 15 + [-3.0], 4.0), ([1.0] * 12 + [2.0] * 4, 2 / sqrt(28 / 16))],
)
def test_crest_factor_is_the_largest_over_the_root_mean_square(
    block: list[float], crest: float
) -> None:
    x = torch.tensor([block, [0.0] * 16])
    assert quality(x, Operand(grid=INT4)).crest_factor == pytest.approx(crest)


@pytest.mark.parametrize("size", [2.0**-149, 1e-44, 1.0, 3e38])
def test_crest_factor_is_one_of_equal_magnitudes_however_small_or_large(size: float) -> None:
    assert quality(torch.full((2, 32), size), Operand(grid=INT4)).crest_factor == 1


def test_crest_factor_of_a_block_that_ends_with_the_axis_counts_its_own_elements() -> None:
    assert quality(torch.ones(3, 40), Operand(grid=INT4)).crest_factor == pytest.approx(1.0)
    assert quality(torch.ones(3, 40), Operand(grid=INT4, block=Block(along=16, across=16))) == (
        quality(torch.ones(3, 40), Operand(grid=INT4, block=TENSOR))
    )


def test_saturation_and_gain_of_a_power_of_two_scale_that_clips() -> None:
    found = quality(torch.full((2, 16), 7.5), Operand(grid=E2M1, scale=Scale.E8M0_FLOOR))
    assert found.saturation == 1.0
    assert found.gain == pytest.approx(6 / 7.5)
    assert found.sqnr == pytest.approx(20 * log10(7.5 / 1.5))


def test_underflow_counts_elements_that_were_not_zero() -> None:
    x = torch.tensor([[7.0, 0.4, -0.4, 0.6] + [0.0] * 12])
    found = quality(x, Operand(grid=INT4))
    assert found.underflow == 2 / 4
    assert found.buckets[7] == 14 / 16


def test_absmax_scales_saturate_nothing_although_their_own_rounding_may_lift_the_largest() -> None:
    x = gaussian(512, 256)
    scaled = torch.cat([panel.scaled for panel in encoded(x, Operand(grid=INT4))])
    assert float(scaled.abs().max()) > 7.0
    assert quality(x, Operand(grid=INT4)).saturation == 0.0


def test_a_tensor_of_zeros_has_no_ratios() -> None:
    found = quality(torch.zeros(4, 32), Operand(grid=E2M1))
    assert (found.sqnr, found.gain, found.crest_factor) == (None, None, None)
    assert (found.underflow, found.saturation, found.buckets[7]) == (0.0, 0.0, 1.0)
    assert found.utilisation == pytest.approx(1 / 15)


def test_blocks_that_are_not_finite_do_not_count() -> None:
    x, broken = gaussian(8, 64), gaussian(8, 64)
    broken[3, 20], broken[5, 63] = torch.inf, torch.nan
    keep = torch.ones(8, 4, dtype=torch.bool)
    keep[3, 1] = keep[5, 3] = False
    rest = x.view(8, 4, 16)[keep]
    assert quality(broken, Operand(grid=E2M1)) == quality(rest, Operand(grid=E2M1))


def test_an_operand_without_a_grid_has_no_quality() -> None:
    with pytest.raises(ValueError, match="without a grid"):
        quality(gaussian(4, 16), Operand())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rounding", Rounding)
def test_quality_is_the_sums_written_out(axis: int, rounding: Rounding) -> None:
    x, operand = gaussian(48, 96) ** 3, Operand(grid=E2M1, rounding=rounding)
    found = quality(x, operand, rotation=ROTATION, axis=axis, key=5)
    lines = x if axis == 1 else x.t()
    y = rotate(lines.contiguous(), ROTATION).double()
    yq = fake_quantize(lines, operand, 5, rotation=ROTATION).dequantized().double()
    assert found.sqnr == pytest.approx(
        float(10 * torch.log10(y.square().sum() / (yq - y).square().sum()))
    )
    assert found.gain == pytest.approx(float((yq * y).sum() / y.square().sum()))


@pytest.mark.parametrize("operand", OPERANDS.values(), ids=OPERANDS)
def test_the_precision_of_the_product_is_lost_by_the_values_and_not_by_the_codes(
    operand: Operand,
) -> None:
    x = gaussian(32, 256, seed=3)
    (exact,) = encoded(x, operand, key=11)
    (found,) = encoded(x, operand, key=11, precision=Precision.BF16)
    expected = fake_quantize(x, operand, 11, precision=Precision.BF16).dequantized()
    assert torch.equal(found.values, expected)
    assert torch.equal(found.codes, exact.codes)


def test_an_operand_is_measured_in_the_precision_that_its_gemm_multiplies() -> None:
    x = gaussian(64, 96)
    fine = compose(GRIDS["fp16"], name="fine")
    exact, rounded = (
        operand_quality(layer(replace(fine, gemm=gemm)), FPROP, "x", x).used.sqnr or 0
        for gemm in (Precision.FP32, Precision.BF16)
    )
    assert exact > 70
    assert 50 < rounded < 58  # 8 bits


@pytest.mark.parametrize("operand", OPERANDS.values(), ids=OPERANDS)
def test_codes_give_the_values_back_up_to_one_scale_for_each_block(operand: Operand) -> None:
    assert operand.grid is not None
    x = gaussian(32, 256, seed=3) * torch.logspace(-3, 3, 32).view(-1, 1)
    magnitudes = torch.tensor(operand.grid.magnitudes, dtype=torch.float64)
    (panel,) = encoded(x, operand, key=11)
    decoded = magnitudes[panel.codes.abs().long()] * panel.codes.sign()
    along, across = operand.block.along or 256, operand.block.across or 32

    def blocks(matrix: Tensor) -> Tensor:
        cut = matrix.double().reshape(32 // min(across, 32), min(across, 32), -1, along)
        return cut.transpose(1, 2).flatten(2)

    values, decoded = blocks(panel.values), blocks(decoded)
    if operand.grid.maximum > 400:  # so wide a grid spans the whole block's values in one scale
        assert torch.equal(values == 0, decoded == 0)
    size = decoded.square().sum(-1, keepdim=True)
    scale = (values * decoded).sum(-1, keepdim=True) / size.clamp_min(1e-300)
    torch.testing.assert_close(scale * decoded, values, rtol=1e-6, atol=0)


def test_a_gemm_loses_what_its_product_lost_and_its_gain_is_near_the_product_of_gains() -> None:
    call = layer(compose(E2M1, name="plain"))
    x, w = gaussian(256, 1024), gaussian(192, 1024, seed=1)
    x, w = x.bfloat16().float(), w.bfloat16().float()
    found = product_quality(call, FPROP, x, w)
    z = (x @ w.t()).double()
    quantized = [fake_quantize(one, Operand(grid=E2M1), 0).values.double() for one in (x, w)]
    zq = quantized[0] @ quantized[1].t()
    assert found.gemm == "fprop"
    assert found.sqnr == pytest.approx(
        float(10 * torch.log10(z.square().sum() / (zq - z).square().sum())), abs=1e-4
    )
    gains = [quality(one, Operand(grid=E2M1)).gain or 0.0 for one in (x, w)]
    assert found.gain == pytest.approx(gains[0] * gains[1], abs=0.003)


def test_every_gemm_contracts_its_own_axes() -> None:
    call = layer(compose(INT4, name="rotated", rht=GEMMS))
    x, w, dy = gaussian(64, 96), gaussian(32, 96, seed=1), gaussian(64, 32, seed=2)
    for form, left, right in ((FPROP, x, w), (DGRAD, dy, w), (WGRAD, dy, x)):
        found = product_quality(call, form, left, right)
        assert found.sqnr is not None
        assert 16 < found.sqnr < 21


def test_an_operand_is_seen_with_and_without_the_transform_whichever_its_gemm_uses() -> None:
    tensor = gaussian(64, 96)
    tensor[:, 5] *= 30
    used = [
        operand_quality(layer(recipe), FPROP, "x", tensor)
        for recipe in (compose(INT4, name="a"), compose(INT4, name="b", rht=["fprop"]))
    ]
    assert [one.rotates for one in used] == [False, True]
    assert (used[0].plain, used[0].rotated) == (used[1].plain, used[1].rotated)
    assert used[0].used == used[0].plain != used[0].rotated == used[1].used
    assert (used[0].rotated.sqnr or 0) > (used[0].plain.sqnr or 0) + 1
    other = operand_quality(
        layer(compose(INT4, name="a")), FPROP, "x", tensor, rht=Rht(size=32, signs=Signs.NONE)
    )
    assert other.plain == used[0].plain
    assert other.rotated != used[0].rotated


def test_an_operand_of_forward_values_is_measured_against_them() -> None:
    call = layer(PRESETS["quartet2"])
    w = gaussian(128, 128).bfloat16().float()
    forward = call.quantize(FPROP, "w", w).dequantized()
    found = operand_quality(call, DGRAD, "w", w)
    key = call.streams.key(layer=call.layer, gemm="dgrad", operand="w")
    assert found.plain == quality(forward, call.recipe.dgrad.right, axis=0, key=key)


def test_a_layer_shows_the_operands_with_grids_and_the_gemms_that_its_tensors_allow() -> None:
    tensors = {"x": gaussian(64, 32), "w": gaussian(48, 32, seed=1)}
    both = layer_quality(layer(PRESETS["ufp4"]), tensors)
    assert [(one.gemm, one.operand) for one in both.operands] == [("fprop", "x"), ("fprop", "w")]
    assert [one.gemm for one in both.products] == ["fprop"]
    tensors["dy"] = gaussian(64, 48, seed=2)
    assert len(layer_quality(layer(PRESETS["ufp4"]), tensors).operands) == 6
    int8 = layer_quality(layer(PRESETS["int8"]), tensors)
    assert [one.gemm for one in int8.products] == ["fprop", "dgrad"]
    assert not layer_quality(layer(PRESETS["bf16"]), tensors).operands


def test_measuring_leaves_the_tensors_alone() -> None:
    tensors = {"x": gaussian(64, 32), "w": gaussian(48, 32, seed=1), "dy": gaussian(64, 48)}
    before = {word: tensor.clone() for word, tensor in tensors.items()}
    layer_quality(layer(PRESETS["nvfp4"]), tensors)
    assert all(torch.equal(tensors[word], before[word]) for word in tensors)
