"""What numerics figures are drawn from: recipes, and what each does to the layers of a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.formats import Grid
from kernels.quality import LayerQuality
from kernels.recipes import Recipe

BEFORE, AFTER = "before the RHT", "after the RHT"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRecipe:
    """A recipe and the quality of each layer under it, in the order of the model."""

    recipe: Recipe
    layers: tuple[LayerQuality, ...]


def grids_of(measured: Sequence[MeasuredRecipe]) -> tuple[Grid, ...]:
    """The distinct grids of all operands, in the order in which they appear."""
    operands = [operand for one in measured for _, _, operand in one.recipe.operands()]
    grids = (operand.grid for operand in operands if operand.grid is not None)
    return tuple(dict.fromkeys(grids))
