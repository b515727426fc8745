"""The law of quantization-aware training of Chen et al.: how a gap moves with N, D and the block.

    gap = k D^gD (log2 G)^gG / N^gN        k, gD, gG, gN > 0; G: elements to a scale

The form is known here and its constants are not, so it predicts signs: the gap falls with N and
rises with D. It is of the forward operands in 4 bits.

Source: Chen et al. 2025 (ByteDance, arXiv 2505.14302), 268 runs of 74M to 973M parameters.
"""

from kernels.recipes import Recipe
from sweeps.laws.published.operands import bits

NAME = "Chen et al. 2025 (ByteDance)"
SIGN_OF_N = -1
SIGN_OF_D = +1
BITS = 4


def silence(recipe: Recipe) -> str:
    """Why the law says nothing of the recipe; empty if it does."""
    widths = {bits(operand.grid) for operand in (recipe.fprop.left, recipe.fprop.right)}
    return "" if BITS in widths else "the law is of forward operands in 4 bits"
