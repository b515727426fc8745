"""A recipe as an operation of torch is told of it: by a number, with what a layer must know."""

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

import torch

from kernels.kept_operands import keeps_quantized_w
from kernels.layer_products import keeps_quantized_x
from kernels.matmul import CARRIERS
from kernels.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A recipe as a layer on a device asks for it.

    Attributes:
        number: Stands for the recipe among the arguments of an operation.
        carrier: The type of x, y, dx and dy.
        keeps_x: Whether forward keeps the quantized x for backward, instead of x.
        keeps_w: Whether it keeps the quantized w, instead of the weight.
        tokens: What their number is a multiple of where wgrad runs.
        is_plain: Whether it quantizes nothing.
    """

    number: int
    carrier: torch.dtype
    keeps_x: bool
    keeps_w: bool
    tokens: int
    is_plain: bool


_RECIPES: dict[int, Recipe] = {}


@cache
def followed(recipe: Recipe, device: torch.device) -> Followed:
    """Makes a recipe known to the operations.

    Its number is a digest of what it says: a compiled graph that is kept on disk names the same
    recipe in every process.
    """
    digest = blake2b(repr(recipe).encode(), digest_size=7).digest()
    number = int.from_bytes(digest, "little")
    _RECIPES[number] = recipe
    return Followed(
        number=number,
        carrier=CARRIERS[recipe.carrier],
        keeps_x=keeps_quantized_x(recipe, device),
        keeps_w=keeps_quantized_w(recipe),
        tokens=1 if recipe.pad else recipe.wgrad.block,
        is_plain=not recipe.is_quantized,
    )


def recipe_of(number: int) -> Recipe:
    """The recipe that `followed` gave a number."""
    return _RECIPES[number]
