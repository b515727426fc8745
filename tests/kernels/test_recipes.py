"""Recipes: what contradicts itself is refused in a sentence, what is seldom meant is warned of."""

from collections.abc import Callable
from dataclasses import replace
from math import nan

import pytest

from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, GRIDS, INT4
from kernels.loss_scaling import LossScaling
from kernels.operands import Operand, Rounding, Scale, Source
from kernels.recipes import (
    BF16_RECIPE,
    RHT_SIZES,
    Carrier,
    Gemm,
    Precision,
    Recipe,
    Rht,
    Rule,
    Signs,
)

QUANTIZED = Operand(grid=E2M1)
SQUARE = Block(along=16, across=16)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"grid": None, "rounding": Rounding.SR}, "stochastic rounding needs a grid"),
        ({"grid": None, "rounding": Rounding.EDEN}, "needs a grid"),
        ({"random_bits": 12}, "random_bits must be 8, 16 or 24, got 12"),
        ({"random_bits": 0}, "random_bits must be 8, 16 or 24, got 0"),
        ({"headroom": 0.4}, "headroom must be from 0.5 to 16, got 0.4"),
        ({"headroom": 17.0}, "headroom must be from 0.5 to 16, got 17"),
        ({"headroom": nan}, "headroom must be from 0.5 to 16, got nan"),
        ({"scale_maximum": 0.5}, "scale_maximum must be from 1 to 448"),
        ({"scale_maximum": 449.0}, "the largest E4M3 number, got 449"),
        ({"outer": 32}, "outer = 32 must be a multiple of the block 1x16, under an e4m3 scale"),
        ({"outer": 40, "scale": Scale.E4M3}, "outer = 40 must be a multiple of the block 1x16"),
        ({"outer": 0, "scale": Scale.E4M3}, "outer = 0 must be a multiple"),
        ({"outer": 32, "scale": Scale.E4M3, "block": SQUARE}, "a multiple of the block 16x16"),
        ({"outer": 32, "scale": Scale.E4M3, "block": ROW}, "a multiple of the block row"),
        ({"alternate": 6.0}, "alternate = 6.0 must lie between 0 and the grid's maximum"),
        ({"alternate": 0.0}, "alternate = 0.0 must lie between"),
        ({"alternate": 4.0, "grid": None}, "alternate = 4.0 must lie between"),
        ({"alternate": 4.0, "block": SQUARE}, "alternate needs blocks of one row such as 1x16"),
        ({"alternate": 4.0, "block": TENSOR}, "blocks of one row such as 1x16, got tensor"),
        (
            {"alternate": 4.0, "scale": Scale.E8M0_FLOOR},
            "must be fp32, fp32-5bit or e4m3, got e8m0",
        ),
        ({"rounding": Rounding.EDEN, "block": SQUARE}, "eden needs blocks of one row"),
        ({"rounding": Rounding.EDEN, "scale": Scale.E8M0_EVEN}, "must be fp32 or e4m3, got e8m0-"),
        ({"rounding": Rounding.EDEN, "scale": Scale.FP32_5BIT}, "fp32 or e4m3, got fp32-5bit"),
        ({"rounding": Rounding.EDEN, "alternate": 4.0}, "eden and alternate cannot be combined"),
    ],
)
def test_an_operand_that_contradicts_itself_is_refused(
    change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        replace(QUANTIZED, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"headroom": 0.5},
        {"headroom": 16.0},
        {"scale_maximum": 1.0},
        {"outer": 16, "scale": Scale.E4M3},
        {"outer": 96, "scale": Scale.E4M3, "block": Block(along=32)},
        {"alternate": 4.0, "scale": Scale.FP32_5BIT, "rounding": Rounding.SR},
        {"rounding": Rounding.EDEN, "scale": Scale.E4M3, "outer": 32},
    ],
)
def test_what_stands_at_a_limit_is_accepted(change: dict[str, object]) -> None:
    assert replace(QUANTIZED, **change) != QUANTIZED  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 2, 3, 12, 256])
def test_an_rht_has_one_of_its_sizes(size: int) -> None:
    with pytest.raises(ValueError, match=f"power of two from 4 to 128, got {size}"):
        Rht(size=size)


def test_an_rht_needs_a_quantized_operand() -> None:
    with pytest.raises(ValueError, match="rht needs a quantized operand"):
        Gemm(rht=Rht())
    for one in (Gemm(left=QUANTIZED, rht=Rht()), Gemm(right=QUANTIZED, rht=Rht())):
        assert one.is_quantized


@pytest.mark.parametrize("along", [16, 32, 48, 64, 128, None])
@pytest.mark.parametrize("size", RHT_SIZES)
def test_an_rht_and_a_block_divide_one_another(along: int | None, size: int) -> None:
    operand = replace(QUANTIZED, block=Block(along=along))
    if along is None or along % size == 0 or size % along == 0:
        assert Gemm(left=operand, rht=Rht(size=size)).block == max(along or 1, size)
    else:
        with pytest.raises(ValueError, match=f"rht size {size} and the block of {along} along"):
            Gemm(left=operand, rht=Rht(size=size))


@pytest.mark.parametrize(
    ("gemm", "block"),
    [
        (Gemm(), 1),
        (Gemm(left=QUANTIZED), 16),
        (Gemm(left=QUANTIZED, right=replace(QUANTIZED, block=Block(along=48))), 48),
        (Gemm(left=replace(QUANTIZED, block=Block(along=32)),
              right=replace(QUANTIZED, block=Block(along=48))), 96),
        (Gemm(left=replace(QUANTIZED, block=ROW), right=replace(QUANTIZED, block=TENSOR)), 1),
        (Gemm(left=replace(QUANTIZED, block=ROW), rht=Rht(size=64)), 64),
        (Gemm(left=replace(QUANTIZED, block=Block(along=128, across=128))), 128),
    ],
)  # fmt: skip
def test_a_gemms_axis_is_whole_in_multiples_of_blocks_and_rht(gemm: Gemm, block: int) -> None:
    assert gemm.block == block


SAVED = replace(QUANTIZED, source=Source.FORWARD)


@pytest.mark.parametrize(
    ("recipe", "operand"),
    [
        (lambda: Recipe(name="r", fprop=Gemm(left=SAVED)), "fprop's x"),
        (lambda: Recipe(name="r", fprop=Gemm(right=SAVED)), "fprop's w"),
        (lambda: Recipe(name="r", dgrad=Gemm(left=SAVED)), "dgrad's dy"),
        (lambda: Recipe(name="r", wgrad=Gemm(left=SAVED)), "wgrad's dy"),
    ],
)
def test_only_what_fprop_has_is_quantized_from_it(
    recipe: Callable[[], Recipe], operand: str
) -> None:
    with pytest.raises(ValueError, match=f"{operand} cannot be quantized from its forward values"):
        recipe()


def test_forward_values_need_a_quantized_fprop_without_rht() -> None:
    saved = Gemm(left=QUANTIZED, right=SAVED)
    both = Gemm(left=QUANTIZED, right=QUANTIZED)
    assert Recipe(name="r", fprop=both, dgrad=saved, wgrad=saved).is_quantized
    for fprop in (Gemm(), replace(both, rht=Rht())):
        with pytest.raises(ValueError, match="fprop must quantize w and have no rht"):
            Recipe(name="r", fprop=fprop, dgrad=saved)
    with pytest.raises(ValueError, match="fprop must quantize x and have no rht"):
        Recipe(name="r", fprop=Gemm(right=QUANTIZED), wgrad=saved)


@pytest.mark.parametrize("share", [-0.1, 1.5, nan])
def test_a_share_of_exempt_blocks_is_one(share: float) -> None:
    with pytest.raises(ValueError, match=f"must be from 0 to 1, got {share}"):
        Recipe(name="r", exempt_first=share)
    with pytest.raises(ValueError, match=f"must be from 0 to 1, got {share}"):
        Recipe(name="r", exempt_last=share)


@pytest.mark.parametrize(
    ("num_blocks", "first", "last", "quantized"),
    [
        (62, 2 / 62, 8 / 62, range(2, 54)),
        (12, 2 / 62, 8 / 62, range(10)),  # 0.39 rounds to 0, 1.55 to 2
        (24, 2 / 62, 8 / 62, range(1, 21)),
        (4, 0.5, 0.5, range(0)),
        (4, 1.0, 1.0, range(0)),
        (5, 0.0, 0.0, range(5)),
    ],
)
def test_shares_of_blocks_are_exempt_at_both_ends(
    num_blocks: int, first: float, last: float, quantized: range
) -> None:
    recipe = Recipe(name="r", exempt_first=first, exempt_last=last)
    found = [
        block
        for block in range(num_blocks)
        if recipe.quantizes(f"blocks.{block}.mlp.down", num_blocks)
    ]
    assert found == list(quantized)


def test_the_first_rule_that_matches_decides_after_the_exempt_blocks() -> None:
    rules = (
        Rule(pattern="blocks.1.mlp.*", quantize=True),
        Rule(pattern="*.mlp.down", quantize=False),
        Rule(pattern="blocks.0.*", quantize=True),
    )
    recipe = Recipe(name="r", rules=rules, exempt_first=0.25)
    asked = ["blocks.0.attention.query", "blocks.1.mlp.down", "blocks.2.mlp.down",
             "blocks.2.mlp.up"]  # fmt: skip
    assert [recipe.quantizes(layer, 4) for layer in asked] == [False, True, False, True]


def test_an_exempt_layer_follows_the_carrier() -> None:
    recipe = Recipe(name="r", fprop=Gemm(left=QUANTIZED), carrier=Carrier.FP16)
    assert recipe.unquantized() == Recipe(name="fp16", carrier=Carrier.FP16)
    assert not recipe.unquantized().is_quantized
    assert replace(recipe, carrier=Carrier.BF16).unquantized() == BF16_RECIPE


@pytest.mark.parametrize("gemm", [Precision.TF32, Precision.BF16])
def test_a_precision_of_products_needs_a_quantized_gemm(gemm: Precision) -> None:
    for carrier in Carrier:
        with pytest.raises(ValueError, match=f"gemm = {gemm} is about quantized GEMMs, and none"):
            Recipe(name="r", carrier=carrier, gemm=gemm)
        assert not Recipe(name="r", carrier=carrier, gemm=Precision.FP32).is_quantized
    recipe = Recipe(name="r", wgrad=Gemm(right=QUANTIZED), gemm=gemm)
    assert recipe.unquantized() == BF16_RECIPE


@pytest.mark.parametrize(
    ("recipe", "is_bf16"),
    [
        (BF16_RECIPE, True),
        (Recipe(name="other", exempt_first=0.5), True),
        (Recipe(name="fp16", carrier=Carrier.FP16), False),
        (Recipe(name="r", wgrad=Gemm(right=QUANTIZED)), False),
    ],
)
def test_a_baseline_has_no_grid_and_the_carrier_bf16(recipe: Recipe, is_bf16: bool) -> None:
    assert recipe.is_bf16 is is_bf16


@pytest.mark.parametrize(
    ("operand", "reach"),
    [
        (Operand(grid=E2M1), 1),
        (Operand(grid=E2M1, headroom=0.5), 2),
        (Operand(grid=E2M1, scale=Scale.E8M0_FLOOR), 8 / 6),
        (Operand(grid=INT4, scale=Scale.E8M0_FLOOR), 8 / 7),
        (Operand(grid=E2M1, scale=Scale.E8M0_EVEN), 7 / 6),
        (Operand(grid=INT4, scale=Scale.E8M0_EVEN), 1),
        (Operand(grid=E4M3, scale=Scale.E8M0_EVEN), 496 / 448),
        (Operand(grid=GRIDS["e3m0"], scale=Scale.E8M0_FLOOR), 2),
        (Operand(grid=E2M1, scale=Scale.E8M0_CEIL), 1),
        (Operand(grid=E2M1, scale=Scale.E8M0_RCEIL), 1),
        (Operand(grid=E2M1, scale=Scale.E4M3), 17 / 16),
        (Operand(grid=E2M1, scale=Scale.E4M3, headroom=17 / 16), 1),
        (Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, headroom=4 / 3), 1),
    ],
)
def test_how_far_beyond_the_grid_an_element_can_lie(operand: Operand, reach: float) -> None:
    assert operand.reach == pytest.approx(reach, rel=1e-12)


def test_the_six_operands_come_with_their_gemm_and_word() -> None:
    grids = [GRIDS[name] for name in ("e2m1", "int4", "e3m0", "e2m3", "e3m2", "e4m3")]
    x, w, dy, wd, dyw, xw = (Operand(grid=grid) for grid in grids)
    recipe = Recipe(
        name="r",
        fprop=Gemm(left=x, right=w),
        dgrad=Gemm(left=dy, right=wd),
        wgrad=Gemm(left=dyw, right=xw),
    )
    assert recipe.operands() == (
        ("fprop", "x", x), ("fprop", "w", w), ("dgrad", "dy", dy),
        ("dgrad", "w", wd), ("wgrad", "dy", dyw), ("wgrad", "x", xw),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"initial": 0.0}, "initial must be from"),
        ({"growth": 1.0}, "growth must be above 1, got 1.0"),
        ({"backoff": 1.0}, "backoff must lie between 0 and 1, got 1.0"),
        ({"interval": 0}, "interval must be at least 1, got 0"),
    ],
)
def test_a_loss_scale_that_cannot_move_both_ways_is_refused(
    change: dict[str, float], sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"loss scaling: {sentence}"):
        LossScaling(**change)  # type: ignore[arg-type]


def test_signs_and_roundings_are_written_as_the_spec_writes_them() -> None:
    assert [*Signs] == ["none", "fixed", "layer", "step"]
    assert [*Rounding] == ["rtne", "sr", "eden"]
    powers = [scale for scale in Scale if scale.is_power_of_two]
    assert powers == ["e8m0-floor", "e8m0-ceil", "e8m0-even", "e8m0-rceil"]


def test_a_grid_whose_tensor_scale_is_beyond_fp32_is_refused() -> None:
    with pytest.raises(ValueError, match="grid bf16 cannot have an e4m3 scale"):
        Operand(grid=GRIDS["bf16"], scale=Scale.E4M3)
    Operand(grid=GRIDS["e5m2"], scale=Scale.E4M3)
