"""How much of a training step a recipe quantizes, and how much faster that can make it.

    f       share of all FLOPs in GEMMs of which both operands are quantized, exemptions left out
    s       speed of such a GEMM over one in 16 bits: 16 / bits of the wider operand's codes
    bound   1 / ((1 - f) + f / s), summed over the GEMMs where s differs (Amdahl, AFIPS 1967)

The s of 2 for 8 bits and 4 for 4 bits are the ratios of dense peak rates of a B200's tensor cores
(NVIDIA Blackwell architecture brief: 2.25, 4.5 and 9 PFLOPS in BF16, FP8 and FP4). A GEMM with one
operand in 16 bits runs at their rate, whatever the other's. The bound is above what any machine
reaches: it takes the quantization and transforms themselves for free.
"""

from dataclasses import dataclass

from kernels.operands import Operand
from kernels.recipes import GEMMS, Gemm, Recipe
from sweeps.counts import Linear, flops_per_token, linear_layers
from sweeps.shapes import ModelShape

CARRIER_BITS = 16
CODE_BITS = (4, 8, CARRIER_BITS)
"""Widths of a tensor core's operands; a code is stored in the least that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """What a recipe can gain on a model.

    Attributes:
        share: f, over the three GEMMs of all layers.
        factors: s by GEMM, of those that are quantized.
        bound: Largest ratio of 16-bit time to the recipe's.
    """

    share: float
    factors: dict[str, float]
    bound: float


def speedup(shape: ModelShape, recipe: Recipe, *, vocab_size: int, context: int) -> Speedup:
    """The module's f, s and bound of one recipe on one model."""
    total = flops_per_token(shape, vocab_size=vocab_size, context=context)
    share = 2 * sum(one.active_weights for one in _quantized(shape, recipe)) / total
    gemms: dict[str, Gemm] = {name: getattr(recipe, name) for name in GEMMS}
    factors = {
        name: CARRIER_BITS / max(map(_bits, (gemm.left, gemm.right)))
        for name, gemm in gemms.items()
        if gemm.left.grid is not None and gemm.right.grid is not None
    }
    time = 1 - share * len(factors) + sum(share / factor for factor in factors.values())
    return Speedup(share=share * len(factors), factors=factors, bound=1 / time)


def quantized_elements_per_token(shape: ModelShape, recipe: Recipe, *, tokens: int) -> float:
    """Elements that a microbatch of so many tokens rounds or transforms, per token.

    Each operand with a grid counts once for rounding, and both of a GEMM once more where it has an
    RHT; weights are shared by the tokens, those of experts that nobody chose among them.
    """
    elements = 0.0
    for layer in _quantized(shape, recipe):
        x, dy = float(layer.in_features * layer.active), float(layer.out_features * layer.active)
        w = layer.weights / tokens
        for gemm, sizes in (
            (recipe.fprop, (x, w)),
            (recipe.dgrad, (dy, w)),
            (recipe.wgrad, (dy, x)),
        ):
            elements += sum(map(_rounded, (gemm.left, gemm.right), sizes))
            elements += 0.0 if gemm.rht is None else sum(sizes)
    return elements


def _quantized(shape: ModelShape, recipe: Recipe) -> list[Linear]:
    if not recipe.is_quantized:
        return []
    layers = linear_layers(shape)
    return [layer for layer in layers if recipe.quantizes(layer.name, shape.num_layers)]


def _rounded(operand: Operand, size: float) -> float:
    return 0.0 if operand.grid is None else size


def _bits(operand: Operand) -> int:
    assert operand.grid is not None
    codes = 2 * len(operand.grid.magnitudes) - 1
    return next((bits for bits in CODE_BITS if codes <= 2**bits), CARRIER_BITS)
