"""Which quantized weights of a forward pass its backward pass multiplies again.

They are kept between the two, in place of the weight, and cost memory: what a recipe says of it is
here, without torch, so that a plan knows it too.
"""

from kernels.operands import Rounding, Source
from kernels.recipes import Recipe


def keeps_quantized_w(recipe: Recipe) -> bool:
    """Whether w as fprop multiplied it is kept for dgrad, instead of the weight."""
    forward = recipe.dgrad.right.source is Source.FORWARD and recipe.dgrad.is_quantized
    return forward or shares_w(recipe)


def shares_w(recipe: Recipe) -> bool:
    """Whether dgrad multiplies the same w as fprop.

    It does where one rule rounds square blocks to nearest in both GEMMs, without a transform: an
    element then has the same block, and so the same value, whichever axis is contracted.
    """
    w = recipe.fprop.right
    is_square = w.grid is not None and w.block.along == w.block.across
    is_still = recipe.fprop.rht is None and recipe.dgrad.rht is None
    return w == recipe.dgrad.right and is_square and is_still and w.rounding is Rounding.RTNE
