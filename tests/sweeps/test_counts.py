"""Parameter and FLOP counts against hand-computed models and independent sums."""

from math import prod

import pytest

from kernels.formats import E2M1, INT4
from kernels.operands import Operand
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE, Gemm, Recipe, Rht, Rule
from sweeps.counts import (
    count_parameters,
    flops_per_token,
    linear_layers,
    non_embedding_parameters,
    quantizable_share,
    quantized_elements_per_token,
    six_n_flops_per_token,
)
from sweeps.shapes import Mlp, ModelShape

SMALL = ModelShape(name="a", num_layers=2, width=48, num_heads=3, mlp_width=128)
SQUARED = ModelShape(name="b", num_layers=3, width=64, num_heads=4, mlp_width=256, mlp=Mlp.RELU2)
LARGE = ModelShape(name="c", num_layers=12, width=768, num_heads=12, mlp_width=2048)


def tensors(shape: ModelShape) -> list[tuple[int, ...]]:
    """Every tensor of the model beside embedding and head, written out one by one."""
    d, m, h = shape.width, shape.mlp_width, shape.width // shape.num_heads
    mlp = [(m, d), (m, d), (d, m)] if shape.mlp is Mlp.SWIGLU else [(m, d), (d, m)]
    block = [(d,), (d, d), (d, d), (d, d), (h,), (h,), (d, d), (d,), *mlp]
    return block * shape.num_layers + [(d,)]


@pytest.mark.parametrize(
    ("shape", "N"),
    # 2 (4 48^2 + 3 48 128 + 2 48 + 2 16) + 48, and so on
    [(SMALL, 55_600), (SQUARED, 148_000), (LARGE, 84_955_392)],
)
def test_n_is_the_hand_computed_number_and_the_sum_over_all_tensors(shape, N):
    assert non_embedding_parameters(shape) == N == sum(prod(t) for t in tensors(shape))


def test_the_buckets_add_up_to_all_parameters():
    parameters = count_parameters(SMALL, vocab_size=257)
    assert (parameters.embedding, parameters.head) == (257 * 48, 257 * 48)
    assert (parameters.attention, parameters.mlp, parameters.norms) == (18_432, 36_864, 304)
    assert parameters.total == 55_600 + 2 * 257 * 48


def test_flops_are_three_forward_passes_counted_multiplication_by_multiplication():
    T, V, d, m, h = 128, 257, 48, 128, 16
    forward = 0
    for _ in range(2):
        forward += 4 * 2 * T * d * d  # query, key, value, output
        forward += 3 * (2 * T * T * h + 2 * T * T * h)  # scores and values of three heads
        forward += 3 * 2 * T * d * m  # gate, up, down
    forward += 2 * T * d * V
    assert flops_per_token(SMALL, vocab_size=V, context=T) * T == 3 * forward


def test_the_exact_count_approaches_six_n_only_for_wide_models():
    ratios = [
        flops_per_token(shape, vocab_size=50_257, context=1024) / six_n_flops_per_token(shape)
        for shape in (SMALL, LARGE)
    ]
    assert ratios[0] > 10
    assert 1.5 < ratios[1] < 2


def test_quantizable_share_is_the_blocks_gemms_over_everything():
    shape, V, T = SMALL, 257, 128
    gemms = 6 * (18_432 + 36_864)
    share = quantizable_share(shape, vocab_size=V, context=T)
    assert share == gemms / flops_per_token(shape, vocab_size=V, context=T)


def test_linear_layers_are_named_and_hold_all_matrix_parameters():
    for shape in (SMALL, SQUARED, LARGE):
        layers = linear_layers(shape)
        counted = count_parameters(shape, 0)
        assert sum(layer.weights for layer in layers) == counted.attention + counted.mlp
        assert len({layer.name for layer in layers}) == len(layers)
    assert [layer.name for layer in linear_layers(SQUARED)][:6] == [
        *("blocks.0.attention.query", "blocks.0.attention.key", "blocks.0.attention.value"),
        *("blocks.0.attention.output", "blocks.0.mlp.up", "blocks.0.mlp.down"),
    ]


def test_quantized_elements_count_operands_once_and_transformed_ones_twice():
    batch = 1024
    weights = 2 * (4 * 48 * 48 + 3 * 48 * 128) / batch
    inside = 2 * (4 * 48 + 2 * 48 + 128)
    outside = 2 * (4 * 48 + 2 * 128 + 48)

    def elements(recipe: Recipe) -> float:
        return quantized_elements_per_token(SMALL, recipe, batch_tokens=batch)

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
