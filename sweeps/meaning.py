"""What a recipe means, whatever it and its grids are called: equal where a run's identity is."""

from dataclasses import replace
from functools import lru_cache

from kernels.formats import Grid
from kernels.operands import Operand
from kernels.recipes import Gemm, Recipe


def meaning(recipe: Recipe) -> Recipe:
    """The recipe without the names of itself and of its grids."""
    fprop, dgrad, wgrad = map(_unnamed_gemm, (recipe.fprop, recipe.dgrad, recipe.wgrad))
    return replace(recipe, name="", fprop=fprop, dgrad=dgrad, wgrad=wgrad)


def _unnamed_gemm(gemm: Gemm) -> Gemm:
    return replace(gemm, left=_unnamed_operand(gemm.left), right=_unnamed_operand(gemm.right))


def _unnamed_operand(operand: Operand) -> Operand:
    return operand if operand.grid is None else replace(operand, grid=_unnamed_grid(operand.grid))


@lru_cache(maxsize=1024)
def _unnamed_grid(grid: Grid) -> Grid:
    return replace(grid, name="")
