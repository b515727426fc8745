"""Rounding of scaled elements onto a grid.

    RTNE   the nearest value, a tie to the even code; the sign is kept, also of zero
    SR     of neighbours lo <= |q| < hi, hi if (|q| - lo) / (hi - lo) >= u, else lo

for u in (0, 1]. A magnitude above the maximum becomes the maximum.

Two formulations that give the same bits. Any grid: a table, where the code of q is the number of
thresholds that |q| reaches. Grids whose steps are powers of two, either one step throughout or a
step that doubles each 2**m codes after the first 2**(m + 1): arithmetic, in which q / step, its
floor, the difference of the two and the product with the step are exact.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import inf, ldexp, log2
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
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
        q: FP32, contiguous.
        scratch: Of the same shape and type; overwritten.
        grid: The values to round to.

    Returns:
        q. NaN stays NaN in arithmetic rules; the table gives it the maximum.
    """
    maximum = largest(grid)
    q.clamp_(-maximum, maximum)
    match rule_of(grid):
        case Uniform(step=step):
            return q.mul_(1 / step).round_().mul_(step) if step != 1 else q.round_()
        case Floating() as rule:
            steps = _steps(q, scratch, rule)
            return q.div_(steps).round_().mul_(steps)
        case Table():
            magnitudes, thresholds, _ = _tensors(grid, q.device)
            code = torch.bucketize(torch.abs(q, out=scratch), thresholds, right=True)
            return torch.copysign(magnitudes[code], q, out=q)
        case never:
            assert_never(never)


def round_stochastic_(size: Tensor, u: Tensor, scratch: Tensor, grid: Grid) -> Tensor:
    """SR of magnitudes, in place.

    Args:
        size: |q|, FP32, contiguous.
        u: The draws, in (0, 1]; of the same shape.
        scratch: Of the same shape and type; overwritten.
        grid: The values to round to.

    Returns:
        size. NaN stays NaN in arithmetic rules; the table gives it the maximum.
    """
    size.clamp_(max=largest(grid))
    match rule_of(grid):
        case Uniform(step=step):
            if step == 1:
                return _round_up_or_down_(size, u, scratch)
            return _round_up_or_down_(size.mul_(1 / step), u, scratch).mul_(step)
        case Floating() as rule:
            steps = _steps(size, scratch, rule)
            return _round_up_or_down_(size.div_(steps), u, torch.empty_like(size)).mul_(steps)
        case Table():
            magnitudes, _, widths = _tensors(grid, size.device)
            code = torch.bucketize(size, magnitudes[1:], right=True)
            upward = (size - magnitudes[code]) / widths[code] >= u
            return size.copy_(magnitudes[code + upward])
        case never:
            assert_never(never)


def round_significand(x: Tensor, dropped_bits: int) -> Tensor:
    """FP32 numbers without their low bits: to nearest, ties to even, overflow to Inf, NaN stays.

    Args:
        x: FP32.
        dropped_bits: 13 leaves TF32, 16 leaves BF16, 0 leaves x.
    """
    if not dropped_bits:
        return x
    bits = x.view(torch.int32)
    odd = (bits >> dropped_bits) & 1
    rounded = (bits + ((1 << (dropped_bits - 1)) - 1) + odd) & -(1 << dropped_bits)
    return torch.where(x.isnan(), x, rounded.view(torch.float32))


def largest(grid: Grid) -> float:
    """The grid's maximum as an FP32 number."""
    return float(np.float32(grid.maximum))


@lru_cache
def rule_of(grid: Grid) -> Rule:
    """The arithmetic of a grid's magnitudes where they follow one, else its table."""
    values = tuple(in_fp32(grid).tolist())
    step = values[1]
    # The steps of a floating grid are put together of the exponents of normal numbers.
    exact = log2(step).is_integer() and step >= 2.0**-100
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
    values = in_fp32(grid)
    return Table(magnitudes=tuple(values.tolist()), thresholds=tuple(_thresholds(values).tolist()))


def in_fp32(grid: Grid) -> NDArray[np.float32]:
    """The magnitudes of a grid, each rounded to FP32."""
    return np.array(grid.magnitudes, dtype=np.float64).astype(np.float32)


def _round_up_or_down_(size: Tensor, u: Tensor, scratch: Tensor) -> Tensor:
    """SR of magnitudes to integers, in place: floor, and one more where the rest reaches u.

    A difference of two numbers has the sign of their comparison, rounded or not, and this one lies
    within -1 and 1: its floor is -1 or 0. A comparison would be slower.
    """
    floor = torch.floor(size, out=scratch)
    return size.sub_(floor).sub_(u).floor_().add_(floor).add_(1)


def _values(rule: Floating, count: int) -> tuple[float, ...]:
    def value(code: int) -> float:
        exponent, mantissa = divmod(code, 2**rule.mantissa_bits)
        significand = mantissa if exponent == 0 else mantissa + 2**rule.mantissa_bits
        shift = rule.least_exponent - rule.mantissa_bits + max(0, exponent - 1)
        return ldexp(significand, shift)

    return tuple(value(code) for code in range(count))


def _thresholds(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each code from 1 on, the least FP32 number that rounds to it: a tie if it is even.

    a + b of two magnitudes may round in binary64; what it lost, also exact, decides a comparison
    that is otherwise equal.
    """
    a, b = values[:-1].astype(np.float64), values[1:].astype(np.float64)
    total = a + b
    lost = a - (total - b)
    nearest = (total / 2).astype(np.float32)
    twice = 2 * nearest.astype(np.float64)
    code = np.arange(1, len(values))
    tie = (twice == total) & (lost == 0)
    below = (twice < total) | ((twice == total) & (lost > 0))
    above = np.nextafter(nearest, np.float32(inf))
    return np.where(below | (tie & (code % 2 == 1)), above, nearest)


def _steps(q: Tensor, scratch: Tensor, rule: Floating) -> Tensor:
    """The distance of grid values around each q, read from its exponent field."""
    bits = scratch.view(torch.int32)
    torch.bitwise_and(q.view(torch.int32), _EXPONENT, out=bits)
    bits.clamp_min_((rule.least_exponent + _BIAS) << _MANTISSA_BITS)
    bits.sub_(rule.mantissa_bits << _MANTISSA_BITS)
    return scratch


@lru_cache
def _tensors(grid: Grid, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Magnitudes, the thresholds of RTNE and the width of the bin above each magnitude, in FP32.

    The width above the maximum is infinite: nothing is rounded up from there.
    """
    values = in_fp32(grid)
    magnitudes = torch.tensor(values, device=device)
    widths = torch.cat((magnitudes.diff(), magnitudes.new_full((1,), inf)))
    return magnitudes, torch.tensor(_thresholds(values), device=device), widths
