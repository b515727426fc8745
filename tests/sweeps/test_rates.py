"""The model of a run's cost: its three terms by hand, and what ranks and experts do to them."""

from dataclasses import replace

import pytest

from kernels.presets import PRESETS as RECIPES
from sweeps.counts import flops_per_token
from sweeps.families.ladder import PRESETS
from sweeps.quantized_work import quantized_elements_per_token
from sweeps.rates import (
    ELEMENTS_PER_SECOND,
    FLOPS_PER_SECOND,
    LAYER_SECONDS,
    modelled_seconds_per_token,
)
from sweeps.runspec import Resources, RunSpec
from tests.sweeps.made_runs import made_spec


def spec_of(model: str, recipe: str = "bf16", *, part: int | None = None) -> RunSpec:
    made = made_spec()
    training = replace(made.training, batch_tokens=4096, microbatch_tokens=part)
    return replace(made, model=PRESETS[model], recipe=RECIPES[recipe], training=training)


def test_a_token_costs_its_flops_and_its_share_of_the_calls():
    flops = flops_per_token(PRESETS["200k"], vocab_size=257, context=64) / FLOPS_PER_SECOND
    calls = LAYER_SECONDS * 2 * 7
    seconds = modelled_seconds_per_token(spec_of("200k"))
    assert seconds == pytest.approx(flops + calls / 4096)
    parts = modelled_seconds_per_token(spec_of("200k", part=1024))
    assert parts == pytest.approx(flops + calls / 1024)


def test_a_quantized_element_costs_extra():
    recipe = RECIPES["ufp4"]
    elements = quantized_elements_per_token(PRESETS["200k"], recipe, tokens=4096)
    extra = modelled_seconds_per_token(spec_of("200k", "ufp4")) - modelled_seconds_per_token(
        spec_of("200k")
    )
    assert extra == pytest.approx(elements / ELEMENTS_PER_SECOND)


def test_of_experts_the_flops_are_those_passed_and_the_calls_those_of_all():
    flops = flops_per_token(PRESETS["moe-1m"], vocab_size=257, context=64) / FLOPS_PER_SECOND
    calls = LAYER_SECONDS * 2 * (4 + 3 + 3 * 16)
    assert modelled_seconds_per_token(spec_of("moe-1m")) == pytest.approx(flops + calls / 4096)


def test_ranks_share_a_run():
    alone = spec_of("200k", "ufp4", part=1024)
    four = replace(alone, resources=Resources(gpus=4))
    assert modelled_seconds_per_token(four) == modelled_seconds_per_token(alone) / 4


def test_a_large_batch_that_names_no_part_is_charged_the_calls_of_each_part():
    run = spec_of("200k")
    batch = replace(run.training, batch_tokens=8 * 32768)
    in_parts = replace(batch, microbatch_tokens=32768)
    seconds = modelled_seconds_per_token(replace(run, training=in_parts))
    assert modelled_seconds_per_token(replace(run, training=batch)) == seconds
