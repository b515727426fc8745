"""The unified law of compressed representations: a format counts by its error on a Gaussian.

    L   = A / (N rho)^alpha + B / D^beta + E
    rho = product over the forward operands of L0 tanh(F log_{1/4} GMSE)^C

F and C were not published, so the law predicts an order and no size: of two recipes, the one with
the larger product of log_{1/4} GMSE over its forward operands has the smaller gap. It says that a
rotation, which leaves a Gaussian as it is, changes nothing.

Source: Panferov et al. 2025 (arXiv 2506.01863), runs of 30M to 200M parameters.
"""

from math import log, prod

from kernels.operands import Operand
from kernels.recipes import Recipe
from sweeps.laws.published.operands import bits, gaussian_mse

NAME = "Panferov et al. 2025"
MOST_BITS = 8
"""A wider grid loses nothing that a gap could show."""


def capacity(recipe: Recipe) -> float | str:
    """What the order follows, larger being better, or why the law says nothing of the recipe."""
    operands = [
        operand
        for operand in (recipe.fprop.left, recipe.fprop.right)
        if operand.grid is not None and bits(operand.grid) <= MOST_BITS
    ]
    if not operands:
        return "the law is of forward operands, and none is quantized to 8 bits or fewer"
    blocks = [operand.block.along for operand in operands]
    if any(along is None for along in blocks):
        return "the law needs a block of a known size"
    return prod(_capacity(operand) for operand in operands)


def _capacity(operand: Operand) -> float:
    assert operand.grid is not None
    assert operand.block.along is not None
    elements = operand.block.along * (operand.block.across or 1)
    return -log(gaussian_mse(operand.grid, elements)) / log(4)
