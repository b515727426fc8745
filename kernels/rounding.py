"""Rounding of scaled elements onto a grid.

    RTNE   the nearest value, a tie to the even code; the sign is kept, also of zero
    SR     |q| between neighbours lo <= |q| < hi goes to hi if |q| - lo >= u (hi - lo), else to lo

for u uniform in (0, 1). A magnitude above the maximum becomes the maximum.

Two formulations that give the same bits. Any grid: a table, where the code of q is the number of
thresholds that |q| reaches. Grids whose steps are powers of two, either one step throughout or a
step that doubles each 2**m codes after the first 2**(m + 1): arithmetic, in which q / step, the
comparison with u and the product with the step are exact. There a q above the maximum by one unit
in the last place, which is what an absmax scale can give, rounds to the maximum by itself.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, ldexp, log2
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from kernels.formats import Grid

_EXPONENT = 0x7F800000
_MANTISSA_BITS = 23
_BIAS = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """0, step, 2 step, ... with a power of two as the step."""

    step: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Floating:
    """n * step, the step doubling with the exponent from 2**least_exponent on.

    Ties to the even multiple are ties to the even code, since there is a mantissa bit at least.
    """

    least_exponent: int
    mantissa_bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Any grid, in FP32: entry k of `thresholds` is the least number that rounds to code k + 1."""

    magnitudes: tuple[float, ...]
    thresholds: tuple[float, ...]


Rule = Uniform | Floating | Table


def round_nearest_(q: Tensor, scratch: Tensor, grid: Grid) -> Tensor:
    """RTNE, in place.

    Args:
        q: FP32, contiguous, of magnitude at most one ulp above the grid's maximum; or NaN.
        scratch: Of the same shape and type; overwritten.
        grid: The values to round to.

    Returns:
        q. NaN stays NaN in arithmetic rules; the table gives it the maximum.
    """
    match rule_of(grid):
        case Uniform(step=step):
            return q.mul_(1 / step).round_().mul_(step) if step != 1 else q.round_()
        case Floating() as rule:
            steps = _steps(q, scratch, rule)
            return q.div_(steps).round_().mul_(steps)
        case Table() as rule:
            magnitudes, thresholds = _tensors(rule, q.device)
            code = torch.bucketize(torch.abs(q, out=scratch), thresholds, right=True)
            return torch.copysign(magnitudes[code], q, out=q)
        case never:
            assert_never(never)


def round_stochastic_(size: Tensor, u: Tensor, scratch: Tensor, grid: Grid) -> Tensor:
    """SR of magnitudes, in place.

    Args:
        size: |q|, FP32, contiguous, at most one ulp above the grid's maximum; or NaN.
        u: The draws, in (0, 1), multiples of 2**-9; of the same shape.
        scratch: Of the same shape and type; overwritten.
        grid: The values to round to.

    Returns:
        size. NaN stays NaN in arithmetic rules; the table gives it the maximum.
    """
    match rule_of(grid):
        case Uniform(step=step):
            scaled = size.mul_(1 / step) if step != 1 else size
            # size - u is exact wherever its floor is in doubt; size + (1 - u) would not be.
            scaled.sub_(u).floor_().add_(1)
            return scaled.mul_(step) if step != 1 else scaled
        case Floating() as rule:
            steps = _steps(size, scratch, rule)
            return size.div_(steps).sub_(u).floor_().add_(1).mul_(steps)
        case Table() as rule:
            magnitudes, _ = _tensors(rule, size.device)
            widths = torch.cat((magnitudes.diff(), magnitudes.new_full((1,), inf)))
            code = torch.bucketize(size, magnitudes[1:].contiguous(), right=True)
            upward = size - magnitudes[code] >= widths[code] * u
            return size.copy_(magnitudes[(code + upward).clamp_(max=len(magnitudes) - 1)])
        case never:
            assert_never(never)


@lru_cache
def rule_of(grid: Grid) -> Rule:
    """The arithmetic of a grid's magnitudes where they follow one, else its table."""
    values = _in_fp32(grid)
    step = values[1]
    # Above 2**15 levels a draw of 9 bits would no longer be exact beside the scaled element.
    exact = log2(step).is_integer() and step >= 2.0**-100 and len(values) <= 2**15
    if exact and values == tuple(step * code for code in range(len(values))):
        return Uniform(step=step)
    if exact:
        doubling = next(code for code, value in enumerate(values) if value != step * code) - 1
        mantissa_bits = int(log2(doubling)) - 1
        rule = Floating(least_exponent=int(log2(step)) + mantissa_bits, mantissa_bits=mantissa_bits)
        if mantissa_bits >= 1 and values == _values(rule, len(values)):
            return rule
    return table_of(grid)


def table_of(grid: Grid) -> Table:
    """The table of any grid, whether or not its magnitudes follow an arithmetic rule."""
    values = _in_fp32(grid)
    thresholds = tuple(_threshold(code, values) for code in range(1, len(values)))
    return Table(magnitudes=values, thresholds=thresholds)


def _in_fp32(grid: Grid) -> tuple[float, ...]:
    return tuple(float(np.float32(magnitude)) for magnitude in grid.magnitudes)


def _values(rule: Floating, count: int) -> tuple[float, ...]:
    def value(code: int) -> float:
        exponent, mantissa = divmod(code, 2**rule.mantissa_bits)
        significand = mantissa if exponent == 0 else mantissa + 2**rule.mantissa_bits
        shift = rule.least_exponent - rule.mantissa_bits + max(0, exponent - 1)
        return ldexp(significand, shift)

    return tuple(value(code) for code in range(count))


def _threshold(code: int, values: tuple[float, ...]) -> float:
    """The least FP32 number that is nearer to this code than to the one below, ties to even."""
    middle = (Fraction(values[code - 1]) + Fraction(values[code])) / 2
    nearest = np.float32(float(middle))
    exact = Fraction(float(nearest))
    if exact < middle or (exact == middle and code % 2):
        nearest = np.nextafter(nearest, np.float32(inf))
    return float(nearest)


def _steps(q: Tensor, scratch: Tensor, rule: Floating) -> Tensor:
    """The distance of grid values around each q, read from its exponent field."""
    bits = scratch.view(torch.int32)
    torch.bitwise_and(q.view(torch.int32), _EXPONENT, out=bits)
    bits.clamp_min_((rule.least_exponent + _BIAS) << _MANTISSA_BITS)
    bits.sub_(rule.mantissa_bits << _MANTISSA_BITS)
    return scratch


@lru_cache
def _tensors(rule: Table, device: torch.device) -> tuple[Tensor, Tensor]:
    magnitudes = torch.tensor(rule.magnitudes, dtype=torch.float32, device=device)
    return magnitudes, torch.tensor(rule.thresholds, dtype=torch.float32, device=device)
