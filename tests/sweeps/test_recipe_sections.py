"""The ways to write a recipe mean what `kernels` makes of the same words."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.loss_scaling import LossScaling
from kernels.operands import Operand, Rounding, Scale, Source
from kernels.presets import PRESETS, compose
from kernels.recipe_warnings import warnings_of
from kernels.recipes import Carrier, Gemm, Precision, Recipe, Rht, Rule, Signs
from sweeps.errors import SpecError
from sweeps.meaning import meaning
from sweeps.spec import parse_spec
from tests.sweeps.specs import mapping, train

EVERY = ["fprop", "dgrad", "wgrad"]


def recipe_of(entry: Any) -> Recipe:
    """The recipe of one entry, in a sweep whose axes hold whole blocks of any size."""
    models = [{"layers": 4, "width": 128, "heads": 2, "mlp_width": 256}]
    (recipe,) = parse_spec(mapping(models=models, recipes=[entry])).all_recipes()
    return recipe


@pytest.mark.parametrize("name", PRESETS)
def test_a_text_is_the_preset_of_that_name(name):
    assert recipe_of(name) == PRESETS[name]


COMPACT = [
    ({"format": "int4", "rht": ["wgrad", "fprop"], "sr": ["dy"]},
     compose(INT4, name="int4-rht.fprop.wgrad-sr.dy", rht=["fprop", "wgrad"], sr=["dy"])),
    ({"format": "e2m1", "scale": "e8m0-even", "block": "1x32", "rht": ["wgrad"], "sr": ["dy"]},
     compose(E2M1, name="e2m1-e8m0-even-1x32-rht.wgrad-sr.dy", scale=Scale.E8M0_EVEN,
             block=Block(along=32), rht=["wgrad"], sr=["dy"])),
    ({"format": "e2m1", "name": "mine", "rht": ["dgrad"], "block": 32, "rht_size": 32},
     compose(E2M1, name="mine", rht=["dgrad"], block=Block(along=32), rht_size=32)),
    ({"format": "e2m1", "rht": ["dgrad"], "rht_size": 64, "signs": "step"},
     compose(E2M1, name="e2m1-rht64.dgrad-signs.step", rht=["dgrad"], rht_size=64,
             signs=Signs.STEP)),
    ({"format": "e4m3", "block": "tensor"}, compose(E4M3, name="e4m3-tensor", block=TENSOR)),
    ({"format": "e4m3", "block": "row"}, compose(E4M3, name="e4m3-row", block=ROW)),
    ({"format": "e2m1", "block": "16x16", "scale": "e4m3"},
     compose(E2M1, name="e2m1-e4m3-16x16", block=Block(across=16), scale=Scale.E4M3)),
    ({"format": "e2m1", "sr": ["dy"], "random_bits": 16, "half_offset": False, "headroom": 2},
     compose(E2M1, name="e2m1-sr.dy-16bit-no-half-room2", sr=["dy"], random_bits=16,
             half_offset=False, headroom=2.0)),
    ({"format": "int4", "gemm": "bf16"},
     compose(INT4, name="int4-gemm.bf16", gemm=Precision.BF16)),
    ({"format": "e2m1", "pad": True, "gemm": "tf32"},
     compose(E2M1, name="e2m1-pad-gemm.tf32", pad=True, gemm=Precision.TF32)),
    ({"format": "e2m1-max4", "pad": True},
     compose(GRIDS["e2m1-max4"], name="e2m1-max4-pad", pad=True)),
    ({"format": {"name": "mine", "magnitudes": [0, 1, 2, 4]}, "sr": ["x"]},
     compose(Grid("mine", (0.0, 1.0, 2.0, 4.0)), name="mine-sr.x", sr=["x"])),
    ({"format": "int4", "bf16_layers": ["*.down"], "bf16_first": 0.25, "bf16_last": 0.5},
     replace(compose(INT4, name="int4-bf16(*.down)-first0.25-last0.5"),
             rules=(Rule(pattern="*.down", quantize=False),), exempt_first=0.25, exempt_last=0.5)),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "recipe"), COMPACT, ids=lambda one: getattr(one, "name", ""))
def test_the_compact_form_is_what_compose_makes_of_it(entry, recipe):
    assert recipe_of(entry) == recipe


def test_bf16_layers_and_shares_keep_the_layers_that_they_name():
    recipe = recipe_of({"format": "int4", "bf16_layers": ["blocks.1.*"], "bf16_last": 0.25})
    kept = [recipe.quantizes(f"blocks.{block}.mlp.down", 4) for block in range(4)]
    assert kept == [True, False, True, False]


def test_a_preset_may_have_exemptions_and_keeps_what_they_do_not_say():
    recipe = recipe_of({"preset": "nvfp4", "bf16_layers": ["*.key"], "bf16_last": 0.5, "name": "n"})
    rules = (Rule(pattern="*.key", quantize=False),)
    assert recipe == replace(PRESETS["nvfp4"], name="n", rules=rules, exempt_last=0.5)
    assert recipe_of({"preset": "ufp4", "pad": True}) == replace(
        PRESETS["ufp4"], name="ufp4-pad", pad=True
    )
    assert recipe_of({"preset": "quartet2", "pad": False}).pad is False
    assert recipe_of({"preset": "nvfp4", "gemm": "bf16"}) == replace(
        PRESETS["nvfp4"], name="nvfp4-gemm.bf16", gemm=Precision.BF16
    )
    assert recipe_of({"preset": "ufp4"}) == PRESETS["ufp4"]


def test_the_full_form_says_each_operand_and_leaves_the_others_in_the_carrier():
    entry = {
        "name": "mine",
        "fprop": {
            "x": {"format": "e2m1", "scale": "e4m3", "scale_maximum": 256, "alternate": 4},
            "w": {"format": "e2m1", "scale": "e4m3", "block": "16x16"},
        },
        "dgrad": {"w": {"format": "int4", "block": "1x64", "headroom": 1.5}},
        "wgrad": {
            "dy": {
                "format": "e2m1",
                "scale": "e4m3",
                "outer": 128,
                "rounding": "sr",
                "random_bits": 24,
                "half_offset": False,
                "headroom": 1.0625,
            },
            "x": {"format": "e2m1", "rounding": "eden", "source": "forward"},
            "rht": {"size": 128, "signs": "none", "to_bf16": True},
        },
        "bf16_first": 0.5,
        "pad": True,
        "gemm": "tf32",
        "carrier": "fp16",
    }
    e4m3 = Operand(grid=E2M1, scale=Scale.E4M3)
    assert recipe_of(entry) == Recipe(
        name="mine",
        fprop=Gemm(
            left=replace(e4m3, scale_maximum=256.0, alternate=4.0),
            right=replace(e4m3, block=Block(across=16)),
        ),
        dgrad=Gemm(right=Operand(grid=INT4, block=Block(along=64), headroom=1.5)),
        wgrad=Gemm(
            left=replace(
                e4m3,
                outer=128,
                rounding=Rounding.SR,
                random_bits=24,
                half_offset=False,
                headroom=1.0625,
            ),
            right=Operand(grid=E2M1, rounding=Rounding.EDEN, source=Source.FORWARD),
            rht=Rht(size=128, signs=Signs.NONE, to_bf16=True),
        ),
        exempt_first=0.5,
        pad=True,
        gemm=Precision.TF32,
        carrier=Carrier.FP16,
        loss_scaling=LossScaling(),
    )


def test_every_preset_of_quantized_operands_can_be_written_in_the_full_form():
    def operand(one: Operand) -> dict[str, Any] | None:
        if one.grid is None:
            return None
        named = next(name for name, grid in GRIDS.items() if grid == one.grid)
        fields = {"scale", "rounding", "random_bits", "half_offset", "headroom", "scale_maximum"}
        fields |= {"alternate", "outer", "source"}
        said = {key: getattr(one, key) for key in fields}
        return {"format": named, "block": str(one.block)} | said

    def gemm(one: Gemm, left: str, right: str) -> dict[str, Any]:
        rht = one.rht and {key: getattr(one.rht, key) for key in ("size", "signs", "to_bf16")}
        return {left: operand(one.left), right: operand(one.right), "rht": rht}

    for preset in PRESETS.values():
        if preset.is_quantized:
            entry = {
                "name": preset.name,
                "fprop": gemm(preset.fprop, "x", "w"),
                "dgrad": gemm(preset.dgrad, "dy", "w"),
                "wgrad": gemm(preset.wgrad, "dy", "x"),
                "bf16_first": preset.exempt_first,
                "bf16_last": preset.exempt_last,
                "pad": preset.pad,
                "gemm": preset.gemm.value,
            }
            assert recipe_of(entry) == preset


def test_magnitudes_are_rounded_to_fp32_and_minus_zero_is_zero():
    entry = {"format": {"name": "third", "magnitudes": [-0.0, 1 / 3, 1]}}
    grid = recipe_of(entry).fprop.left.grid
    assert grid is not None
    assert str(grid.magnitudes[0]) == "0.0"
    assert grid.magnitudes[1] == 0.3333333432674408
    with_more = {"format": {"name": "long", "magnitudes": list(range(1024))}}
    long = recipe_of(with_more).fprop.left.grid
    assert long is not None
    assert long.maximum == 1023


def test_a_format_of_the_users_own_is_the_one_of_the_same_magnitudes():
    own = {"format": {"name": "mine", "magnitudes": list(range(8))}, "name": "a"}
    runs = parse_spec(mapping(recipes=["bf16", own])).all_recipes()
    with pytest.raises(SpecError, match=r"recipes\[1\] = int4: is the same as recipes\[0\]"):
        parse_spec(mapping(recipes=[own, {"format": "int4"}]))
    assert runs[1].name == "a"


def test_a_grid_adds_every_combination_once_beside_the_listed_recipes():
    grid = {"format": ["e2m1", "int4"], "rht": [[], ["wgrad"], EVERY], "sr": [[], ["dy"]]}
    names = [recipe.name for recipe in parse_spec(mapping(grid=grid)).all_recipes()]
    assert len(names) == 2 + 12 - 1  # int4 with all of it is the listed ufp4
    assert names[:4] == ["bf16", "ufp4", "e2m1", "e2m1-sr.dy"]
    assert "int4-rht.wgrad-sr.dy" in names
    alone = parse_spec(mapping(recipes=[], grid=grid))
    assert len(alone.all_recipes()) == 12


def test_a_grid_crosses_scales_blocks_and_sizes_and_no_rht_has_no_size():
    grid = {
        "format": ["e2m1", {"name": "mine", "magnitudes": [0, 1, 3]}],
        "scale": ["fp32", "e8m0-rceil"],
        "block": [16, "16x16"],
        "rht": [[], ["wgrad"]],
        "rht_size": [16, 64],
    }
    names = [recipe.name for recipe in parse_spec(mapping(recipes=[], grid=grid)).all_recipes()]
    assert len(names) == len(set(names)) == 2 * 2 * 2 * (1 + 2)
    assert names[:3] == ["e2m1", "e2m1-16x16", "e2m1-e8m0-rceil"]
    assert "mine-e8m0-rceil-16x16-rht64.wgrad" in names


def test_a_grid_crosses_the_precision_of_products():
    grid = {"format": ["e2m1"], "scale": ["e4m3", "fp32"], "gemm": ["fp32", "tf32", "bf16"]}
    recipes = parse_spec(mapping(recipes=["bf16"], grid=grid)).all_recipes()
    assert [(recipe.name, recipe.gemm) for recipe in recipes[1:]] == [
        ("e2m1-e4m3", Precision.FP32),
        ("e2m1-e4m3-gemm.tf32", Precision.TF32),
        ("e2m1-e4m3-gemm.bf16", Precision.BF16),
        ("e2m1", Precision.FP32),
        ("e2m1-gemm.tf32", Precision.TF32),
        ("e2m1-gemm.bf16", Precision.BF16),
    ]


def test_recipes_that_differ_in_the_precision_of_products_alone_are_other_recipes():
    entries = ["ufp4", *({"preset": "ufp4", "gemm": gemm} for gemm in ("tf32", "bf16"))]
    recipes = parse_spec(mapping(recipes=entries)).all_recipes()
    assert len(set(map(meaning, recipes))) == 3
    assert [recipe.name for recipe in recipes] == ["ufp4", "ufp4-gemm.tf32", "ufp4-gemm.bf16"]
    with pytest.raises(SpecError, match=r"recipes\[1\] = ufp4-gemm.fp32: is the same as recipes"):
        parse_spec(mapping(recipes=["ufp4", {"preset": "ufp4", "gemm": "fp32"}]))


def test_diagnostics_reach_every_run_and_are_no_part_of_the_sweep():
    spec = parse_spec(mapping(diagnostics={"every": 200, "layers": ["blocks.0.*"]}))
    found = spec.run_diagnostics()
    assert (found.every, found.layers) == (200, ("blocks.0.*",))
    assert parse_spec(mapping()).run_diagnostics().every == 0
    assert parse_spec(mapping(diagnostics={"every": 5})).run_diagnostics().layers == ("*",)


def test_a_scale_that_can_clip_under_sr_is_warned_of_once():
    clipping = {"format": "e2m1", "scale": "e4m3", "sr": ["dy"]}
    spec = parse_spec(mapping(recipes=[clipping, clipping | {"headroom": 1.0625, "name": "safe"}]))
    (said,) = spec.warnings()
    assert "e2m1-e4m3-sr.dy rounds dy (dgrad, wgrad) stochastically" in said
    assert "headroom 1.0625 removes it" in said


def test_operands_that_the_precision_rounds_are_warned_of_once():
    exact = {"format": "e2m1", "scale": "e4m3", "gemm": "bf16"}
    spec = parse_spec(mapping(recipes=[{"preset": "ufp4", "gemm": "bf16", "name": "mine"}, exact]))
    (said,) = spec.warnings()
    assert said.startswith(
        "recipe mine multiplies in bf16, but the values of x (fprop, wgrad), w ("
    )


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("format_", ["e2m1", "int4", "e3m0", "e4m3", "e5m2", "int8"])
def test_the_headroom_that_a_warning_asks_for_ends_it(scale, format_):
    entry = {"format": format_, "scale": scale.value, "sr": ["dy"], "name": "n"}
    for sentence in warnings_of(recipe_of(entry)):
        headroom = float(sentence.partition("headroom ")[2].split()[0])
        assert warnings_of(recipe_of(entry | {"headroom": headroom})) == ()
        assert warnings_of(recipe_of(entry | {"headroom": headroom - 2e-4}))


@pytest.mark.parametrize("name", PRESETS)
def test_only_nvfp4_is_warned_of_where_blocks_are_whole(name):
    models = [{"layers": 2, "width": 128, "heads": 2, "mlp_width": 256}]
    warnings = parse_spec(mapping(models=models, recipes=[name], train=train())).warnings()
    assert len(warnings) == (name == "nvfp4")  # as published it has no headroom


ADDED = """
from kernels.formats import GRIDS, minifloat
GRIDS["e2m2"] = minifloat("e2m2", 2, 2)

import torch
from kernels import ops, reference
from sweeps.spec import parse_spec
from tests.sweeps.specs import mapping

entry = {"format": "e2m2", "rht": ["wgrad"], "sr": ["dy"], "scale": "e4m3"}
*_, recipe = parse_spec(mapping(recipes=[entry])).all_recipes()
assert recipe.wgrad.left.grid.magnitudes[-1] == 7, recipe
for _, _, operand in recipe.operands():
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
    fast, plain = (one.fake_quantize(x, operand, 5) for one in (ops, reference))
    assert torch.equal(fast.values, plain.values)
print(recipe.name)
"""


def test_one_line_adds_a_grid_to_the_sweep_file_the_reference_and_the_kernel():
    done = subprocess.run(
        [sys.executable, "-c", ADDED],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("e2m2-e4m3-rht.wgrad-sr.dy\n", "")
