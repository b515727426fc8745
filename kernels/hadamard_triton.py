"""The random Hadamard transform in Triton: butterflies within a lane, then between lanes.

    v = (v[0], ... v[15])     v[i]: element i of the run of every lane
    v[i] * sign; for stride 1, 2, 4, ...: (a + b, a - b) of elements `stride` apart; v[i] / sqrt(n)

Strides below 16 pair two elements of a lane. From 16 on they pair the same element of two lanes:
each gets the other's and keeps the sum or the difference.

The signs are read from memory when a kernel runs (`kernels.draws`); a product with -1 is a change
of the sign bit. Order and rounding are those of `kernels.hadamard`.
"""

import triton
import triton.language as tl

from kernels.rounding_triton import SIGN, bits_of, number_of, round_significand


@triton.jit
def hadamard(v, run, draws, a: tl.constexpr, AXIS: tl.constexpr):
    """RHT of runs of `a.rht` elements.

    Args:
        v: The lanes.
        run: The place of each lane's run along the axis.
        draws: Pointer to the key, which the signs follow.
        a: `Arithmetic` with the transform's size, norm and result.
        AXIS: Along which lanes lie beside one another.
    """
    v = signed(v, run, draws, a.rht)
    for stage in tl.static_range(4):
        if 1 << stage < a.rht:
            v = butterflies(v, 1 << stage)
    for stage in tl.static_range(3):
        if 16 << stage < a.rht:
            v = exchanges(v, run, 1 << stage, AXIS)
    out = ()
    for i in tl.static_range(16):
        rotated = v[i] * a.norm
        if a.to_bf16:
            rotated = round_significand(rotated, 16)
        out = out + (rotated,)
    return out


@triton.jit
def signed(v, run, draws, SIZE: tl.constexpr):
    """Lanes with the random signs: 16 bits of them for each."""
    word = tl.load(draws + 1)
    if SIZE > 64:
        word = tl.where(run % 8 < 4, word, tl.load(draws + 2))
    if SIZE > 16:
        word = word >> (run % (SIZE // 16) % 4 * 16).to(tl.int64)
    bits = word.to(tl.int32)
    out = ()
    for i in tl.static_range(16):
        out = out + (number_of(bits_of(v[i]) ^ ((bits << (31 - i % SIZE)) & SIGN)),)
    return out


@triton.jit
def butterflies(v, STRIDE: tl.constexpr):
    """One stage within lanes."""
    out = ()
    for i in tl.static_range(16):
        if i & STRIDE:
            out = out + (v[i - STRIDE] - v[i],)
        else:
            out = out + (v[i] + v[i + STRIDE],)
    return out


@triton.jit
def exchanges(v, run, DISTANCE: tl.constexpr, AXIS: tl.constexpr):
    """One stage between lanes whose runs are DISTANCE apart."""
    second = (run // DISTANCE) << 31
    out = ()
    for i in tl.static_range(16):
        out = out + (partner(v[i], DISTANCE, AXIS) + number_of(bits_of(v[i]) ^ second),)
    return out


@triton.jit
def partner(x, DISTANCE: tl.constexpr, AXIS: tl.constexpr):
    """Each lane's number in the other lane of its pair: both exclusive-or-ed with one's own."""
    P: tl.constexpr = x.shape[0]
    Q: tl.constexpr = x.shape[1]
    bits = bits_of(x)
    if AXIS == 1:
        pairs = tl.reshape(bits, [P, Q // (2 * DISTANCE), 2, DISTANCE])
    else:
        pairs = tl.reshape(bits, [1, P // (2 * DISTANCE), 2, DISTANCE * Q])
    both = tl.broadcast_to(tl.xor_sum(pairs, 2, keep_dims=True), pairs.shape)
    return number_of(tl.reshape(both, [P, Q]) ^ bits)
