"""The numbers of an operand's arithmetic, in the form that compiled kernels take.

    v = RHT(x); s = scale of amax; y = round(v / s) * s        docs/numerics.md

Both the C kernel and the Triton kernels are written in terms of these: neither knows a format by
name.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf, log2, sqrt

import numpy as np

from kernels.formats import Grid
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Precision
from kernels.rounding import Floating, Uniform, rule_of, table_of

KEEP, TO_INTEGERS, TO_FLOATS, TO_TABLE = range(4)
"""Rules of rounding: not at all, steps of 1, steps by the exponent, any grid by its table."""
RTNE, SR, EDEN = range(3)
FP32, FP32_5BIT, E8M0, E4M3 = range(4)
"""Kinds of scale."""

_ROUNDINGS = {Rounding.RTNE: RTNE, Rounding.SR: SR, Rounding.EDEN: EDEN}
_SCALES = {Scale.FP32: FP32, Scale.FP32_5BIT: FP32_5BIT, Scale.E4M3: E4M3}
_MANTISSA_BITS = 23
_BIAS = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """Integers, and floats that are FP32 numbers.

    Attributes:
        rht: Elements of a transform, or 0.
        to_bf16: Whether what is transformed is rounded to BF16.
        norm: 1 / sqrt(rht).
        rule: `KEEP`, `TO_INTEGERS`, `TO_FLOATS` or `TO_TABLE`.
        maximum: Of the grid.
        least_exponent: `TO_FLOATS`: of the subnormals, with FP32's bias.
        mantissa_bits: `TO_FLOATS`.
        rounding: `RTNE`, `SR` or `EDEN`.
        random_bits: Of a draw: 8, 16 or 24.
        offset: What is added to a draw.
        scale: `FP32`, `FP32_5BIT`, `E8M0` or `E4M3`.
        target: What a block's maximum becomes; under E4M3 the reciprocal of it.
        alternate: Whether a block has a second candidate for its scale.
        alternate_target: Its `target`.
        headroom: E8M0: what the scale is multiplied by for the elements.
        unit: E8M0: what amax is divided by first.
        exponent: E8M0: what k is less by.
        carry: E8M0: the least fraction of amax, in units of 2**-23, that rounds k up.
        numerator: E4M3: S = numerator / amax.
        dropped_bits: Low bits that the result leaves zero.
    """

    rht: int = 0
    to_bf16: bool = False
    norm: float = 1.0
    rule: int = KEEP
    maximum: float = 0.0
    least_exponent: int = 0
    mantissa_bits: int = 0
    rounding: int = RTNE
    random_bits: int = 8
    offset: float = 0.0
    scale: int = FP32
    target: float = 1.0
    alternate: bool = False
    alternate_target: float = 1.0
    headroom: float = 1.0
    unit: float = 1.0
    exponent: int = 0
    carry: int = 0
    numerator: float = 0.0
    dropped_bits: int = 0


@lru_cache(maxsize=4096)
def arithmetic_of(
    operand: Operand, rht: int, to_bf16: bool, precision: Precision = Precision.FP32
) -> Arithmetic:
    """The numbers of an operand under a transform of `rht` elements, 0 for none."""
    numbers: dict[str, float] = {"dropped_bits": precision.dropped_bits}
    if rht:
        numbers |= {"rht": rht, "to_bf16": to_bf16, "norm": 1 / sqrt(rht)}
    if operand.grid is not None:
        numbers |= _scale(operand, operand.grid) | _rounding(operand, operand.grid)
    floats = {name: _in_fp32(number) for name, number in numbers.items() if type(number) is float}
    return Arithmetic(**(numbers | floats))  # type: ignore[arg-type]


@lru_cache
def table(grid: Grid) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], int]:
    """Where RTNE and SR reach the next code, and the values of codes, padded for a bisection.

    Returns:
        2 half - 1 thresholds, 2 half - 1 magnitudes from code 1 on, 2 half + 1 magnitudes, and
        half, a power of two.
    """
    rule = table_of(grid)
    codes = len(rule.magnitudes)
    size = 1 << (codes - 1).bit_length()
    endless = (inf,) * (size - codes)
    return (
        rule.thresholds + endless,
        rule.magnitudes[1:] + endless,
        rule.magnitudes + rule.magnitudes[-1:] * (size + 1 - codes),
        size // 2,
    )


def _scale(operand: Operand, grid: Grid) -> dict[str, float]:
    numbers: dict[str, float] = {
        "scale": _SCALES.get(operand.scale, E8M0),
        "maximum": grid.maximum,
        "headroom": operand.headroom,
    }
    if operand.scale.is_power_of_two:
        is_rceil = operand.scale is Scale.E8M0_RCEIL
        return numbers | {
            "unit": grid.maximum if is_rceil else 1.0,
            "exponent": 0 if is_rceil else grid.exponent,
            "carry": _carry(operand.scale, grid),
        }
    is_e4m3 = operand.scale is Scale.E4M3
    numbers["target"] = 1 / operand.target if is_e4m3 else operand.target
    if is_e4m3:
        numbers["numerator"] = operand.scale_maximum * operand.target
    if operand.alternate is not None:
        target = operand.alternate / operand.headroom
        numbers |= {"alternate": True, "alternate_target": 1 / target if is_e4m3 else target}
    return numbers


def _carry(scale: Scale, grid: Grid) -> int:
    """The least fraction of amax, in units of 2**-23, that rounds its power of two up."""
    whole = 1 << _MANTISSA_BITS
    match scale:
        case Scale.E8M0_FLOOR:
            return whole
        case Scale.E8M0_EVEN:
            return whole - (whole >> grid.mantissa_bits + 1)
        case _:
            return 1


def _rounding(operand: Operand, grid: Grid) -> dict[str, float]:
    numbers: dict[str, float] = {
        "rounding": _ROUNDINGS[operand.rounding],
        "random_bits": operand.random_bits,
        "offset": 2.0**-operand.random_bits * (0.5 if operand.half_offset else 1.0),
    }
    match rule_of(grid):
        case Uniform(step=1.0):
            return numbers | {"rule": TO_INTEGERS}
        case Uniform(step=step) if step < 2.0**100:
            # One step throughout is that of the subnormals, with all magnitudes among them.
            mantissa_bits = len(grid.magnitudes).bit_length()
            least_exponent = int(log2(step)) + mantissa_bits + _BIAS
        case Floating() as rule:
            mantissa_bits, least_exponent = rule.mantissa_bits, rule.least_exponent + _BIAS
        case _:
            return numbers | {"rule": TO_TABLE}
    return numbers | {
        "rule": TO_FLOATS, "mantissa_bits": mantissa_bits, "least_exponent": least_exponent,
    }  # fmt: skip


def _in_fp32(number: float) -> float:
    # A target above the largest FP32 number is Inf, in the reference too.
    with np.errstate(over="ignore"):
        return float(np.float32(number))
