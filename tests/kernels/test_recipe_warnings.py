"""What is seldom meant is warned of in a sentence that says what would end it."""

from dataclasses import replace

import pytest

from kernels.formats import E2M1, E4M3, GRIDS, INT4, INT8
from kernels.operands import CARRIED, Operand, Rounding, Scale
from kernels.presets import PRESETS
from kernels.recipe_warnings import warnings_of
from kernels.recipes import Carrier, Gemm, Precision, Recipe


def test_stochastic_rounding_that_clips_is_warned_of_with_the_headroom_that_suffices() -> None:
    drawn = Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, rounding=Rounding.SR)
    recipe = Recipe(name="r", dgrad=Gemm(left=drawn, right=replace(drawn, scale=Scale.FP32)))
    (warning,) = warnings_of(recipe)
    assert warning.startswith("recipe r rounds dy (dgrad) stochastically under scale e8m0-floor")
    assert "1.3334 times the grid's maximum" in warning
    assert "headroom 1.3334 removes it" in warning
    roomy = replace(recipe, dgrad=Gemm(left=replace(drawn, headroom=1.3334)))
    assert not warnings_of(roomy)


def test_an_operand_that_clips_alike_in_two_gemms_is_warned_of_once() -> None:
    (warning,) = warnings_of(PRESETS["nvfp4"])
    assert "rounds dy (dgrad, wgrad) stochastically under scale e4m3" in warning
    assert "headroom 1.0625 removes it" in warning


def test_nearest_rounding_that_clips_and_eden_are_not_warned_of() -> None:
    floor = Operand(grid=E2M1, scale=Scale.E8M0_FLOOR)
    eden = Operand(grid=E2M1, scale=Scale.E4M3, rounding=Rounding.EDEN, headroom=0.98)
    assert not warnings_of(Recipe(name="r", fprop=Gemm(left=floor, right=floor)))
    assert not warnings_of(Recipe(name="r", dgrad=Gemm(left=eden, right=eden)))


def of(operand: Operand, gemm: Precision) -> Recipe:
    return Recipe(name="r", fprop=Gemm(left=operand, right=operand), gemm=gemm)


@pytest.mark.parametrize(
    ("operand", "gemm", "ends"),
    [
        (Operand(grid=E2M1), Precision.BF16, ["scale fp32-5bit", "gemm fp32"]),
        (Operand(grid=E2M1), Precision.TF32, ["scale fp32-5bit", "gemm fp32"]),
        (Operand(grid=E4M3), Precision.BF16, ["gemm fp32"]),
        (Operand(grid=E4M3), Precision.TF32, ["scale fp32-5bit", "gemm fp32"]),
        (Operand(grid=INT8), Precision.TF32, ["gemm fp32"]),
        (Operand(grid=E4M3, scale=Scale.FP32_5BIT), Precision.BF16, ["gemm tf32", "gemm fp32"]),
        (Operand(grid=INT8, scale=Scale.E4M3), Precision.BF16, ["gemm tf32", "gemm fp32"]),
        (Operand(grid=INT8, scale=Scale.FP32_5BIT), Precision.TF32, ["gemm fp32"]),
        (Operand(grid=E2M1, scale=Scale.E4M3, outer=128), Precision.BF16, ["gemm fp32"]),
        (Operand(grid=E2M1, rounding=Rounding.EDEN), Precision.BF16, ["gemm fp32"]),
        (Operand(grid=GRIDS["fp16"], scale=Scale.E8M0_CEIL), Precision.BF16,
         ["gemm tf32", "gemm fp32"]),
    ],
)  # fmt: skip
def test_operands_that_the_precision_rounds_are_warned_of_with_what_leaves_them(
    operand: Operand, gemm: Precision, ends: list[str]
) -> None:
    (warning,) = warnings_of(of(operand, gemm))
    assert warning == (
        f"recipe r multiplies in {gemm}, but the values of x (fprop), w (fprop) need more bits "
        f"and are rounded once more; {' or '.join(ends)} avoids it"
    )
    for end in ends:
        key, value = end.split()
        if key == "scale":
            changed = of(replace(operand, scale=Scale(value)), gemm)
        else:
            changed = of(operand, Precision(value))
        assert warnings_of(changed) == ()


@pytest.mark.parametrize("scale", [Scale.E4M3, Scale.FP32_5BIT, Scale.E8M0_EVEN])
@pytest.mark.parametrize("gemm", Precision)
def test_operands_that_the_precision_holds_are_not_warned_of(gemm: Precision, scale: Scale) -> None:
    assert warnings_of(of(Operand(grid=INT4, scale=scale), gemm)) == ()


def test_one_sentence_names_every_operand_that_is_rounded_and_no_other() -> None:
    exact = Operand(grid=E2M1, scale=Scale.E4M3)
    recipe = Recipe(
        name="r",
        fprop=Gemm(left=exact, right=Operand(grid=E2M1)),
        dgrad=Gemm(left=Operand(grid=E2M1), right=CARRIED),
        wgrad=Gemm(left=Operand(grid=E2M1), right=exact),
        gemm=Precision.BF16,
    )
    (warning,) = warnings_of(recipe)
    assert warning.startswith(
        "recipe r multiplies in bf16, but the values of w (fprop), dy (dgrad, wgrad) need"
    )


@pytest.mark.parametrize(("gemm", "count"), [(Precision.BF16, 1), (Precision.TF32, 0)])
def test_an_fp16_carrier_beside_a_grid_is_rounded_by_bf16_alone(
    gemm: Precision, count: int
) -> None:
    exact = Operand(grid=E2M1, scale=Scale.E4M3)
    recipe = Recipe(name="r", fprop=Gemm(left=exact), gemm=gemm, carrier=Carrier.FP16)
    assert len(warnings_of(recipe)) == count
    assert all(
        "in bf16, but the values of w (fprop) need" in warning for warning in warnings_of(recipe)
    )
    assert warnings_of(replace(recipe, carrier=Carrier.BF16)) == ()
