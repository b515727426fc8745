"""Rows of words: what they hold for each layer, and that they follow the streams in place."""

import pytest
import torch
from torch import nn

from kernels.draws import words
from kernels.formats import INT4
from kernels.linear import QuantLinear
from kernels.operands import Rounding
from kernels.presets import PRESETS, compose
from kernels.recipes import GEMMS, RHT_SIZES, Recipe, Signs
from kernels.streams import Streams

CPU = torch.device("cpu")
OTHER = torch.device("cpu", 0)
"""To the table a device of its own."""
RECIPES = {
    **PRESETS,
    **{
        f"{kind}-{size}": compose(
            INT4, name="c", rht=GEMMS, rht_size=size, signs=kind, sr=["w", "dy"]
        )
        for kind in Signs
        for size in RHT_SIZES
    },
}
recipes = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def expected(streams: Streams, recipe: Recipe, layer: str) -> list[list[int]]:
    rows = []
    for gemm, word, operand in recipe.operands():
        drawn = operand.rounding is not Rounding.RTNE
        key = streams.key(layer=layer, gemm=gemm, operand=word) if drawn else 0
        rht = getattr(recipe, gemm).rht
        rows.append(list(words(key, streams.rotation(rht, layer=layer, gemm=gemm))))
    return rows


@recipes
def test_a_row_holds_the_key_and_the_signs_of_each_operand(recipe: Recipe) -> None:
    streams = Streams(sr=(1 << 63) + 5, rht=7, step=3, microbatch=2)
    row = streams.row(recipe, "blocks.0.a", CPU)
    assert row.shape == (6, 3)
    assert row.tolist() == expected(streams, recipe, "blocks.0.a")


def test_rows_follow_the_streams_in_place_on_every_device() -> None:
    streams = Streams(sr=1, rht=2)
    recipe = RECIPES["step-128"]
    names = [f"blocks.{index}.a" for index in range(150)]
    early = {name: streams.row(recipe, name, CPU) for name in names[:70]}
    there = {name: streams.row(recipe, name, OTHER) for name in names[:70]}
    late = {name: streams.row(recipe, name, OTHER) for name in names[70:]}
    rows = [(name, row) for part in (early, there, late) for name, row in part.items()]
    places = [row.data_ptr() for _, row in rows]
    assert len(set(places)) == len(rows)
    for where in ({"step": 0}, {"step": 8}, {"step": 8, "microbatch": 3}, {"step": 2}):
        streams.move(**where)
        assert (streams.step, streams.microbatch) == (where["step"], where.get("microbatch", 0))
        for name, row in rows:
            assert row.tolist() == expected(streams, recipe, name)
    assert [row.data_ptr() for _, row in rows] == places


def test_a_layer_has_one_row_for_each_device_however_often_it_is_asked() -> None:
    streams, recipe = Streams(sr=1, rht=2), PRESETS["ufp4"]
    first, again = (streams.row(recipe, "blocks.0.a", CPU) for _ in range(2))
    assert first.data_ptr() == again.data_ptr()
    assert streams.row(recipe, "blocks.0.a", OTHER).data_ptr() != first.data_ptr()
    assert streams.row(PRESETS["nvfp4"], "blocks.0.a", CPU).data_ptr() != first.data_ptr()


def test_copies_stay_where_they_are_and_leave_the_rows_alone() -> None:
    streams, recipe = Streams(sr=1, rht=2, step=3, microbatch=1), PRESETS["ufp4"]
    row = streams.row(recipe, "blocks.0.a", CPU).clone()
    now, there = streams.now(), streams.at(step=9)
    assert (now.sr, now.rht, now.step, now.microbatch) == (1, 2, 3, 1)
    assert (there.step, there.microbatch) == (9, 0)
    there.move(step=11)
    assert torch.equal(streams.row(recipe, "blocks.0.a", CPU), row)
    streams.move(step=4)
    assert now.step == 3


def test_a_model_that_moves_to_another_device_goes_by_its_rows_there() -> None:
    streams, recipe = Streams(sr=1, rht=2), RECIPES["step-64"]
    model = nn.Sequential(
        *(QuantLinear(64, 64, recipe=recipe, name=f"blocks.{i}.a", streams=streams) for i in "01")
    )
    model.to("meta")
    draws = [layer._draws for layer in model if isinstance(layer, QuantLinear)]
    assert [row.device.type for row in draws] == ["meta", "meta"]
    assert draws[0]._base is draws[1]._base is not None
    model.to_empty(device="cpu")
    streams.move(step=5)
    for index, layer in enumerate(model):
        assert isinstance(layer, QuantLinear)
        assert layer._draws.tolist() == expected(streams, recipe, f"blocks.{index}.a")


@pytest.mark.parametrize("before", [0, 1, 60, 63, 64, 65])
def test_the_rows_of_a_stack_are_one_view_wherever_they_begin_and_follow_the_streams(
    before: int,
) -> None:
    streams, recipe = Streams(sr=1, rht=2), RECIPES["step-128"]
    alone = [f"blocks.{index}.a" for index in range(before)]
    names = [f"blocks.0.experts.{index}" for index in range(7)]
    singles = {name: streams.row(recipe, name, CPU) for name in alone}
    stack = streams.rows(recipe, names, CPU)
    assert stack.shape == (7, 6, 3)
    later = streams.row(recipe, "blocks.9.a", CPU)
    assert streams.rows(recipe, names, CPU).data_ptr() == stack.data_ptr()
    for step in (0, 5):
        streams.move(step=step)
        assert stack.tolist() == [expected(streams, recipe, name) for name in names]
        assert later.tolist() == expected(streams, recipe, "blocks.9.a")
        for name, row in singles.items():
            assert row.tolist() == expected(streams, recipe, name)


def test_a_stack_has_rows_of_its_own_where_its_layers_are_known_one_by_one() -> None:
    streams, recipe = Streams(sr=1, rht=2), RECIPES["step-128"]
    one = streams.row(recipe, "blocks.0.experts.1", CPU)
    stack = streams.rows(recipe, ["blocks.0.experts.0", "blocks.0.experts.1"], CPU)
    streams.move(step=4)
    assert stack[1].tolist() == one.tolist() == expected(streams, recipe, "blocks.0.experts.1")
