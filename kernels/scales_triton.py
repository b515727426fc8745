"""Block scales in Triton, from the largest magnitude of each block.

    fp32          s = amax / target
    fp32-5bit     the same, rounded up to a significand of five bits
    e8m0          s = 2**k
    e4m3          s = E4M3(amax * (S * (1 / target))) under S, the scale of a tensor or of `outer`

A scaling is (into, stored, inverse): a magnitude becomes q when it is divided by `into`, under E4M3
multiplied by it; `stored` is s, and `inverse` is 1 / S, or 1.
"""

import triton
import triton.language as tl

from kernels import arithmetic
from kernels.rounding_triton import (
    EXPONENT,
    INFINITY,
    MANTISSA_BITS,
    bits_of,
    number,
    number_of,
    round_to_e4m3,
)

E8M0 = tl.constexpr(arithmetic.E8M0)
E4M3 = tl.constexpr(arithmetic.E4M3)
FP32_5BIT = tl.constexpr(arithmetic.FP32_5BIT)
LARGEST = tl.constexpr((2 - 2.0**-23) * 2.0**127)
LEAST_NORMAL = tl.constexpr(2.0**-126)
MANTISSA = tl.constexpr(2**23 - 1)


@triton.jit
def tensor_scale(amax, a: tl.constexpr):
    """S of those whose largest magnitude is amax; NaN where that is not finite."""
    scale = up_to_largest(tl.div_rn(number(a.numerator, amax), amax))
    return nan_unless_finite(tl.where(amax == 0.0, 1.0, scale), amax)


@triton.jit
def block_scale(amax, above, TARGET: tl.constexpr, a: tl.constexpr):
    """The scaling of blocks.

    Args:
        amax: FP32, the largest magnitude of each block.
        above: S under an E4M3 scale.
        TARGET: `target` of an `Arithmetic`, or its `alternate_target`.
        a: The `Arithmetic`.
    """
    if a.scale == E4M3:
        inverse = tl.div_rn(number(1.0, above), above)
        stored = amax * (above * TARGET)
        stored = round_to_e4m3(stored, stored, False)
        applied = stored * inverse
        into = up_to_largest(tl.div_rn(number(1.0, applied), applied))
    elif a.scale == E8M0:
        stored, inverse = nan_unless_finite(power_of_two(amax, a), amax), number(1.0, amax)
        into = up_to_largest(stored * a.headroom)
    else:
        stored = tl.div_rn(amax, number(TARGET, amax))
        if a.scale == FP32_5BIT:
            five_bits = number_of((bits_of(stored) + 0x7FFFF) & ~0x7FFFF)
            stored = tl.where(stored < INFINITY, five_bits, stored)
        stored, inverse = nan_unless_finite(stored, stored), number(1.0, amax)
        # A zero or a tiny block: its elements become zeros, each with its sign.
        into = tl.where(stored < LEAST_NORMAL, INFINITY, stored)
    return into, stored, inverse


@triton.jit
def scaled(size, into, a: tl.constexpr):
    """The q of magnitudes, not clipped."""
    if a.scale == E4M3:
        return size * into
    else:
        return tl.div_rn(size, tl.broadcast_to(into, size.shape))


@triton.jit
def power_of_two(amax, a: tl.constexpr):
    """2**k: k goes up where the fraction of amax reaches the rule's carry.

    A subnormal amax is made normal first; k = -127 is a subnormal number. The k of a block of
    zeros does not show.
    """
    size = amax
    if a.unit != 1.0:
        size = tl.div_rn(amax, number(a.unit, amax))
    tiny = size < LEAST_NORMAL
    size = tl.where(tiny, size * 2.0**32, size)
    carried = ((bits_of(size) & MANTISSA) >= a.carry).to(tl.int32)
    biased = ((bits_of(size) & EXPONENT) >> MANTISSA_BITS) - tl.where(tiny, 32, 0)
    biased = tl.minimum(tl.maximum(biased + carried - a.exponent, 0), 254)
    return number_of(tl.maximum(biased << MANTISSA_BITS, 1 << (MANTISSA_BITS - 1)))


@triton.jit
def nan_unless_finite(scale, amax):
    """NaN where amax is Inf or NaN."""
    return tl.where(amax < INFINITY, scale, float("nan"))


@triton.jit
def up_to_largest(x):
    """Infinity becomes the largest FP32 number."""
    return tl.where(x > LARGEST, LARGEST, x)
