"""The numerics page describes the recipes that exist, at the version that exists."""

from pathlib import Path

import pytest

from kernels.recipes import GEMMS, NUMERICS_VERSION, PRESETS, Gemm, Operand, Recipe

PAGE = Path(__file__).parents[2].joinpath("docs", "numerics.md").read_text(encoding="utf-8")
WORDS = {"fprop": ("x", "w"), "dgrad": ("dy", "w"), "wgrad": ("dy", "x")}


def section(name: str) -> str:
    return PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def cell(word: str, operand: Operand) -> str:
    assert operand.grid is not None
    grid, rounding = operand.grid.name.upper(), operand.rounding.upper()
    return f"{word}: {grid}, 1×{operand.block}, {operand.scale.upper()} scale, {rounding}"


def test_the_page_states_the_version() -> None:
    assert f"Numerics version {NUMERICS_VERSION}." in PAGE


@pytest.mark.parametrize("recipe", PRESETS.values(), ids=PRESETS)
def test_each_preset_has_a_section_with_its_operands(recipe: Recipe) -> None:
    text = section(recipe.name)
    assert text
    for name in GEMMS:
        gemm: Gemm = getattr(recipe, name)
        if gemm.is_quantized:
            left, right = map(cell, WORDS[name], (gemm.left, gemm.right))
            assert f"| {name} | {left} | {right} | {gemm.rht or 'none'} |" in text


def test_no_section_describes_a_preset_that_is_gone() -> None:
    described = PAGE.partition("# Recipes")[2].split("\n## ")[1:]
    assert [text.partition("\n")[0] for text in described] == list(PRESETS)
