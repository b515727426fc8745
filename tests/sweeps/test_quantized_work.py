"""What a recipe quantizes of a model, and the bound on what it gains, against sums by hand."""

import pytest

from kernels.blocks import ROW
from kernels.formats import E2M1, E4M3, GRIDS, INT4, INT8, Grid
from kernels.operands import Operand
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE, Gemm, Recipe, Rht, Rule
from sweeps.counts import flops_per_token
from sweeps.quantized_work import quantized_elements_per_token, speedup
from sweeps.shapes import Experts, ModelShape

SMALL = ModelShape(name="a", num_layers=2, width=48, num_heads=3, mlp_width=128)
MIXED = ModelShape(
    name="m",
    num_layers=2,
    width=64,
    num_heads=4,
    num_kv_heads=2,
    mlp_width=96,
    experts=Experts(count=8, active=2, width=32, shared_width=48, dense_layers=1),
)
V, T = 257, 128
MATRICES = 2 * (4 * 48 * 48 + 3 * 48 * 128)


def both(grid: Grid) -> Gemm:
    return Gemm(left=Operand(grid=grid, block=ROW), right=Operand(grid=grid, block=ROW))


def test_a_recipe_on_every_gemm_quantizes_the_matrices_of_the_blocks():
    total = flops_per_token(SMALL, vocab_size=V, context=T)
    gain = speedup(SMALL, PRESETS["ufp4"], vocab_size=V, context=T)
    assert gain.share == pytest.approx(6 * MATRICES / total)
    assert gain.factors == {"fprop": 4, "dgrad": 4, "wgrad": 4}
    assert gain.bound == pytest.approx(1 / (1 - gain.share + gain.share / 4))


def test_of_experts_those_count_that_a_token_passes_and_a_router_never():
    total = flops_per_token(MIXED, vocab_size=V, context=T)
    attention = 2 * 64 * (64 + 32)
    passed = 2 * attention + 3 * 64 * 96 + 3 * 64 * (48 + 2 * 32)
    gain = speedup(MIXED, PRESETS["ufp4"], vocab_size=V, context=T)
    assert gain.share == pytest.approx(6 * passed / total)


def test_layers_that_are_exempt_do_not_count():
    total = flops_per_token(SMALL, vocab_size=V, context=T)
    rules = (Rule(pattern="*.mlp.*", quantize=False),)
    recipe = Recipe(name="x", fprop=both(E2M1), dgrad=both(E2M1), wgrad=both(E2M1), rules=rules)
    gain = speedup(SMALL, recipe, vocab_size=V, context=T)
    assert gain.share == pytest.approx(6 * 2 * 4 * 48 * 48 / total)
    assert speedup(SMALL, BF16_RECIPE, vocab_size=V, context=T).bound == 1


def test_each_gemm_gains_by_the_wider_of_its_operands():
    mixed = Gemm(left=Operand(grid=E4M3), right=Operand(grid=INT4))
    recipe = Recipe(name="x", fprop=both(INT4), dgrad=mixed)
    gain = speedup(SMALL, recipe, vocab_size=V, context=T)
    assert gain.factors == {"fprop": 4, "dgrad": 2}
    third = 2 * MATRICES / flops_per_token(SMALL, vocab_size=V, context=T)
    assert gain.share == pytest.approx(2 * third)
    assert gain.bound == pytest.approx(1 / (1 - 2 * third + third / 4 + third / 2))


def test_a_gemm_with_one_operand_in_16_bits_gains_nothing():
    weights_alone = Recipe(name="w", fprop=Gemm(right=Operand(grid=INT4)))
    gain = speedup(SMALL, weights_alone, vocab_size=V, context=T)
    assert (gain.share, gain.factors, gain.bound) == (0, {}, 1)
    assert speedup(SMALL, PRESETS["int8"], vocab_size=V, context=T).factors.keys() == {
        *("fprop", "dgrad")
    }


@pytest.mark.parametrize(
    ("grid", "factor"),
    [
        *((E2M1, 4), (INT4, 4), (GRIDS["e2m1-max3"], 4), (E4M3, 2), (INT8, 2)),
        *((GRIDS["e3m2"], 2), (GRIDS["bf16"], 1)),
        (Grid("nine", tuple(map(float, range(9)))), 2),  # 17 codes need 8 bits
    ],
)
def test_codes_are_stored_in_the_least_width_of_a_tensor_core(grid, factor):
    gain = speedup(SMALL, Recipe(name="x", fprop=both(grid)), vocab_size=V, context=T)
    assert gain.factors == {"fprop": factor}


def test_quantized_elements_count_operands_once_and_transformed_ones_twice():
    batch = 1024
    weights = MATRICES / batch
    inside = 2 * (4 * 48 + 2 * 48 + 128)
    outside = 2 * (4 * 48 + 2 * 128 + 48)

    def elements(recipe: Recipe) -> float:
        return quantized_elements_per_token(SMALL, recipe, tokens=batch)

    assert elements(BF16_RECIPE) == 0
    everything = 2 * (inside + outside + weights)
    assert elements(PRESETS["ufp4"]) == pytest.approx(2 * everything)
    assert elements(PRESETS["e2m1-ref"]) == pytest.approx(everything + inside + outside)
    weights_alone = Recipe(name="w", fprop=Gemm(right=Operand(grid=INT4)))
    assert elements(weights_alone) == pytest.approx(weights)
    exempt = Recipe(
        name="x",
        fprop=Gemm(left=Operand(grid=E2M1)),
        rules=(Rule(pattern="blocks.0.*", quantize=False),),
    )
    assert elements(exempt) == pytest.approx(inside / 2)
    rotated = Recipe(name="r", fprop=Gemm(left=Operand(grid=E2M1), rht=Rht()))
    assert elements(rotated) == pytest.approx(2 * inside + weights)
    halved = Recipe(name="h", fprop=Gemm(left=Operand(grid=E2M1)), exempt_last=0.5)
    assert elements(halved) == pytest.approx(inside / 2)
    assert elements(PRESETS["fp16"]) == 0


def test_a_token_is_rounded_for_each_expert_and_every_expert_has_its_weights_rounded():
    rules = (Rule(pattern="*.experts.down", quantize=True), Rule(pattern="*", quantize=False))
    x = Recipe(name="x", fprop=Gemm(left=Operand(grid=E2M1)), rules=rules)
    assert quantized_elements_per_token(MIXED, x, tokens=1024) == 2 * 32
    w = Recipe(name="w", fprop=Gemm(right=Operand(grid=E2M1)), rules=rules)
    assert quantized_elements_per_token(MIXED, w, tokens=1024) == 8 * 32 * 64 / 1024
