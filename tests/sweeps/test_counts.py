"""Parameter and FLOP counts against hand-computed models, published ones and independent sums."""

from dataclasses import replace
from math import prod

import pytest

from sweeps.counts import (
    active_non_embedding_parameters,
    active_parameters,
    count_parameters,
    flops_per_token,
    linear_layers,
    non_embedding_parameters,
    six_n_flops_per_token,
)
from sweeps.shapes import Experts, Mlp, ModelShape

SMALL = ModelShape(name="a", num_layers=2, width=48, num_heads=3, mlp_width=128)
SQUARED = ModelShape(name="b", num_layers=3, width=64, num_heads=4, mlp_width=256, mlp=Mlp.RELU2)
LARGE = ModelShape(name="c", num_layers=12, width=768, num_heads=12, mlp_width=2048)
GROUPED = ModelShape(
    name="d", num_layers=2, width=64, num_heads=4, num_kv_heads=2, head_size=32, mlp_width=96
)
MIXED = replace(
    GROUPED,
    num_layers=3,
    experts=Experts(count=8, active=2, width=32, shared_width=48, dense_layers=1),
)
UNSHARED = replace(
    MIXED, mlp=Mlp.RELU2, experts=Experts(count=4, active=1, width=32, shared_width=0)
)
SHAPES = (SMALL, SQUARED, LARGE, GROUPED, MIXED, UNSHARED)

LLAMA_3_8B = ModelShape(
    name="Llama-3-8B", num_layers=32, width=4096, num_heads=32, num_kv_heads=8, mlp_width=14336
)
QWEN3_8B = ModelShape(
    name="Qwen3-8B", num_layers=36, width=4096, num_heads=32, num_kv_heads=8, mlp_width=12288
)
QWEN3_30B_A3B = ModelShape(
    name="Qwen3-30B-A3B",
    num_layers=48,
    width=2048,
    num_heads=32,
    num_kv_heads=4,
    head_size=128,
    mlp_width=6144,
    experts=Experts(count=128, active=8, width=768, shared_width=0),
)


def tensors(shape: ModelShape) -> list[tuple[int, ...]]:
    """Every tensor of the model beside embedding and head, written out one by one."""
    d, h = shape.width, shape.head_width
    queries, keys = shape.num_heads * h, (shape.num_kv_heads or shape.num_heads) * h
    found: list[tuple[int, ...]] = [(d,)]
    for block in range(shape.num_layers):
        found += [(d,), (queries, d), (keys, d), (keys, d), (h,), (h,), (d, queries), (d,)]
        experts = shape.experts
        if experts is None or block < experts.dense_layers:
            inner = [shape.mlp_width]
        else:
            found.append((experts.count, d))
            inner = [experts.shared_width] + [experts.width] * experts.count
        for m in inner:
            gates = [(m, d)] if shape.mlp is Mlp.SWIGLU else []
            found += [*gates, (m, d), (d, m)]
    return found


@pytest.mark.parametrize(
    ("shape", "N", "active"),
    [
        # 2 (4 48^2 + 3 48 128 + 2 48 + 2 16) + 48, and so on
        (SMALL, 55_600, 55_600),
        (SQUARED, 148_000, 148_000),
        (LARGE, 84_955_392, 84_955_392),
        # 2 (2 (4 + 2) 32 64 + 3 64 96 + 2 64 + 2 32) + 64
        (GROUPED, 86_464, 86_464),
        # 3 (24576 + 192) + 64, a block of 18432, two of 8 64 + 3 64 (48 + 8 32), of which 2 32
        (MIXED, 210_560, 136_832),
        # 3 (24576 + 192 + 4 64 + 2 64 4 32) + 64, of which 32 once
        (UNSHARED, 124_288, 87_424),
    ],
)
def test_n_is_the_hand_computed_number_and_the_sum_over_all_tensors(shape, N, active):
    assert non_embedding_parameters(shape) == N == sum(prod(t) for t in tensors(shape))
    assert active_non_embedding_parameters(shape) == active


def test_published_models_have_their_published_number_of_parameters():
    # Llama has no gains on queries and keys, which are 2 x 128 in each block here.
    assert count_parameters(LLAMA_3_8B, 128_256).total == 8_030_261_248 + 32 * 256
    assert count_parameters(QWEN3_8B, 151_936).total == 8_190_735_360
    assert count_parameters(QWEN3_30B_A3B, 151_936).total == 30_532_122_624
    assert active_parameters(QWEN3_30B_A3B, 151_936).total == 3_353_032_704


def test_the_buckets_add_up_to_all_parameters():
    parameters = count_parameters(SMALL, vocab_size=257)
    assert (parameters.embedding, parameters.head) == (257 * 48, 257 * 48)
    assert (parameters.attention, parameters.mlp, parameters.norms) == (18_432, 36_864, 304)
    assert parameters.router == 0
    assert parameters.total == 55_600 + 2 * 257 * 48


def test_only_experts_tell_active_from_all_parameters():
    every, active = count_parameters(MIXED, 257), active_parameters(MIXED, 257)
    assert (every.attention, every.router, every.norms) == (73_728, 1_024, 640)
    assert every.mlp == 18_432 + 2 * 3 * 64 * (48 + 8 * 32)
    assert replace(active, mlp=every.mlp) == every
    assert every.mlp - active.mlp == 2 * 3 * 64 * 6 * 32
    assert active_parameters(GROUPED, 257) == count_parameters(GROUPED, 257)


def test_flops_are_three_forward_passes_counted_multiplication_by_multiplication():
    T, V, d, h = 128, 257, 64, 32
    forward = 0
    for block in range(3):
        forward += 2 * 2 * T * d * (4 * h)  # query, output
        forward += 2 * 2 * T * d * (2 * h)  # key, value
        forward += 4 * (2 * T * T * h + 2 * T * T * h)  # scores and values of four query heads
        if block == 0:
            forward += 3 * 2 * T * d * 96
        else:
            forward += 2 * T * d * 8  # router
            forward += 3 * 2 * T * d * 48  # shared expert
            forward += 2 * 3 * 2 * T * d * 32  # two routed ones
    forward += 2 * T * d * V
    assert flops_per_token(MIXED, vocab_size=V, context=T) * T == 3 * forward


def test_the_exact_count_approaches_six_n_only_for_wide_models():
    ratios = [
        flops_per_token(shape, vocab_size=50_257, context=1024) / six_n_flops_per_token(shape)
        for shape in (SMALL, LARGE)
    ]
    assert ratios[0] > 10
    assert 1.5 < ratios[1] < 2


def test_six_n_counts_the_experts_that_a_token_passes():
    assert six_n_flops_per_token(MIXED) == 6 * 136_832


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_linear_layers_are_named_once_and_hold_all_matrix_parameters(shape):
    layers = linear_layers(shape)
    counted, active = count_parameters(shape, 0), active_parameters(shape, 0)
    assert sum(layer.weights for layer in layers) == counted.attention + counted.mlp
    assert sum(layer.active_weights for layer in layers) == active.attention + active.mlp
    assert len({layer.name for layer in layers}) == len(layers)


def test_linear_layers_stand_in_the_order_of_the_forward_pass():
    assert [layer.name for layer in linear_layers(SQUARED)][:6] == [
        *("blocks.0.attention.query", "blocks.0.attention.key", "blocks.0.attention.value"),
        *("blocks.0.attention.output", "blocks.0.mlp.up", "blocks.0.mlp.down"),
    ]


def test_experts_are_stacks_beside_their_shared_expert_after_the_dense_blocks():
    layers = {layer.name: layer for layer in linear_layers(MIXED)}
    assert {name.removeprefix("blocks.0.") for name in layers if name.startswith("blocks.0.m")} == {
        *("mlp.gate", "mlp.up", "mlp.down")
    }
    assert [name for name in layers if name.startswith("blocks.2.mlp")] == [
        *("blocks.2.mlp.shared.gate", "blocks.2.mlp.shared.up", "blocks.2.mlp.shared.down"),
        *("blocks.2.mlp.experts.gate", "blocks.2.mlp.experts.up", "blocks.2.mlp.experts.down"),
    ]
    down = layers["blocks.1.mlp.experts.down"]
    assert (down.in_features, down.out_features, down.stack, down.active) == (32, 64, 8, 2)
    assert not any("router" in name for name in layers)
    assert not any("shared" in layer.name for layer in linear_layers(UNSHARED))
