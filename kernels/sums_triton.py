"""Scales that depend on sums over a block, in Triton.

    alternate    the scaling with the smaller sum of (Q * s - x)**2, Q = RTNE of q under it
    EDEN         s * c, c = (sum of p**2) / (sum of p * Q), p = q not clipped; E4M3 rounds it by SR

Sums run from the first element of a block to the last, one addition after another: each function
takes what has been summed and adds a run of 16 elements in each lane to it.
"""

import triton
import triton.language as tl

from kernels.draws_triton import draw, stochastic_bits
from kernels.rounding_triton import (
    INFINITY,
    magnitude,
    round_to_e4m3,
    round_to_grid,
    with_sign_of,
)
from kernels.scales_triton import E4M3, scaled


@triton.jit
def squared_error(total, v, into, applied, table, PASS: tl.constexpr):
    """The sum of (Q * s - x)**2."""
    a: tl.constexpr = PASS.numbers
    for i in tl.static_range(16):
        q = scaled(magnitude(v[i]), into, a)
        rounded = round_to_grid(q, q, table, PASS, False)
        difference = with_sign_of(rounded * applied, v[i]) - v[i]
        total += difference * difference
    return total


@triton.jit
def moments(squares, products, v, into, table, PASS: tl.constexpr):
    """The sums of p**2 and of p * Q."""
    a: tl.constexpr = PASS.numbers
    for i in tl.static_range(16):
        p = scaled(magnitude(v[i]), into, a)
        squares += p * p
        products += p * round_to_grid(p, p, table, PASS, False)
    return squares, products


@triton.jit
def unshrunk(stored, squares, products, run, draws, a: tl.constexpr):
    """EDEN's s * c.

    Args:
        stored: s.
        squares: Of `moments`.
        products: Of `moments`. Where it is 0, c is not finite.
        run: The number of the block's first run, whose first draw rounds an E4M3 scale.
        draws: Pointer to the key.
        a: `Arithmetic` of the operand.
    """
    c = tl.div_rn(squares, products)
    stored = stored * tl.where(c < INFINITY, c, 1.0)
    if a.scale == E4M3:
        words = stochastic_bits(run, draws, a.random_bits)
        stored = round_to_e4m3(stored, draw(words, 0, a.random_bits, a.offset), True)
    return stored
