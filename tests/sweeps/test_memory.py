"""The memory estimate: its parts by hand, what ranks share, and on how many GPUs a run fits."""

from dataclasses import replace

import pytest

from kernels.presets import PRESETS as RECIPES
from sweeps.counts import count_parameters, linear_layers
from sweeps.families.ladder import PRESETS
from sweeps.memory import estimate, least_gpus
from sweeps.runspec import Resources, RunSpec, Sharding
from sweeps.shapes import ModelShape
from sweeps.sources import TokenizerRef
from sweeps.training import OptimizerKind
from tests.sweeps.made_runs import made_spec

SHAPE = ModelShape(
    name="m", num_layers=3, width=64, num_heads=4, num_kv_heads=2, head_size=32, mlp_width=96
)
V, T, TOKENS = 512, 128, 1024
P = count_parameters(SHAPE, V).total
ALONE = Resources()


def spec_of(
    shape: ModelShape = SHAPE,
    *,
    recipe: str = "bf16",
    parts: int = 1,
    optimizer: OptimizerKind = OptimizerKind.ADAMW,
    resources: Resources = ALONE,
) -> RunSpec:
    made = made_spec()
    training = replace(
        made.training,
        context=T,
        batch_tokens=TOKENS * parts,
        microbatch_tokens=TOKENS,
        optimizer=optimizer,
    )
    return replace(
        made,
        model=shape,
        recipe=RECIPES[recipe],
        training=training,
        tokenizer=TokenizerRef(vocab_size=V),
        resources=resources,
    )


def test_the_parts_are_those_that_the_formula_says():
    found = estimate(spec_of())
    turns = 2 * T * 32 * 3
    assert found.weights == 4 * (P + turns)
    assert found.gradients == 4 * P
    assert found.optimizer == 8 * P
    attention = 2 * (2 * 64 + 3 * 128 + 3 * 64) + 4 * (4 + 4 + 2 + 1)
    mlp = 2 * (2 * 64 + 3 * 96) + 4
    assert found.activations == TOKENS * (3 * (attention + mlp) + 4 * 64 + 4)
    assert found.logits == 16 * TOKENS * V
    assert found.workspace == 4 * (TOKENS * (64 + 128) + 64 * 128)
    assert found.gathered == 0
    assert found.update == 4 * P


def test_the_total_is_what_stays_and_the_larger_of_a_pass_and_an_update():
    found = estimate(spec_of(resources=Resources(gpus=2), parts=2))
    stays = found.weights + found.gradients + found.optimizer
    passes = found.activations + found.logits + found.workspace + found.gathered
    assert found.total_bytes == stays + passes
    assert replace(found, update=10 * passes).total_bytes == stays + 10 * passes


def test_checkpointing_keeps_the_inputs_of_blocks_and_one_block_whole():
    every, lean = estimate(spec_of()), estimate(spec_of(), checkpoints=True)
    last = TOKENS * (4 * 64 + 4)
    block = (every.activations - last) // 3
    assert lean.activations == last + 3 * 2 * 64 * TOKENS + block
    assert replace(lean, activations=every.activations) == every


def test_muon_has_one_moment_of_the_matrices_of_the_blocks_and_iterates_batches_of_them():
    matrices = sum(layer.weights for layer in linear_layers(SHAPE))
    found = estimate(spec_of(optimizer=OptimizerKind.MUON))
    assert found.optimizer == 8 * P - 4 * matrices
    assert found.update == 4 * P + 4 * matrices + 14 * matrices
    large = estimate(spec_of(PRESETS["moe-7.9b"], optimizer=OptimizerKind.MUON))
    held = count_parameters(PRESETS["moe-7.9b"], V).total
    of_blocks = sum(layer.weights for layer in linear_layers(PRESETS["moe-7.9b"]))
    stack = 128 * 2048 * 512
    assert large.update == 4 * held + 4 * of_blocks + 14 * stack


def test_a_recipe_that_multiplies_the_same_weights_again_keeps_them_in_fp32():
    plain, kept = estimate(spec_of(recipe="ufp4")), estimate(spec_of(recipe="fp8-tensor"))
    matrices = sum(layer.weights for layer in linear_layers(SHAPE))
    assert kept.activations - plain.activations == 4 * matrices
    lean = estimate(spec_of(recipe="fp8-tensor"), checkpoints=True).activations
    assert lean - estimate(spec_of(), checkpoints=True).activations == 4 * matrices // 3


def test_experts_keep_a_row_for_each_token_that_chose_them_and_those_that_fill_up_blocks():
    shape = PRESETS["moe-1m"]
    experts = shape.experts
    assert experts is not None
    found = estimate(spec_of(shape)).activations
    without = replace(shape, experts=None, mlp_width=experts.shared_width)
    dense = estimate(spec_of(without)).activations
    rows = experts.active * TOKENS
    routing = 4 * (128 + 2 * experts.count) * TOKENS
    row = 2 * (2 * 128 + 3 * experts.width) + 4
    assert found - dense == 2 * (routing + rows * row)
    filled = estimate(spec_of(shape, recipe="ufp4")).activations
    assert filled - found == 2 * experts.count * 15 * row


def test_sharded_ranks_divide_what_is_held_and_gather_two_blocks():
    one = estimate(spec_of())
    four = estimate(spec_of(parts=4, resources=Resources(gpus=4)))
    turns = 4 * 2 * T * 32 * 3
    assert four.weights == turns + 4 * -(-P // 4)
    assert four.gradients == 4 * -(-P // 4)
    assert four.optimizer == pytest.approx(one.optimizer / 4, abs=8)
    block = sum(layer.weights for layer in linear_layers(SHAPE)) // 3
    assert four.gathered == 8 * (2 * block + 2 * V * 64)
    assert (four.activations, four.logits) == (one.activations, one.logits)


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_sharded_ranks_hold_their_part_of_gradients_however_many_microbatches_they_add_up(parts):
    assert estimate(spec_of(parts=parts, resources=Resources(gpus=2))).gradients == 4 * -(-P // 2)


def test_replicas_hold_what_a_single_process_does():
    resources = Resources(gpus=2, sharding=Sharding.REPLICATE)
    assert estimate(spec_of(parts=2, resources=resources)) == estimate(spec_of())


def test_a_device_fits_with_a_tenth_to_spare():
    needed = estimate(spec_of())
    assert needed.fits(-(-10 * needed.total_bytes // 9) + 1)
    assert not needed.fits(needed.total_bytes)


def test_the_fewest_gpus_are_a_divisor_of_the_microbatches_on_which_it_fits():
    spec = spec_of(PRESETS["1.5b"], parts=12)
    gib = 2**30
    assert least_gpus(spec, 80 * gib) == 1
    device = 24 * gib
    found = least_gpus(spec, device)
    assert found is not None
    assert 12 % found == 0
    for gpus in (1, 2, 3, 4, 6, 12):
        sized = estimate(replace(spec, resources=Resources(gpus=gpus)))
        assert sized.fits(device) or gpus < found
    assert not estimate(replace(spec, resources=Resources(gpus=1))).fits(device)
    assert least_gpus(spec, gib) is None


def test_a_batch_of_any_size_is_settled_at_once():
    spec = spec_of()
    named = replace(spec.training, batch_tokens=TOKENS * 10**12)
    assert least_gpus(replace(spec, training=named), 80 * 2**30) == 1
    free = replace(spec.training, batch_tokens=10**15, microbatch_tokens=None)
    assert least_gpus(replace(spec, training=free), 2**20) is None


@pytest.mark.parametrize("shape", PRESETS.values(), ids=lambda shape: shape.name)
@pytest.mark.parametrize("recipe", ["bf16", "ufp4", "nvfp4"])
def test_every_preset_is_estimated_above_its_states(shape, recipe):
    total = count_parameters(shape, V).total
    found = estimate(spec_of(shape, recipe=recipe))
    assert found.total_bytes > 16 * total
    assert found.activations > 0
