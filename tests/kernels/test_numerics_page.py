"""The numerics page describes the recipes that exist, at the version that exists."""

import re
from fractions import Fraction
from pathlib import Path

import pytest
import torch
import yaml

from kernels.operands import Operand, Source
from kernels.presets import PRESETS
from kernels.recipes import GEMMS, NUMERICS_VERSION, Gemm, Recipe, Rht
from kernels.reference import fake_quantize
from sweeps.spec import parse_spec

PAGE = Path(__file__).parents[2].joinpath("docs", "numerics.md").read_text(encoding="utf-8")
RECIPES, _, WRITING = PAGE.partition("\n# Recipes\n")[2].partition("\n# Writing a recipe\n")
WORDS = {"fprop": ("x", "w"), "dgrad": ("dy", "w"), "wgrad": ("dy", "x")}


def section(name: str) -> str:
    return RECIPES.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def cell(word: str, operand: Operand) -> str:
    if operand.grid is None:
        return f"{word}: carrier"
    assert (operand.random_bits, operand.half_offset) == (8, True)
    block = str(operand.block).replace("x", "×") if operand.block.along else str(operand.block)
    unusual = {
        f"headroom {operand.headroom:g}": operand.headroom != 1,
        f"alternate {operand.alternate or 0:g}": operand.alternate is not None,
        f"scale_maximum {operand.scale_maximum:g}": operand.scale_maximum != 448,
        f"outer {operand.outer}": operand.outer is not None,
        f"source {operand.source}": operand.source is not Source.ORIGINAL,
    }
    said = [operand.grid.name.upper(), block, f"{operand.scale.upper()} scale"]
    said += [operand.rounding.upper(), *(words for words, holds in unusual.items() if holds)]
    return f"{word}: {', '.join(said)}"


def transform(rht: Rht | None) -> str:
    if rht is None:
        return "none"
    return f"{rht.size}, signs {rht.signs}" + (", to BF16" if rht.to_bf16 else "")


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_page_states_the_version() -> None:
    assert f"Numerics version {NUMERICS_VERSION}." in PAGE


@pytest.mark.parametrize("recipe", PRESETS.values(), ids=PRESETS)
def test_each_preset_has_a_section_with_its_operands(recipe: Recipe) -> None:
    expected = []
    for name in GEMMS:
        gemm: Gemm = getattr(recipe, name)
        left, right = map(cell, WORDS[name], (gemm.left, gemm.right))
        expected.append(f"| {name} | {left} | {right} | {transform(gemm.rht)} |")
    text = section(recipe.name)
    assert len(text) > 60
    assert rows(text)[2:] == (expected if recipe.is_quantized else [])


@pytest.mark.parametrize("recipe", PRESETS.values(), ids=PRESETS)
def test_each_section_says_what_is_exempt_and_what_is_padded(recipe: Recipe) -> None:
    text = section(recipe.name)
    assert recipe.rules == ()
    assert ("Tails are padded." in text) == recipe.pad
    exempt = text.partition("\nExempt: ")[2].partition(";")[0]
    shares = [Fraction(share) for share in re.findall(r"\d+/\d+", exempt)]
    assert [float(share) for share in shares] == [
        share for share in (recipe.exempt_first, recipe.exempt_last) if share
    ]


def test_each_section_but_those_of_our_own_names_its_paper() -> None:
    ours = {"bf16", "e4m3", "mxfp4"}
    assert {name for name in PRESETS if "arXiv " not in section(name)} == ours


def test_no_section_describes_a_preset_that_is_gone() -> None:
    described = RECIPES.split("\n## ")[1:]
    assert [text.partition("\n")[0] for text in described] == list(PRESETS)


def test_every_recipe_that_the_page_writes_out_is_one() -> None:
    written = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", WRITING, re.S)]
    entries = [entry for one in written if isinstance(one, list) for entry in one]
    (grid,) = (one["grid"] for one in written if isinstance(one, dict))
    spec = {
        "name": "page",
        "models": [{"layers": 4, "width": 128, "heads": 2, "mlp_width": 256}],
        "recipes": entries,
        "grid": grid,
        "budgets": ["1Mtok"],
        "train": {"context": 64, "batch": "1024tok", "warmup": "10ktok"},
    }
    assert len(entries) == 6
    assert len(parse_spec(spec).all_recipes()) == 6 + 16


def test_the_error_of_quartet2s_backward_operands_is_what_its_section_states() -> None:
    (stated,) = re.findall(r"is ([\d.]+) · 10⁻³; the paper", section("quartet2"))
    x = torch.randn(4096, 128, generator=torch.Generator().manual_seed(0))
    operand = PRESETS["quartet2"].dgrad.left
    error = (fake_quantize(x, operand, 7).dequantized() - x).square().mean()
    assert float(error) == pytest.approx(float(stated) * 1e-3, rel=0.01)
