"""The numerics contract, slow and scalar, written from docs/numerics.md alone.

    signs(...), key(...)             the bits that random things start from
    filled(...)                      the operand before it is quantized
    quantized(x, operand, key)       codes, block scales, factor and values of one operand
    multiplied(value, precision)     a value as the GEMM multiplies it

Lists of Python floats that are FP32 numbers; the contraction axis is the last.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import copysign, frexp, inf, isfinite, isnan, ldexp, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from kernels.blocks import Block
from kernels.formats import E4M3, Grid
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Precision, Rht, Signs
from tests.kernels.golden.arithmetic import (
    LARGEST,
    LEAST_NORMAL,
    bf16,
    bits_of,
    digest,
    divide,
    draw,
    e4m3,
    f32,
    from_bits,
    tf32,
)

Matrix = list[list[float]]
SIGN = 0x8000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Where in a run a random thing belongs."""

    seed: int
    step: int
    microbatch: int
    layer: str
    gemm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An operand as it is multiplied; `scales` is what the codes' magnitudes are multiplied by."""

    codes: NDArray[np.uint16]
    scales: NDArray[np.float32]
    values: NDArray[np.float32]
    factor: float | None


def key(at: Stream, operand: str) -> int:
    """The 64-bit key of the draws of stochastic rounding."""
    parts = (at.seed, at.step, at.microbatch, at.layer, at.gemm, operand)
    return int.from_bytes(digest("sr", 8, *parts), "little")


def signs(kind: Signs, at: Stream, size: int) -> tuple[float, ...]:
    """The signs before a Hadamard matrix."""
    match kind:
        case Signs.NONE:
            return (1.0,) * size
        case Signs.FIXED:
            parts: tuple[object, ...] = (at.seed,)
        case Signs.LAYER:
            parts = (at.seed, at.layer, at.gemm)
        case Signs.STEP:
            parts = (at.seed, at.layer, at.gemm, at.step, at.microbatch)
    mask = int.from_bytes(digest("rht", 16, *parts), "little")
    return tuple(-1.0 if mask >> i & 1 else 1.0 for i in range(size))


def transform(row: list[float], sign: tuple[float, ...], *, to_bf16: bool) -> list[float]:
    """The RHT of each run of a row, whose length is a multiple of the run's."""
    n = len(sign)
    norm = f32(1 / sqrt(n))
    out: list[float] = []
    for start in range(0, len(row), n):
        run = [f32(x * s) for x, s in zip(row[start : start + n], sign, strict=True)]
        stride = 1
        while stride < n:
            for i in range(n):
                if i // stride % 2 == 0:
                    a, b = run[i], run[i + stride]
                    run[i], run[i + stride] = f32(a + b), f32(a - b)
            stride *= 2
        out += [f32(x * norm) for x in run]
    return [bf16(x) for x in out] if to_bf16 else out


@cache
def magnitudes(grid: Grid) -> tuple[float, ...]:
    """The grid in FP32."""
    return tuple(f32(magnitude) for magnitude in grid.magnitudes)


def nearest(grid: Grid, q: float) -> int:
    """The code of q >= 0 under RTNE."""
    values = magnitudes(grid)
    code = bisect_right(values, q) - 1
    if code == len(values) - 1:
        return code
    exact, half_way = Fraction(q), _half_way(*values[code : code + 2])
    if exact == half_way:
        return code + code % 2
    return code + (exact > half_way)


@lru_cache(maxsize=4096)
def _half_way(lo: float, hi: float) -> Fraction:
    return (Fraction(lo) + Fraction(hi)) / 2


def stochastic(grid: Grid, q: float, u: float) -> int:
    """The code of q >= 0 under SR with the draw u."""
    values = magnitudes(grid)
    code = bisect_right(values, q) - 1
    if code == len(values) - 1:
        return code
    lo, hi = values[code : code + 2]
    return code + (divide(f32(q - lo), f32(hi - lo)) >= u)


def largest(values: list[float]) -> float:
    """The largest magnitude, NaN where there is one."""
    return nan if any(map(isnan, values)) else max(map(abs, values), default=0.0)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """A block scale s, how an element is scaled, and what multiplies its rounded value."""

    s: float
    scale: Callable[[float], float]
    product: Callable[[float], float]


def _absolute(s: float) -> _Scaled:
    if not isfinite(s):
        return _Scaled(nan, lambda _: 0.0, lambda _: nan)
    if s < LEAST_NORMAL:
        return _Scaled(0.0, lambda x: copysign(0.0, x), lambda s: s)
    return _Scaled(s, lambda x: divide(x, s), lambda s: s)


def _exponent(rule: Scale, amax: float, grid: Grid) -> int:
    """k of the E8M0 rules before clamping; amax is positive."""
    top = frexp(grid.maximum)[1] - 1
    below = sum(2.0 ** (top - 1) <= magnitude < 2.0**top for magnitude in grid.magnitudes)
    mantissa_bits = frexp(max(below, 1))[1] - 1
    half, exponent = frexp(amax)
    f, e = 2 * half, exponent - 1
    match rule:
        case Scale.E8M0_FLOOR:
            return e - top
        case Scale.E8M0_CEIL:
            return e - top + (f > 1)
        case Scale.E8M0_EVEN:
            return e - top + (f >= 2 - 2.0 ** -(mantissa_bits + 1))
        case _:
            quotient = f32(amax / f32(grid.maximum))
            return next(k for k in range(-200, 200) if ldexp(1.0, k) >= min(quotient, 2.0**150))


def _power_of_two(amax: float, operand: Operand, grid: Grid) -> _Scaled:
    k = -127 if amax == 0 else _exponent(operand.scale, amax, grid)
    s = ldexp(1.0, min(max(k, -127), 127))
    divisor = min(f32(s * f32(operand.headroom)), LARGEST)
    return _Scaled(s, lambda x: divide(x, divisor), lambda s: s)


def _tensor_scale(shared: float, operand: Operand) -> float:
    """S, from the largest magnitude of all that shares it."""
    if not isfinite(shared):
        return nan
    if shared == 0:
        return 1.0
    return min(divide(f32(operand.scale_maximum * operand.target), shared), LARGEST)


def _relative(amax: float, tensor_scale: float, target: float, operand: Operand) -> _Scaled:
    inverse = divide(1.0, tensor_scale)
    s = e4m3(f32(amax * f32(tensor_scale * f32(1 / target))))
    m = min(divide(1.0, f32(s * inverse)), LARGEST)
    if operand.outer is None:
        return _Scaled(s, lambda x: f32(x * m), lambda s: s)
    return _Scaled(s, lambda x: f32(x * m), lambda s: f32(s * inverse))


def _block_scale(
    amax: float, operand: Operand, grid: Grid, target: float, tensor_scale: float
) -> _Scaled:
    if not isfinite(amax):
        return _absolute(nan)
    match operand.scale:
        case Scale.FP32:
            return _absolute(divide(amax, f32(target)))
        case Scale.FP32_5BIT:
            s = divide(amax, f32(target))
            return _absolute(s if s == inf else from_bits((bits_of(s) + 0x7FFFF) & ~0x7FFFF))
        case Scale.E4M3:
            return _relative(amax, tensor_scale, target, operand)
        case _:
            return _power_of_two(amax, operand, grid)


def _clipped(grid: Grid, q: float) -> float:
    """The magnitude of q, at most the grid's."""
    return min(abs(q), magnitudes(grid)[-1])


def _error(xs: list[float], scaled: _Scaled, operand: Operand, inverse: float) -> float:
    """Sum of squared errors of a block under RTNE; `inverse` is 1/S, and 1 where there is no S."""
    assert operand.grid is not None
    product, total = f32(scaled.s * inverse), 0.0
    for x in xs:
        code = nearest(operand.grid, _clipped(operand.grid, scaled.scale(x)))
        difference = f32(copysign(f32(magnitudes(operand.grid)[code] * product), x) - x)
        total = f32(total + f32(difference * difference))
    return total


def _chosen(xs: list[float], amax: float, operand: Operand, tensor_scale: float) -> _Scaled:
    """The block scale, or that of the alternate maximum where its error is smaller."""
    assert operand.grid is not None
    first = _block_scale(amax, operand, operand.grid, operand.target, tensor_scale)
    if operand.alternate is None:
        return first
    target = operand.alternate / operand.headroom
    second = _block_scale(amax, operand, operand.grid, target, tensor_scale)
    inverse = divide(1.0, tensor_scale)
    is_better = _error(xs, second, operand, inverse) < _error(xs, first, operand, inverse)
    return second if is_better else first


def _corrected(xs: list[float], scaled: _Scaled, operand: Operand, u: float) -> float:
    """The block scale of EDEN."""
    assert operand.grid is not None
    if isnan(scaled.s):
        return nan
    squares = products = 0.0
    for x in xs:
        p = scaled.scale(x)
        code = nearest(operand.grid, _clipped(operand.grid, p))
        squares = f32(squares + f32(p * p))
        products = f32(products + f32(p * copysign(magnitudes(operand.grid)[code], p)))
    correction = divide(squares, products) if products > 0 else 1.0
    s = f32(scaled.s * (correction if isfinite(correction) else 1.0))
    if operand.scale is not Scale.E4M3:
        return s
    return 448.0 if s >= 448 else magnitudes(E4M3)[stochastic(E4M3, s, u)]


def _block(
    xs: list[float], operand: Operand, shared: float | None, u: Callable[[int], float]
) -> tuple[float, list[int]]:
    """What multiplies the rounded elements of a block, and their codes without the sign.

    `shared` is A, or None under a scale that has none; u(i) is the draw of the element xs[i].
    """
    assert operand.grid is not None
    tensor_scale = 1.0 if shared is None else _tensor_scale(shared, operand)
    amax = nan if isnan(tensor_scale) else largest(xs)
    scaled = _chosen(xs, amax, operand, tensor_scale)
    s = _corrected(xs, scaled, operand, u(0)) if operand.rounding is Rounding.EDEN else scaled.s
    codes = []
    for i, x in enumerate(xs):
        q = _clipped(operand.grid, scaled.scale(x))
        is_sr = operand.rounding is Rounding.SR
        codes.append(stochastic(operand.grid, q, u(i)) if is_sr else nearest(operand.grid, q))
    return scaled.product(s), codes


def _blocks(x: Matrix, block: Block) -> Iterator[list[tuple[int, int]]]:
    """The places [row, column] of each block, itself in row-major order."""
    rows, columns = len(x), len(x[0])
    across, along = block.across or rows, block.along or columns
    for top in range(0, rows, across):
        for left in range(0, columns, along):
            down = range(top, min(top + across, rows))
            yield [(i, j) for i in down for j in range(left, min(left + along, columns))]


def _factor(x: Matrix, operand: Operand) -> float | None:
    """What is left out of the values and multiplies the product of the GEMM."""
    if operand.scale is Scale.E4M3 and operand.outer is None:
        return divide(1.0, _tensor_scale(largest([e for row in x for e in row]), operand))
    is_headroom = operand.scale.is_power_of_two and operand.headroom != 1
    return f32(operand.headroom) if is_headroom else None


def quantized(x: Matrix, operand: Operand, key: int) -> Expected:
    """One operand, already filled to k' and transformed, [rows, k']."""
    assert operand.grid is not None
    columns = len(x[0])
    codes = np.zeros((len(x), columns), np.uint16)
    values = np.zeros((len(x), columns), np.float32)
    scales = []
    whole = largest([element for row in x for element in row])
    for places in _blocks(x, operand.block):
        shared = whole if operand.scale is Scale.E4M3 else None
        if operand.outer is not None:
            row, column = places[0]
            start = column // operand.outer * operand.outer
            shared = largest(x[row][start : start + operand.outer])

        def u(index: int, places: list[tuple[int, int]] = places) -> float:
            row, column = places[index]
            return draw(key, row, column, columns, operand.random_bits, operand.half_offset)

        product, found = _block([x[i][j] for i, j in places], operand, shared, u)
        scales.append(product)
        for (i, j), code in zip(places, found, strict=True):
            values[i, j] = copysign(f32(magnitudes(operand.grid)[code] * product), x[i][j])
            codes[i, j] = code | (SIGN if copysign(1, x[i][j]) < 0 else 0)
    return Expected(
        codes=codes,
        scales=np.array(scales, np.float32),
        values=values,
        factor=_factor(x, operand),
    )


def multiplied(value: float, precision: Precision) -> float:
    """A value as the GEMM multiplies it."""
    match precision:
        case Precision.FP32:
            return value
        case Precision.TF32:
            return tf32(value)
        case Precision.BF16:
            return bf16(value)


def filled(x: Matrix, rht: Rht | None, at: Stream) -> Matrix:
    """Steps before quantization: the axis filled to k', and the RHT."""
    if rht is None:
        return x
    sign = signs(rht.signs, at, rht.size)
    padding = [0.0] * (-len(x[0]) % rht.size)
    return [transform(row + padding, sign, to_bf16=rht.to_bf16) for row in x]
