"""What a recipe can say but seldom means: a sentence each, with what would end it.

    clipping    SR under a scale that lets elements lie beyond the grid's maximum, which is a bias
    rounding    a precision of the GEMMs that has fewer bits than their operands need

docs/numerics.md has the reasons.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Carrier, Gemm, Precision, Recipe


def warnings_of(recipe: Recipe) -> tuple[str, ...]:
    """The sentences about a recipe."""
    return (*_clipping(recipe), *_rounding(recipe))


def _clipping(recipe: Recipe) -> Iterator[str]:
    clipped: dict[tuple[str, Operand], list[str]] = {}
    for gemm, word, operand in recipe.operands():
        if operand.grid is not None and operand.rounding is Rounding.SR and operand.reach > 1:
            clipped.setdefault((word, operand), []).append(gemm)
    for (word, operand), gemms in clipped.items():
        yield (
            f"recipe {recipe.name} rounds {word} ({', '.join(gemms)}) stochastically under scale "
            f"{operand.scale}, where elements reach {_above(operand.reach)} times the grid's "
            "maximum and are clipped, which is a bias; headroom "
            f"{_above(operand.reach * operand.headroom)} removes it"
        )


def _above(ratio: float) -> str:
    """The ratio to four decimals, not below it, so that what is written suffices."""
    return f"{ceil(ratio * 10_000) / 10_000:g}"


def _rounding(recipe: Recipe) -> Iterator[str]:
    rounded: dict[str, list[str]] = {}
    operands = []
    for name, word, operand in recipe.operands():
        gemm: Gemm = getattr(recipe, name)
        if gemm.is_quantized and not _is_exact(operand, recipe.carrier, recipe.gemm):
            rounded.setdefault(word, []).append(name)
            operands.append(operand)
    if operands:
        said = ", ".join(f"{word} ({', '.join(gemms)})" for word, gemms in rounded.items())
        yield (
            f"recipe {recipe.name} multiplies in {recipe.gemm}, but the values of {said} need more "
            f"bits and are rounded once more; {' or '.join(_exact(operands, recipe))} avoids it"
        )


def _exact(operands: Sequence[Operand], recipe: Recipe) -> Iterator[str]:
    """What would leave these operands as they are."""
    shorter = [
        replace(operand, scale=Scale.FP32_5BIT)
        for operand in operands
        if operand.scale is Scale.FP32 and operand.rounding is not Rounding.EDEN and operand.grid
    ]
    all_shorter = len(shorter) == len(operands)
    if all_shorter and all(_is_exact(one, recipe.carrier, recipe.gemm) for one in shorter):
        yield f"scale {Scale.FP32_5BIT}"
    for precision in (Precision.TF32, Precision.FP32):
        if all(_is_exact(operand, recipe.carrier, precision) for operand in operands):
            yield f"gemm {precision}"


def _is_exact(operand: Operand, carrier: Carrier, precision: Precision) -> bool:
    """Whether a precision has the bits of an operand's values, but for the ends of its range."""
    carried = operand.grid is None
    needed = carrier.significand_bits if carried else operand.significand_bits
    return needed <= precision.significand_bits
