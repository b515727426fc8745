"""The entries of `models`: what each means, what it is called, and what cannot be."""

from dataclasses import asdict
from typing import Any

import pytest
from pydantic import TypeAdapter

from sweeps.errors import SpecError
from sweeps.families.ladder import PRESETS
from sweeps.model_sections import ModelEntry, ModelSection, shape_of
from sweeps.shapes import Experts, Mlp, ModelShape, Router
from sweeps.spec import parse_spec, spec_text
from tests.sweeps.specs import mapping

MODEL = {"layers": 2, "width": 64, "heads": 4}
MIXTURE = {"count": 8, "active": 2, "width": 32}
ENTRIES: TypeAdapter[str | ModelSection] = TypeAdapter(ModelEntry)


def shape(entry: object) -> ModelShape:
    return shape_of(ENTRIES.validate_python(entry))


def problems(*models: object, recipes: tuple[object, ...] = ("bf16",)) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping(models=list(models), recipes=list(recipes)))
    return [str(problem) for problem in caught.value.problems]


def test_a_text_is_a_preset_and_a_short_name_the_same_one():
    assert shape("1.6m") == PRESETS["1.6m"]
    assert shape("124b") == shape("moe-124b") == PRESETS["moe-124b"]


def test_a_mapping_says_every_dimension():
    assert shape(
        {
            "layers": 3,
            "width": 64,
            "heads": 4,
            "name": "own",
            "kv_heads": 2,
            "head_width": 32,
            "mlp": "relu2",
            "mlp_width": 96,
            "rope_base": 5e5,
            "experts": MIXTURE
            | {"shared_width": 48, "dense_layers": 1, "router": "softmax", "balance_rate": 0.01},
        }
    ) == ModelShape(
        name="own",
        num_layers=3,
        width=64,
        num_heads=4,
        num_kv_heads=2,
        head_size=32,
        mlp=Mlp.RELU2,
        mlp_width=96,
        rope_base=5e5,
        experts=Experts(
            count=8,
            active=2,
            width=32,
            shared_width=48,
            dense_layers=1,
            router=Router.SOFTMAX,
            balance_rate=0.01,
        ),
    )


def test_a_model_gets_its_name_and_mlp_width_from_its_shape():
    usual = ModelSection(layers=2, width=48, heads=3).shape()
    assert (usual.name, usual.mlp_width, usual.mlp) == ("2x48h3", 128, Mlp.SWIGLU)
    assert ModelSection(layers=2, width=64, heads=4).shape().mlp_width == 176  # 170.7 rounded up
    squared = ModelSection(layers=1, width=64, heads=4, mlp=Mlp.RELU2).shape()
    assert (squared.name, squared.mlp_width) == ("1x64h4-relu2", 256)
    own = ModelSection(layers=1, width=64, heads=4, mlp_width=96).shape()
    assert (own.name, own.mlp_width) == ("1x64h4-m96", 96)
    assert ModelSection(layers=1, width=64, heads=4, name="tiny").shape().name == "tiny"


def test_dense_blocks_beside_experts_are_as_wide_as_what_a_token_passes_in_the_others():
    experts = MIXTURE | {"shared_width": 48, "dense_layers": 1}
    assert shape(MODEL | {"experts": experts}).mlp_width == 48 + 2 * 32


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"kv_heads": 2}, "2x64h4k2"),
        ({"head_width": 32}, "2x64h4-d32"),
        ({"rope_base": 5e5}, "2x64h4-r500000"),
        ({"experts": MIXTURE}, "2x64h4-e8a2w32"),
        (
            {"experts": MIXTURE | {"shared_width": 16, "dense_layers": 1, "router": "softmax"}},
            "2x64h4-e8a2w32s16-f1-softmax",
        ),
        ({"experts": MIXTURE | {"balance_rate": 0.0}}, "2x64h4-e8a2w32-b0"),
    ],
)
def test_what_is_not_usual_is_in_the_name_so_that_no_two_models_share_one(changes, name):
    models = [MODEL, MODEL | changes]
    assert [one.name for one in parse_spec(mapping(models=models)).shapes()] == ["2x64h4", name]


@pytest.mark.parametrize(
    "written_out", [{"kv_heads": 4}, {"head_width": 16}, {"rope_base": 10000.0}, {"mlp_width": 176}]
)
def test_a_usual_value_written_out_means_the_same_model(written_out):
    assert shape(MODEL | written_out) == shape(MODEL)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_preset_written_out_is_that_preset_again(preset: ModelShape):
    written: dict[str, Any] = {
        "layers": preset.num_layers,
        "width": preset.width,
        "heads": preset.num_heads,
        "kv_heads": preset.kv_width // preset.head_width,
        "head_width": preset.head_width,
        "mlp_width": preset.mlp_width,
    }
    if preset.experts is not None:
        written["experts"] = asdict(preset.experts)
    assert shape(written | {"name": preset.name}) == preset
    (said,) = problems(preset.name, written)
    assert said.endswith(": is the same as models[0]")


def test_every_preset_and_mapping_goes_through_yaml_and_back():
    models = [*PRESETS, MODEL | {"experts": MIXTURE | {"router": "softmax"}}, MODEL]
    spec = parse_spec(mapping(models=models, budgets=["1Btok"]))
    assert parse_spec(spec.model_dump(mode="json")) == spec
    text = spec_text(spec)
    assert "- moe-124b\n" in text
    assert "router: softmax" in text


def test_an_unknown_preset_is_refused_with_the_nearest_or_with_all():
    assert problems("1.6M") == ["models[0] = 1.6M: is no preset model; did you mean '1.6m'?"]
    (said,) = problems("enormous")
    assert said.startswith("models[0] = enormous: is no preset model; the presets are 50k, 100k,")
    assert "moe-124b, 7.9b, 124b, and your own" in said
    assert said.endswith("is written as in {layers: 2, width: 64, heads: 4}")


def test_an_entry_of_another_kind_is_told_both_ways_to_write_one():
    (said,) = problems(3)
    assert said == ("models[0] = 3: must be a mapping of keys to values, or the name of a preset")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 66}, "models[0].width = 66: not divisible by heads = 4; `head_width` frees"),
        ({"head_width": 33}, "models[0].head_width = 33: gives heads of width 33; rotary"),
        ({"width": 68}, "models[0].heads = 4: gives heads of width 17; rotary"),
        ({"kv_heads": 3}, "models[0].kv_heads = 3: must divide heads = 4"),
        ({"kv_heads": 8}, "models[0].kv_heads = 8: must divide heads = 4"),
        ({"experts": MIXTURE | {"active": 9}}, "models[0].experts.active = 9: must be at most"),
        ({"mlp_width": 96, "experts": MIXTURE}, "models[0].mlp_width = 96: is not read: experts.d"),
        ({"experts": MIXTURE | {"active": 0}}, "models[0].experts.active = 0: must be at least 2"),
        ({"experts": MIXTURE | {"active": 1}}, "models[0].experts.active = 1: must be at least 2"),
        (
            {"experts": MIXTURE | {"dense_layers": 2}},
            "models[0].experts.dense_layers = 2: leaves none of the 2 layers for experts",
        ),
        ({"experts": MIXTURE | {"router": "hash"}}, "models[0].experts.router = hash: must be 'si"),
        ({"experts": {"count": 8, "width": 32}}, "models[0].experts.active: is required"),
        ({"experts": MIXTURE | {"top_k": 2}}, "models[0].experts.top_k = 2: unknown key"),
        ({"experts": MIXTURE | {"widht": 2}}, "models[0].experts.widht = 2: unknown key; did you"),
        ({"rope_base": 1.0}, "models[0].rope_base = 1.0: must be above 1"),
        ({"name": "50k"}, "models[0].name = 50k: is the name of a preset that means something el"),
        ({"name": "7.9b"}, "models[0].name = 7.9b: is the name of a preset that means something"),
    ],
)
def test_dimensions_that_cannot_be_are_one_problem_with_their_key(changes, said):
    (problem,) = problems(MODEL | changes)
    assert problem.startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"head_width": 20}, "models[0].heads = 4: gives 80 query features, not divisible by"),
        (
            {"kv_heads": 1, "head_width": 64, "width": 128, "heads": 2},
            "models[0].kv_heads = 1: gives 64 key features, not divisible by the block 128",
        ),
        (
            {"experts": MIXTURE | {"width": 40, "dense_layers": 1}},
            "models[0].experts.width = 40: not divisible by",
        ),
        (
            {"experts": MIXTURE | {"shared_width": 40, "dense_layers": 1}},
            "models[0].experts.shared_width = 40: not divisible by the block 32",
        ),
    ],
)
def test_an_axis_of_uneven_blocks_is_refused_by_the_key_that_makes_it(changes, said):
    block = 128 if "kv_heads" in changes else 32
    recipe = {"name": "wide", "format": "e4m3", "block": block}
    found = problems(MODEL | {"mlp_width": 128} | changes, recipes=(recipe,))
    assert len(found) == 1, found
    assert found[0].startswith(said)


def test_a_preset_narrower_than_a_block_is_refused_once_by_its_name():
    found = problems("50k", recipes=({"name": "wide", "format": "e4m3", "block": 128},))
    assert found == [
        "models[0] = 50k: has width 64, not divisible by the block 128 of recipe wide; "
        "`pad: true` fills it"
    ]


def test_what_pads_says_so_of_expert_widths_too():
    models = [MODEL | {"mlp_width": 128, "experts": MIXTURE | {"width": 96, "dense_layers": 1}}]
    recipe = {"name": "wide", "format": "e4m3", "block": 64, "pad": True}
    (note,) = parse_spec(mapping(models=models, recipes=[recipe])).warnings()
    assert "32 on the 96 features of model 2x64h4-m128-e8a2w96-f1 (fprop, block 64)" in note
