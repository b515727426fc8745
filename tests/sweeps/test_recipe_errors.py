"""Each mistake in a recipe gives one problem that names its key and value in the user's words."""

import pytest

from sweeps.errors import SpecError
from sweeps.spec import parse_spec
from tests.sweeps.specs import mapping

OWN = {"format": "int4", "rht": ["wgrad"]}
SR = {"format": "int4", "sr": ["dy"]}
X = {"format": "e2m1"}


def own(*magnitudes: object) -> dict[str, object]:
    return {"format": {"name": "mine", "magnitudes": list(magnitudes)}}


def full(**gemms: object) -> dict[str, object]:
    return {"name": "mine", "fprop": {"x": X}} | gemms


LISTED = [
    # one entry of `recipes`, key below it, value, words of the message
    ("bf61", "", "bf61", "the presets are bf16, fp16, fp8-tensor"),
    (4, "", "4", "of keys to values, or the name of a preset"),
    ({"format": "int5"}, ".format", "int5", "choose one of e2m1"),
    ({"format": "int5"}, ".format", "int5", "{name: mine, magnitudes: [0, 1, 2, 4]}"),
    ({"format": "bf16"}, ".format", "bf16", "bf16 is a recipe by itself, as in recipes: [bf16]"),
    ({"format": "fp16"}, ".format", "fp16", "fp16 is a recipe by itself, as in recipes: [fp16]"),
    ({"format": 3}, ".format", "3", "a mapping of keys to values, or the name of a format"),
    ({"rht": ["wgrad"]}, ".format", "", "is required"),
    ({"format": {"name": "m"}}, ".format.magnitudes", "", "is required"),
    ({"format": {"nam": "m", "magnitudes": [0, 1], "name": "m"}}, ".format.nam", "m",
     "did you mean 'name'"),
    (own(0, 2, 1), ".format", '{"name": "mine", "magnitudes": [0, 2, 1]}',
     "must ascend strictly from 0, got (0.0, 2.0, 1.0)"),
    (own(1, 2), ".format", '{"name": "mine", "magnitudes": [1, 2]}', "ascend strictly from 0"),
    (own(0, 1, 1 + 1e-9), ".format", '{"name": "mine", "magnitudes": [0, 1, 1.000000001]}',
     "ascend strictly from 0, got (0.0, 1.0, 1.0)"),
    (own(0), ".format.magnitudes", "[0]", "needs at least 2"),
    (own(*range(1025)), ".format.magnitudes", str(list(range(1025)))[:77] + "...",
     "at most 1024, got 1025"),
    (own(0, 1e-40, 2e-40), ".format", '{"name": "mine", "magnitudes": [0, 1e-40, 2e-40]}',
     "must lie between 2**-64 and 2**64"),
    (own(0, 1e38), ".format", '{"name": "mine", "magnitudes": [0, 1e+38]}', "2**-64 and 2**64"),
    (own(0, -1), ".format.magnitudes[1]", "-1", "must be at least 0"),
    (own(0, float("nan")), ".format.magnitudes[1]", "NaN", "must be a finite number"),
    (own(0, "1"), ".format.magnitudes[1]", "1", "must be a number"),
    (own(0, 1e39), ".format.magnitudes[1]", "1e+39", "must be at most 3.4028234663852886e+38"),
    (own(0, 1e-46), ".format", '{"name": "mine", "magnitudes": [0, 1e-46]}', "strictly from 0"),
    ({"format": {"name": "e2m1", "magnitudes": [0, 1]}}, ".format",
     '{"name": "e2m1", "magnitudes": [0, 1]}', "the name of a format with other magnitudes"),
    ({"format": "int4", "rht": ["x"]}, ".rht[0]", "x", "an RHT belongs to a GEMM"),
    ({"format": "int4", "rht": ["x"]}, ".rht[0]", "x", "whose two operands share it"),
    ({"format": "int4", "rht": ["fwd"]}, ".rht[0]", "fwd", "must be 'fprop', 'dgrad' or 'wgrad'"),
    ({"format": "int4", "rht": "wgrad"}, ".rht", "wgrad", "be a list"),
    ({"format": "int4", "sr": ["wgrad"]}, ".sr[0]", "wgrad", "belongs to an operand, x, w or dy"),
    ({"format": "int4", "sr": ["dx"]}, ".sr[0]", "dx", "must be 'x', 'w' or 'dy'"),
    ({"format": "int4", "sr": ["dy", "dy"]}, ".sr", '["dy", "dy"]', "names something twice"),
    (OWN | {"block": 24}, ".block", "24", "must be a positive multiple of 16, got 24"),
    (OWN | {"block": "1x24"}, ".block", "1x24", "must be a positive multiple of 16, got 24"),
    (OWN | {"block": "16*16"}, ".block", "16*16", "written as 1x16, 16x16, row or tensor"),
    (OWN | {"block": True}, ".block", "true", "must be written as 16, 1x16, 16x16, row or tensor"),
    (OWN | {"block": 8192}, ".block", "8192", "at most 4096 elements each way"),
    (OWN | {"scale": "e5m3"}, ".scale", "e5m3", "must be 'fp32', 'fp32-5bit', 'e4m3', 'e8m0-"),
    (OWN | {"signs": "random"}, ".signs", "random", "must be 'none', 'fixed', 'layer' or 'step'"),
    (OWN | {"rht_size": 12}, ".rht_size", "12", "must be 4, 8, 16, 32, 64 or 128"),
    (OWN | {"rht_size": 32, "block": 48}, "",
     '{"format": "int4", "rht": ["wgrad"], "rht_size": 32, "block": 48}',
     "rht size 32 and the block of 48 along the contraction axis must divide one another"),
    ({"format": "int4", "rht_size": 32}, ".rht_size", "32", "name the GEMMs that have one"),
    ({"format": "int4", "signs": "step"}, ".signs", "step", "name the GEMMs that have one"),
    (OWN | {"headroom": 2}, ".headroom", "2", "name the operands that have it, as in sr: [dy]"),
    (OWN | {"random_bits": 16}, ".random_bits", "16", "name the operands that have it"),
    (OWN | {"half_offset": False}, ".half_offset", "false", "name the operands that have it"),
    (SR | {"random_bits": 12}, ".random_bits", "12", "must be 8, 16 or 24"),
    (SR | {"half_offset": "no"}, ".half_offset", "no", "must be true or false"),
    (SR | {"headroom": 0.4}, ".headroom", "0.4", "must be at least 0.5"),
    (SR | {"headroom": 17}, ".headroom", "17", "must be at most 16"),
    (OWN | {"pad": "yes"}, ".pad", "yes", "must be true or false"),
    (OWN | {"gemm": "fp16"}, ".gemm", "fp16", "must be 'fp32', 'tf32' or 'bf16'"),
    (OWN | {"gemm": 16}, ".gemm", "16", "must be 'fp32', 'tf32' or 'bf16'"),
    ({"preset": "ufp4", "gemm": "f32"}, ".gemm", "f32", "must be 'fp32', 'tf32' or 'bf16'"),
    (OWN | {"gem": "bf16"}, ".gem", "bf16", "did you mean 'gemm'"),
    (OWN | {"bf16_layers": ["block0*"]}, ".bf16_layers", "block0*", "matches no layer"),
    (OWN | {"bf16_first": 1.5}, ".bf16_first", "1.5", "must be at most 1"),
    (OWN | {"bf16_first": 0.5, "bf16_last": 0.5, "name": "n"}, "", "n",
     "exempts every layer of model 2x64h2, so it quantizes nothing"),
    (OWN | {"bf16_layers": ["*"], "name": "n"}, "", "n", "exempts every layer"),
    (OWN | {"name": "bf16"}, ".name", "bf16", "the name of a preset"),
    (OWN | {"name": "a b"}, ".name", "a b", "must match"),
    ({"preset": "ufp5"}, ".preset", "ufp5", "is no preset recipe; the presets are bf16"),
    ({"preset": "ufp4", "sr": ["dy"]}, ".sr", '["dy"]', "the keys here are name, bf16_layers"),
    ({"preset": "ufp4", "name": "nvfp4"}, ".name", "nvfp4", "the name of a preset"),
    ({"preset": "bf16", "bf16_first": 0.5}, "", '{"preset": "bf16", "bf16_first": 0.5}',
     "bf16 quantizes nothing, so nothing of it can be exempt"),
    ({"preset": "bf16", "gemm": "bf16"}, "", '{"preset": "bf16", "gemm": "bf16"}',
     "gemm = bf16 is about quantized GEMMs, and none is quantized"),
    ({"preset": "fp16", "gemm": "tf32"}, "", '{"preset": "fp16", "gemm": "tf32"}',
     "gemm = tf32 is about quantized GEMMs, and none is quantized"),
    ({"fprop": {"x": X}}, ".name", "", "is required"),
    ({"name": "a", "fprop": {}}, "", '{"name": "a", "fprop": {}}', "that is the preset bf16"),
    ({"name": "a", "dgrad": {}, "carrier": "fp16"}, "",
     '{"name": "a", "dgrad": {}, "carrier": "fp16"}', "that is the preset fp16"),
    (full(fprop=3), ".fprop", "3", "must be a mapping of keys to values"),
    (full(dgrad={"x": X}), ".dgrad.x", '{"format": "e2m1"}', "the keys here are dy, w, rht"),
    (full(fprop={"x": X | {"rht": 16}}), ".fprop.x.rht", "16", "belongs to a GEMM, whose two"),
    (full(fprop={"x": X | {"blok": 16}}), ".fprop.x.blok", "16", "did you mean 'block'"),
    (full(fprop={"x": X | {"format": {"name": "m", "magnitudes": [0, 1], "magnitude": 1}}}),
     ".fprop.x.format.magnitude", "1", "did you mean 'magnitudes'"),
    (full(fprop={"rht": {}}), ".fprop", '{"rht": {}}', "rht needs a quantized operand"),
    (full(fprop={"x": X, "rht": {"siz": 3}}), ".fprop.rht.siz", "3", "did you mean 'size'"),
    (full(fprop={"x": X, "rht": 16}), ".fprop.rht", "16", "must be a mapping of keys to values"),
    (full(fprop={"x": X | {"rounding": "rne"}}), ".fprop.x.rounding", "rne",
     "must be 'rtne', 'sr' or 'eden'"),
    (full(fprop={"x": X | {"random_bits": 16}}), ".fprop.x.random_bits", "16",
     "rounding is rtne, which draws nothing"),
    (full(fprop={"x": X | {"scale_maximum": 256}}), ".fprop.x.scale_maximum", "256",
     "belongs to e4m3 scales; scale is fp32"),
    (full(fprop={"x": X | {"outer": 128}}), ".fprop.x", '{"format": "e2m1", "outer": 128}',
     "outer = 128 must be a multiple of the block 1x16, under an e4m3 scale"),
    (full(fprop={"x": X | {"alternate": 6}}), ".fprop.x", '{"format": "e2m1", "alternate": 6}',
     "alternate = 6.0 must lie between 0 and the grid's maximum"),
    (full(fprop={"x": X | {"rounding": "eden", "block": "16x16"}}), ".fprop.x",
     '{"format": "e2m1", "rounding": "eden", "block": "16x16"}', "eden needs blocks of one row"),
    (full(fprop={"x": X | {"source": "forward"}}), "",
     '{"name": "mine", "fprop": {"x": {"format": "e2m1", "source": "forward"}}}',
     "fprop's x cannot be quantized from its forward values"),
    (full(gemm="int8"), ".gemm", "int8", "must be 'fp32', 'tf32' or 'bf16'"),
    (full(fprop={"x": X, "gemm": "bf16"}), ".fprop.gemm", "bf16", "is one for all GEMMs"),
    ({"name": "a", "fprop": {}, "gemm": "bf16"}, "",
     '{"name": "a", "fprop": {}, "gemm": "bf16"}', "and none is quantized"),
    (full(carrier="fp32"), ".carrier", "fp32", "must be 'bf16' or 'fp16'"),
]  # fmt: skip

ELSEWHERE = [
    # top-level changes, key, value, words
    ({"recipes": []}, "recipes", "", "needs at least one recipe, or a grid"),
    ({"recipes": "bf16"}, "recipes", "bf16", "must be a list"),
    ({"recipes": ["ufp4", {"format": "int4", "rht": ["wgrad", "fprop", "dgrad"], "sr": ["dy"]}]},
     "recipes[1]", "int4-rht.fprop.dgrad.wgrad-sr.dy", "is the same as recipes[0]"),
    ({"recipes": [OWN, {"preset": "ufp4", "name": "int4-rht.wgrad"}]}, "recipes[1].name",
     "int4-rht.wgrad", "names recipes[0] as well"),
    ({"grid": {"format": ["int4", "e1m2"]}}, "grid.format[1]", "e1m2", "same as grid.format[0]"),
    ({"grid": {"format": ["bf16"]}}, "grid.format[0]", "bf16", "is a recipe by itself"),
    ({"grid": {"format": ["int4"], "rht": [[], ["wgrad"], ["wgrad"]]}}, "grid.rht[2]",
     '["wgrad"]', "is the same as grid.rht[1]"),
    ({"grid": {"format": ["int4"], "sr": [["dy"], "x"]}}, "grid.sr[1]", "x", "must be a list"),
    ({"grid": {"format": ["int4"], "scale": ["e4m3", "e4m3"]}}, "grid.scale[1]", "e4m3",
     "is the same as grid.scale[0]"),
    ({"grid": {"format": ["int4"], "block": [16, "1x16"]}}, "grid.block[1]", "1x16",
     "is the same as grid.block[0]"),
    ({"grid": {"format": ["int4"], "gemm": ["bf16", "bf16"]}}, "grid.gemm[1]", "bf16",
     "is the same as grid.gemm[0]"),
    ({"grid": {"format": ["int4"], "gemm": ["bf61"]}}, "grid.gemm[0]", "bf61",
     "must be 'fp32', 'tf32' or 'bf16'"),
    ({"grid": {"format": ["int4"], "gemm": "bf16"}}, "grid.gemm", "bf16", "must be a list"),
    ({"grid": {"format": ["int4"], "block": [48], "rht": [["wgrad"]], "rht_size": [32]}}, "grid",
     '{"format": ["int4"], "block": [48], "rht": [["wgrad"]], "rht_size": [32]}',
     "holds a combination that cannot be: rht size 32 and the block of 48"),
    ({"diagnostics": {"every": 0}}, "diagnostics.every", "0", "must be at least 1"),
    ({"diagnostics": {"layers": ["*"]}}, "diagnostics.every", "", "is required"),
    ({"diagnostics": {"every": 5, "layer": []}}, "diagnostics.layer", "[]", "mean 'layers'"),
    ({"diagnostics": {"every": 5, "layers": []}}, "diagnostics.layers", "[]", "at least 1"),
    ({"diagnostics": {"every": 5, "layers": ["block.*"]}}, "diagnostics.layers", "block.*",
     "matches no layer"),
]  # fmt: skip

MISTAKES = ELSEWHERE + [
    ({"recipes": [entry]}, f"recipes[0]{key}", value, words) for entry, key, value, words in LISTED
]


@pytest.mark.parametrize(("changes", "key", "value", "words"), MISTAKES)
def test_one_mistake_in_a_recipe_is_one_problem_with_key_and_value(changes, key, value, words):
    with pytest.raises(SpecError) as caught:
        parse_spec(mapping() | changes)
    assert len(caught.value.problems) == 1, caught.value
    problem = caught.value.problems[0]
    shown = value if len(value) <= 80 else f"{value[:77]}..."
    assert (problem.key, problem.value) == (key, shown)
    assert words in problem.message
    assert "\n" not in str(problem)
