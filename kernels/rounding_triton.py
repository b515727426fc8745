"""Rounding of scaled magnitudes onto the grid, and of anything to BF16 or TF32, in Triton.

    RTNE   the nearest, a tie to the even code
    SR     of lo <= q < hi to hi if (q - lo) / (hi - lo) >= u, else to lo

Grids whose steps are powers of two are rounded by arithmetic: q / step, its whole part, what is
left and the product with the step are exact. Any other grid is a table: a short one is part of the
code, a long one lies in memory as 2h - 1 thresholds of RTNE, 2h - 1 magnitudes from code 1 on and
2h + 1 magnitudes from code 0 on (`kernels.arithmetic.table`).

Nothing is decided by a cast, nor by a minimum or maximum of FP32 numbers: those of magnitudes are
taken as integers, in whose order NaN lies above infinity. What is clipped to the grid is no longer
NaN. Where one is compared, the comparison is false, on every device, and the other choice is meant:
`round_to_e4m3` and `round_significand` keep NaN so.
"""

import triton
import triton.language as tl

from kernels import arithmetic

TO_INTEGERS = tl.constexpr(arithmetic.TO_INTEGERS)
TO_FLOATS = tl.constexpr(arithmetic.TO_FLOATS)
INFINITY = tl.constexpr(float("inf"))
SIGN = tl.constexpr(-(2**31))
MAGNITUDE = tl.constexpr(2**31 - 1)
MANTISSA_BITS = tl.constexpr(23)
EXPONENT = tl.constexpr(0x7F800000)
# Adding it leaves no bits for a fraction, so it rounds to an integer, ties to even.
NO_FRACTION = tl.constexpr(1.5 * 2**23)
E4M3_LEAST_EXPONENT = tl.constexpr(127 - 6)
E4M3_MANTISSA_BITS = tl.constexpr(3)


@triton.jit
def bits_of(x):
    """FP32 numbers as the integers that they are stored as."""
    return x.to(tl.int32, bitcast=True)


@triton.jit
def number_of(bits):
    """The inverse of `bits_of`."""
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def number(value: tl.constexpr, like):
    """A number in the shape of another; a tensor, since a division takes no other constant."""
    return tl.full(like.shape, value, tl.float32)


@triton.jit
def magnitude(x):
    """Absolute values, also of NaN."""
    return number_of(bits_of(x) & MAGNITUDE)


@triton.jit
def with_sign_of(size, x):
    """Magnitudes with the signs of x."""
    return number_of(bits_of(size) | (bits_of(x) & SIGN))


@triton.jit
def round_to_grid(q, u, table, PASS: tl.constexpr, STOCHASTIC: tl.constexpr):
    """Magnitudes, clipped to the grid's maximum, onto the grid.

    Args:
        q: FP32 magnitudes; NaN becomes the maximum.
        u: Their draws; not used where the rounding is not stochastic.
        table: Pointer to the grid's table where it is in memory.
        PASS: The operand's `Pass`.
        STOCHASTIC: SR rather than RTNE.
    """
    a: tl.constexpr = PASS.numbers
    q = number_of(tl.minimum(bits_of(q), bits_of(number(a.maximum, q))))
    if a.rule == TO_INTEGERS:
        return round_integer(q, u, STOCHASTIC)
    elif a.rule == TO_FLOATS:
        return round_float(q, u, a.least_exponent, a.mantissa_bits, STOCHASTIC)
    else:
        low, high = q, q
        if PASS.half:
            low, high = found_in_memory(q, table, PASS.half, STOCHASTIC)
        else:
            low, high = found(q, PASS, STOCHASTIC)
        if STOCHASTIC:
            low = tl.where(tl.div_rn(q - low, high - low) >= u, high, low)
        return low


@triton.jit
def round_integer(q, u, STOCHASTIC: tl.constexpr):
    """To whole numbers below 2**22."""
    nearest = (q + NO_FRACTION) - NO_FRACTION
    if STOCHASTIC:
        low = tl.where(nearest > q, nearest - 1.0, nearest)
        return tl.where(q - low >= u, low + 1.0, low)
    else:
        return nearest


@triton.jit
def round_float(
    q, u, LEAST_EXPONENT: tl.constexpr, MANTISSA_BITS_: tl.constexpr, STOCHASTIC: tl.constexpr
):
    """To n * step, where the exponent of q gives the step."""
    least = LEAST_EXPONENT << MANTISSA_BITS
    step = tl.maximum(bits_of(q) & EXPONENT, least) - (MANTISSA_BITS_ << MANTISSA_BITS)
    inverse = (254 << MANTISSA_BITS) - step
    return round_integer(q * number_of(inverse), u, STOCHASTIC) * number_of(step)


@triton.jit
def found(q, PASS: tl.constexpr, STOCHASTIC: tl.constexpr):
    """The magnitude of q's code and the next: the code is the number of keys that q reaches."""
    CODES: tl.constexpr = len(PASS.magnitudes)
    low, high = number(PASS.magnitudes[0], q), number(PASS.magnitudes[1], q)
    for code in tl.static_range(1, CODES):
        key = PASS.magnitudes[code] if STOCHASTIC else PASS.thresholds[code - 1]
        reached = q >= number(key, q)
        low = tl.where(reached, number(PASS.magnitudes[code], q), low)
        high = tl.where(reached, number(PASS.magnitudes[min(code + 1, CODES - 1)], q), high)
    return low, high


@triton.jit
def found_in_memory(q, table, HALF: tl.constexpr, STOCHASTIC: tl.constexpr):
    """The same for a long table, by bisection."""
    neighbours = table + (2 * HALF - 1)
    values = neighbours + (2 * HALF - 1)
    keys = neighbours if STOCHASTIC else table
    code = tl.full(q.shape, 0, tl.int32)
    half = tl.full((), HALF, tl.int32)
    while half > 0:
        code += tl.where(q >= tl.load(keys + code + (half - 1)), half, 0)
        half = half >> 1
    return tl.load(values + code), tl.load(values + code + 1)


@triton.jit
def round_to_e4m3(x, u, STOCHASTIC: tl.constexpr):
    """Magnitudes onto E4M3, at most 448; NaN stays NaN."""
    x = round_float(x, u, E4M3_LEAST_EXPONENT, E4M3_MANTISSA_BITS, STOCHASTIC)
    return tl.where(x > 448.0, 448.0, x)


@triton.jit
def round_significand(x, DROPPED_BITS: tl.constexpr):
    """To nearest, ties to even, without the low bits: 16 leave BF16, 13 TF32; NaN stays NaN."""
    bits = bits_of(x)
    odd = (bits >> DROPPED_BITS) & 1
    rounded = (bits + ((1 << (DROPPED_BITS - 1)) - 1) + odd) & -(1 << DROPPED_BITS)
    return tl.where(x == x, number_of(rounded), x)
