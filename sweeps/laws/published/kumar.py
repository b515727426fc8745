"""The precision law of Kumar et al.: training in few bits leaves a smaller effective model.

    L     = A N_eff^-alpha + B D^-beta + E
    N_eff = N prod over w, x, kv of (1 - exp(-P / gamma + n))        P: bits of the forward operand
    gap   = A N^-alpha (f^-alpha - f16^-alpha)                       f = N_eff / N, f16: at 16 bits

Of a recipe it reads the bits of fprop's operands alone; the cache of keys and values stays in 16
bits. Activations had one scale for a whole tensor, so that the law is pessimistic for blocks. The
offset n is read as raising the loss of precision, which alone makes the law as sensitive to 4 and 5
bits as its authors report.

Source: Kumar et al. 2024 (arXiv 2411.04330), 465 runs of 30M to 220M parameters; constants of the
version with offsets, appendix K.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from kernels.recipes import Recipe
from sweeps.laws.law import Array
from sweeps.laws.published.operands import CARRIER_BITS, bits

NAME = "Kumar et al. 2024"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """gamma and n of one kind of operand."""

    gamma: float
    offset: float

    def kept(self, code_bits: int) -> float:
        """Share of the parameters that so many bits leave."""
        return 1 - exp(-code_bits / self.gamma + self.offset)


N_RANGE = (30e6, 220e6)
D_RANGE = (1.5e9, 26e9)
"""What its runs had; beyond, the law is asked for more than it was fitted to."""

A = 4299.0
ALPHA = 0.4965
WEIGHTS = Sensitivity(2.6745, 0.3037)
ACTIVATIONS = Sensitivity(2.2102, 1.4072)
CACHE = Sensitivity(0.9578, 2.4185)


def effective_share(recipe: Recipe) -> float:
    """Share f of the recipe's forward operands."""
    x, w = recipe.fprop.left.grid, recipe.fprop.right.grid
    return (
        WEIGHTS.kept(bits(w)) * ACTIVATIONS.kept(bits(x)) * CACHE.kept(CARRIER_BITS)
    )  # fmt: skip


def gap(recipe: Recipe, N: Array, D: Array) -> Array | str:
    """Predicted gap at each (N, D), nats per token, or why the law says nothing of the recipe."""
    if recipe.fprop.left.grid is None and recipe.fprop.right.grid is None:
        return "the law is of forward operands, and none is quantized"
    share = effective_share(recipe)
    if share <= 0:
        return "so few bits leave no effective parameter"
    full = WEIGHTS.kept(CARRIER_BITS) * ACTIVATIONS.kept(CARRIER_BITS) * CACHE.kept(CARRIER_BITS)
    value: Array = A * N**-ALPHA * (share**-ALPHA - full**-ALPHA) * np.ones_like(D)
    return value
