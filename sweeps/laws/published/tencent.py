"""The floating-point law of Sun et al.: the gap by exponent bits, mantissa bits and block size.

    gap = (D^beta / N^alpha) log2(B) / (gamma (E + 1/2)^delta (M + 1/2)^nu)

It grows with D, so that beyond some D more tokens would raise the loss. Of a recipe it reads E, M
and B of the forward operands, which must agree. Its runs had scales in high precision and no
rotation of the operands.

Source: Sun et al. 2025 (Tencent, arXiv 2501.02423), 366 runs of 41M to 1.2B parameters.
"""

from math import log2

from kernels.recipes import Recipe
from sweeps.laws.law import Array
from sweeps.laws.published.operands import split

NAME = "Sun et al. 2025 (Tencent)"

N_RANGE = (41e6, 1.2e9)
D_RANGE = (10e9, 100e9)
"""What its runs had; beyond, the law is asked for more than it was fitted to."""

ALPHA, BETA = 0.2368, 0.5162
GAMMA, DELTA, NU = 11334.5197, 3.1926, 2.9543


def scale(exponent: int, mantissa: int, block: int) -> float:
    """The gap over D^beta / N^alpha."""
    value: float = log2(block) / (GAMMA * (exponent + 0.5) ** DELTA * (mantissa + 0.5) ** NU)
    return value


def gap(recipe: Recipe, N: Array, D: Array) -> Array | str:
    """Predicted gap at each (N, D), nats per token, or why the law says nothing of the recipe."""
    x, w = recipe.fprop.left, recipe.fprop.right
    if x.grid is None or w.grid is None:
        return "the law is of two quantized forward operands"
    if split(x.grid) != split(w.grid) or x.block.along != w.block.along:
        return "its forward operands differ in exponent, mantissa or block, the law has one of each"
    if x.block.along is None:
        return "the law needs a block of a known size"
    return scale(*split(x.grid), x.block.along) * D**BETA / N**ALPHA
