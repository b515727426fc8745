"""Lanes in Triton: a tile of a matrix in registers, a run of 16 elements in each lane.

    axis 1    tile [R, C], lanes [R, C / 16], a lane is 16 neighbours within a row
    axis 0    tile [R, C], lanes [R / 16, C], a lane is 16 neighbours down a column

    v = (v[0], v[1], ... v[15])     v[i]: element i of the run of every lane, [P, Q]

Rows are read and written in parts of 16 bytes of each lane, which stay in their thread.

Transforms of up to 16 elements, sums over them, draws and rounding then never cross lanes.

`line` is the number of a lane's row of the operand, whose contraction axis is the last: a row of
the matrix under axis 1, a column under axis 0; `run` counts the runs within it.
"""

import triton
import triton.language as tl


@triton.jit
def load(x, line, run, lines, length, AXIS: tl.constexpr):
    """Runs as a tuple, FP32; zeros beyond the matrix.

    Args:
        x: Pointer to the matrix, contiguous.
        line: [P, 1] under axis 1, [1, Q] under axis 0; int32.
        run: [1, Q] under axis 1, [P, 1] under axis 0; int32.
        lines: How many rows the operand has.
        length: Their length.
        AXIS: The contraction axis.
    """
    PART: tl.constexpr = 128 // x.dtype.element_ty.primitive_bitwidth if AXIS == 1 else 1
    start = starts(x, line, run * 16, lines, length, PART, AXIS)
    v = ()
    for first in tl.static_range(0, 16, PART):
        inside = is_inside(line, run * 16 + first, lines, length, PART)
        at = start + first if AXIS == 1 else start + first * lines.to(tl.int64)
        v = v + elements(tl.load(at, mask=inside, other=0.0).to(tl.float32), PART)
    return v


@triton.jit
def store(start, part, FIRST: tl.constexpr, line, run, lines, length, AXIS: tl.constexpr):
    """Neighbouring elements of lanes, in the type of the matrix.

    Args:
        start: `starts` of the lanes. BF16 takes numbers that are BF16.
        part: A tuple of elements.
        FIRST: The place in a run of the first of them.
        line: As in `load`.
        run: As there.
        lines: As there.
        length: As there.
        AXIS: The contraction axis.
    """
    PART: tl.constexpr = len(part)
    inside = is_inside(line, run * 16 + FIRST, lines, length, PART)
    at = start + FIRST if AXIS == 1 else start + FIRST * lines.to(tl.int64)
    tl.store(at, joined(part, PART).to(start.dtype.element_ty), mask=inside)


@triton.jit
def starts(x, line, begin, lines, length, PART: tl.constexpr, AXIS: tl.constexpr):
    """Pointers to PART elements of each lane from place `begin` on, [P, Q, PART]."""
    along = tl.expand_dims(begin, 2).to(tl.int64) + tl.arange(0, PART)[None, None, :]
    across = tl.expand_dims(line, 2).to(tl.int64)
    return x + (across * length + along if AXIS == 1 else along * lines + across)


@triton.jit
def is_inside(line, begin, lines, length, PART: tl.constexpr):
    """Which of PART elements of each lane are in the matrix, [P, Q, PART]."""
    along = tl.expand_dims(begin, 2) + tl.arange(0, PART)[None, None, :]
    return (along < length) & (tl.expand_dims(line, 2) < lines)


@triton.jit
def elements(tile, N: tl.constexpr):
    """[P, Q, N] as a tuple of N."""
    if N == 1:
        return (tl.reshape(tile, [tile.shape[0], tile.shape[1]]),)
    else:
        first, second = tl.split(tl.reshape(tile, [tile.shape[0], tile.shape[1], N // 2, 2]))
        even, odd = elements(first, N // 2), elements(second, N // 2)
        v = ()
        for i in tl.static_range(N // 2):
            v = v + (even[i], odd[i])
        return v


@triton.jit
def joined(v, N: tl.constexpr):
    """The inverse of `elements`."""
    if N == 1:
        return tl.expand_dims(v[0], 2)
    else:
        even, odd = (), ()
        for i in tl.static_range(N // 2):
            even, odd = even + (v[2 * i],), odd + (v[2 * i + 1],)
        pairs = tl.join(joined(even, N // 2), joined(odd, N // 2))
        return tl.reshape(pairs, [pairs.shape[0], pairs.shape[1], N])
