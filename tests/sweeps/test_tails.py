"""Axes that end within a block: refused with their key, or padded and said."""

import pytest

from sweeps.errors import SpecError
from sweeps.spec import parse_spec
from tests.sweeps.specs import mapping, train

MODEL = {"layers": 2, "width": 64, "heads": 2}
LARGE = {"name": "large", "format": "int4", "rht": ["dgrad"], "rht_size": 128}


def problems(**changes: object) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping(**changes))
    return [str(problem) for problem in caught.value.problems]


def test_an_axis_of_uneven_blocks_is_refused_with_the_recipes_that_lay_them():
    recipes = ["bf16", "ufp4", {"format": "e2m1"}, {"format": "e2m1", "pad": True}]
    assert problems(models=[MODEL | {"width": 40}], recipes=recipes) == [
        "models[0].width = 40: not divisible by the block 16 of recipe ufp4 and of 1 more; "
        "`pad: true` fills it"
    ]


def test_a_block_that_takes_the_whole_axis_fits_every_axis():
    for block in ("row", "tensor"):
        recipe = {"format": "e4m3", "block": block}
        assert parse_spec(mapping(models=[MODEL | {"width": 40}], recipes=[recipe])).recipes


def test_the_size_across_a_block_need_not_divide_the_other_axis():
    recipe = {"format": "e4m3", "block": "48x16"}
    assert parse_spec(mapping(models=[MODEL], recipes=[recipe])).recipes


def test_an_rht_larger_than_the_axis_has_its_own_sentence():
    (said,) = problems(models=[MODEL | {"mlp_width": 256}], recipes=[LARGE])
    assert said == (
        "models[0].width = 64: shorter than the RHT of 128 elements of recipe large; "
        "`pad: true` fills it"
    )
    parse_spec(mapping(models=[MODEL], recipes=[LARGE | {"pad": True}]))


def test_a_layer_that_is_exempt_needs_no_whole_blocks():
    odd = MODEL | {"mlp_width": 104}
    exempt = {"format": "int4", "bf16_layers": ["*.mlp.*"]}
    parse_spec(mapping(models=[odd], recipes=[exempt]))
    with pytest.raises(SpecError, match="mlp_width = 104"):
        parse_spec(mapping(models=[odd], recipes=[exempt | {"bf16_layers": ["*.up"]}]))


def test_tokens_of_a_batch_must_hold_whole_blocks():
    section = train(context=24, batch="1032tok")
    parse_spec(mapping(train=section, recipes=["bf16"]))
    with pytest.raises(SpecError, match=r"train.batch = 1032tok: not divisible by the block 16"):
        parse_spec(mapping(train=section))


def test_a_recipe_that_pads_says_once_how_many_elements_each_axis_lacks():
    models = [MODEL | {"layers": layers} for layers in (1, 2)]  # mlp_width 176
    section = train(context=24, batch="1032tok")
    spec = parse_spec(mapping(models=models, recipes=["bf16", "fp8-block"], train=section))
    (note,) = spec.warnings()
    assert note == (
        "recipe fp8-block pads the ends of axes by this many elements: "
        "64 on the 64 features of model 1x64h2 (fprop, block 128); "
        "64 on the 64 features of model 1x64h2 (dgrad, block 128); "
        "80 on the 176 features of model 1x64h2 (dgrad, block 128); "
        "80 on the 176 features of model 1x64h2 (fprop, block 128); "
        "64 on the 64 features of model 2x64h2 (fprop, block 128); "
        "64 on the 64 features of model 2x64h2 (dgrad, block 128); 3 more"
    )


def test_a_recipe_that_pads_nothing_says_nothing():
    spec = parse_spec(mapping(recipes=[{"format": "int4", "pad": True}]))
    assert spec.warnings() == ()
