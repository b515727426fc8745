"""The cross product of a sweep spec: every combination of these settings is a recipe.

    format x rht x sr x scale x block x rht_size x gemm

A combination without an RHT is one recipe whatever the size of the matrix.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from pydantic import Field, ValidationError, model_validator

from kernels.blocks import BLOCK_1X16
from kernels.operands import Scale
from kernels.recipes import Precision, Recipe
from sweeps.checks import check_distinct, numbered
from sweeps.errors import Problem
from sweeps.meaning import meaning
from sweeps.operand_sections import BlockEntry, FormatEntry, RhtSize, grid_of
from sweeps.problems import shown
from sweeps.recipe_sections import Gemms, Operands, RecipeSection
from sweeps.sections import Section

MAX_RECIPES = 1024


class GridSection(Section):
    """Every combination of these becomes a recipe, beside those listed in `recipes`."""

    format: tuple[FormatEntry, ...] = Field(min_length=1, max_length=64)
    rht: tuple[Gemms, ...] = Field(default=((),), min_length=1, max_length=64)
    sr: tuple[Operands, ...] = Field(default=((),), min_length=1, max_length=64)
    scale: tuple[Scale, ...] = Field(default=(Scale.FP32,), min_length=1, max_length=64)
    block: tuple[BlockEntry, ...] = Field(
        default=(BLOCK_1X16,),
        min_length=1,
        max_length=64,
        json_schema_extra={"default": ["1x16"]},
    )
    rht_size: tuple[RhtSize, ...] = Field(default=(16,), min_length=1, max_length=64)
    gemm: tuple[Precision, ...] = Field(default=(Precision.FP32,), min_length=1, max_length=64)

    @model_validator(mode="after")
    def _can_be_written(self) -> "GridSection":
        made = prod(map(len, self._axes()))
        if made > MAX_RECIPES:
            raise ValueError(f"makes {made} recipes; at most {MAX_RECIPES} can be planned at once")
        self.recipes()
        return self

    def problems(self) -> Iterator[Problem]:
        """Values that stand twice on an axis; the order of GEMMs and of operands means nothing."""
        axes: dict[str, tuple[Hashable, ...]] = {
            "format": tuple(grid_of(entry).magnitudes for entry in self.format),
            "rht": tuple(frozenset(gemms) for gemms in self.rht),
            "sr": tuple(frozenset(operands) for operands in self.sr),
            "scale": self.scale,
            "block": self.block,
            "rht_size": self.rht_size,
            "gemm": self.gemm,
        }
        written = self.model_dump(mode="json")
        for axis, meanings in axes.items():
            texts = [shown(value) for value in written[axis]]
            yield from check_distinct(numbered(f"grid.{axis}", texts), meanings, texts)

    def recipes(self) -> tuple[Recipe, ...]:
        """The combinations, format outermost.

        Raises:
            ValueError: If one of them contradicts itself.
        """
        found: dict[Recipe, Recipe] = {}
        for format_, rht, sr, scale, block, size, gemm in product(*self._axes()):
            given = {"format": format_, "rht": rht, "sr": sr, "scale": scale, "block": block}
            given |= {"rht_size": size} if rht else {}
            given |= {} if gemm is Precision.FP32 else {"gemm": gemm}
            recipe = _written(given)
            found.setdefault(meaning(recipe), recipe)
        return tuple(found.values())

    def _axes(self) -> tuple[tuple[Any, ...], ...]:
        """The values of each setting, in the order of the module docstring."""
        return self.format, self.rht, self.sr, self.scale, self.block, self.rht_size, self.gemm


def _written(given: Mapping[str, object]) -> Recipe:
    try:
        return RecipeSection.model_validate(given).recipe()
    except ValidationError as error:
        reason = error.errors()[0]["ctx"]["error"]
        raise ValueError(f"holds a combination that cannot be: {reason}") from error
