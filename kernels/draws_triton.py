"""The draws of stochastic rounding in Triton: Philox4x32-10 of one run of 16 elements in each lane.

    words   of counter (run mod 2**32, run >> 32, call, 0), four for each call
    u       (b + 1/2) / 2**n or (b + 1) / 2**n        b of n = 8, 16 or 24 bits

The key is read from memory when a kernel runs (`kernels.draws`). Bits and order are those of
`kernels.philox`.
"""

import triton
import triton.language as tl

from kernels.rounding_triton import MANTISSA_BITS, number_of

ONE = tl.constexpr(0x3F800000)  # the number 1


@triton.jit
def run_number(line, run, runs):
    """The number of each lane's run, int64, of an operand with so many runs a line."""
    return line.to(tl.int64) * runs + run


@triton.jit
def stochastic_bits(run, draws, BITS: tl.constexpr):
    """All random words of runs.

    Args:
        run: int64, the number of each lane's run.
        draws: Pointer to the key.
        BITS: Of a draw: 8, 16 or 24.

    Returns:
        A tuple of 4, 8 or 16 words, uint32.
    """
    key = tl.load(draws)
    low, high = run.to(tl.uint32), (run >> 32).to(tl.uint32)
    words = ()
    for call in tl.static_range(4 if BITS == 24 else BITS // 8):
        words = words + philox(low, high, call, key)
    return words


@triton.jit
def philox(low, high, CALL: tl.constexpr, key):
    """Four words, uint32, of counters (low, high, CALL, 0)."""
    key_0, key_1 = key.to(tl.uint32), (key >> 32).to(tl.uint32)
    c0, c1 = low, high
    c2, c3 = tl.full(low.shape, CALL, tl.uint32), tl.full(low.shape, 0, tl.uint32)
    for _ in tl.static_range(10):
        product_0 = c0.to(tl.uint64) * 0xD2511F53
        product_2 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (product_2 >> 32).to(tl.uint32) ^ c1 ^ key_0
        c2 = (product_0 >> 32).to(tl.uint32) ^ c3 ^ key_1
        c1, c3 = product_2.to(tl.uint32), product_0.to(tl.uint32)
        key_0, key_1 = key_0 + 0x9E3779B9, key_1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def draw(words, PLACE: tl.constexpr, BITS: tl.constexpr, OFFSET: tl.constexpr):
    """The draw u of element PLACE of each run.

    Up to 16 bits are the mantissa of 1 + b / 2**n, whose difference from 1 - offset is exact; 24
    are an integer, whose sum with the offset rounds.
    """
    if BITS == 24:
        return (words[PLACE] >> 8).to(tl.int32).to(tl.float32) * 2.0**-24 + OFFSET
    else:
        PLACES: tl.constexpr = 32 // BITS
        SHIFT: tl.constexpr = MANTISSA_BITS - BITS - BITS * (PLACE % PLACES)
        word = words[PLACE // PLACES]
        if SHIFT > 0:
            word = word << SHIFT
        else:
            word = word >> -SHIFT
        fraction = word & (((1 << BITS) - 1) << (MANTISSA_BITS - BITS))
        return number_of((fraction | ONE).to(tl.int32, bitcast=True)) - (1.0 - OFFSET)
