"""The ladders: sizes as their names say, axes of whole blocks, shapes as the field has them."""

from itertools import pairwise

import pytest

from kernels.presets import PRESETS as RECIPES
from sweeps.counts import (
    active_non_embedding_parameters,
    linear_layers,
    non_embedding_parameters,
)
from sweeps.families import dense, moe
from sweeps.families.ladder import PRESETS, SHORT_NAMES, preset
from sweeps.shape_checks import check_model_names, check_shapes
from sweeps.shapes import ModelShape
from sweeps.tails import feature_tails

EVERY = pytest.mark.parametrize("shape", PRESETS.values(), ids=lambda shape: shape.name)
UNITS = {"k": 1e3, "m": 1e6, "b": 1e9}


def named_size(name: str) -> float:
    digits = name.removeprefix("moe-")
    return float(digits[:-1]) * UNITS[digits[-1]]


def test_the_dense_ladder_goes_from_50_thousand_to_1_5_billion():
    assert [shape.name for shape in dense.LADDER] == [
        *("50k", "100k", "200k", "400k", "800k", "1.6m", "3m", "6m", "12m", "25m", "50m"),
        *("100m", "200m", "400m", "800m", "1.5b"),
    ]
    assert all(shape.experts is None for shape in dense.LADDER)


def test_the_moe_ladder_goes_from_1_million_to_124_billion():
    assert [shape.name for shape in moe.LADDER] == [
        *("moe-1m", "moe-4m", "moe-16m", "moe-100m", "moe-1b", "moe-7.9b", "moe-124b"),
    ]
    assert all(shape.experts is not None for shape in moe.LADDER)


def test_presets_are_both_ladders_and_two_have_a_short_name():
    assert [*PRESETS] == [shape.name for shape in (*dense.LADDER, *moe.LADDER)]
    assert {name: preset(name) for name in SHORT_NAMES} == {
        "7.9b": PRESETS["moe-7.9b"],
        "124b": PRESETS["moe-124b"],
    }
    assert preset("2b") is None


@EVERY
def test_a_model_has_the_size_of_its_name_within_5_percent(shape):
    assert non_embedding_parameters(shape) == pytest.approx(named_size(shape.name), rel=0.05)


@EVERY
def test_every_dimension_holds_what_a_shape_must(shape):
    assert not list(check_shapes([shape]))
    assert not list(check_model_names([shape]))


@EVERY
def test_what_gemms_contract_over_holds_whole_blocks(shape):
    block = 128 if non_embedding_parameters(shape) > 11e6 else 32
    layers = linear_layers(shape)
    axes = {size for one in layers for size in (one.in_features, one.out_features)}
    assert not [size for size in axes if size % block]


def test_every_preset_recipe_needs_padding_only_where_it_lays_larger_blocks():
    """From 12m on nothing is padded along features; below, only blocks above 32 are."""
    for shape in PRESETS.values():
        least = 32 if non_embedding_parameters(shape) < 11e6 else 128
        for recipe in RECIPES.values():
            tails = feature_tails(shape, recipe)
            assert all(tail.block > least for tail in tails), (shape.name, recipe.name)


@pytest.mark.parametrize("ladder", [dense.LADDER, moe.LADDER], ids=["dense", "moe"])
def test_ladders_ascend_in_size_width_and_heads(ladder: tuple[ModelShape, ...]):
    for smaller, larger in pairwise(ladder):
        assert non_embedding_parameters(smaller) < non_embedding_parameters(larger)
        assert smaller.width <= larger.width
        assert smaller.num_layers <= larger.num_layers
        assert smaller.head_width <= larger.head_width


@EVERY
def test_heads_share_out_the_width_and_groups_of_them_a_key(shape):
    assert shape.query_width == shape.width
    assert shape.head_width in {16, 32, 64, 128}
    key_heads = shape.kv_width // shape.head_width
    least = 1 if shape.name in {"200k", "400k"} else 2
    assert least <= shape.num_heads // key_heads <= 8
    assert key_heads >= 2


def test_experts_are_fine_grained_and_few_of_them_active():
    shares = [
        active_non_embedding_parameters(shape) / non_embedding_parameters(shape)
        for shape in moe.LADDER
    ]
    assert max(shares) < 0.3
    assert shares[2:] == sorted(shares[2:], reverse=True)
    assert shares[-1] < 0.06
    for shape in moe.LADDER:
        assert shape.experts is not None
        assert shape.experts.width <= shape.width / 2
        assert shape.experts.shared_width >= shape.experts.width
        assert shape.mlp_width == shape.experts.passed_width
