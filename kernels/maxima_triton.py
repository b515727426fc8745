"""The largest magnitude that a scale depends on, in Triton: within a tile, or joined beforehand.

    in a tile     the maximum of a rectangle of neighbouring lanes
    joined        maxima[block], of blocks counted row by row, each the maximum of all its tiles

Magnitudes are compared as integers, so that NaN lies above infinity and the order in which tiles
come does not matter.
"""

import triton
import triton.language as tl

from kernels import passes
from kernels.rounding_triton import MAGNITUDE, bits_of, number_of
from kernels.scales_triton import E4M3, tensor_scale

IN_TILE = tl.constexpr(passes.IN_TILE)


@triton.jit
def largest(v):
    """The bits of the largest magnitude of each lane."""
    amax = bits_of(v[0]) & MAGNITUDE
    for i in tl.static_range(1, len(v)):
        amax = tl.maximum(amax, bits_of(v[i]) & MAGNITUDE)
    return amax


@triton.jit
def within_tile(amax, ALONG: tl.constexpr, ACROSS: tl.constexpr, AXIS: tl.constexpr):
    """The largest of ALONG runs of ACROSS lines, in the place of each of their lanes [P, Q]."""
    if ALONG * ACROSS > 1:
        HEIGHT: tl.constexpr = ACROSS if AXIS == 1 else ALONG
        WIDTH: tl.constexpr = ALONG if AXIS == 1 else ACROSS
        P: tl.constexpr = amax.shape[0]
        Q: tl.constexpr = amax.shape[1]
        blocks = tl.reshape(amax, [P // HEIGHT, HEIGHT, Q // WIDTH, WIDTH])
        most = tl.max(tl.max(blocks, 3, keep_dims=True), 1, keep_dims=True)
        amax = tl.reshape(tl.broadcast_to(most, blocks.shape), [P, Q])
    return amax


@triton.jit
def block_index(line, run, runs, ACROSS: tl.constexpr, RUNS: tl.constexpr):
    """The number of the block that a run lies in; a size of 0 is a whole axis.

    Returns:
        int64 in the shape of the lanes, in that of `line` if a block is a whole line, in that of no
        axis if it is everything.
    """
    if ACROSS == 0:
        return tl.full((), 0, tl.int64)
    elif RUNS == 0:
        return (line // ACROSS).to(tl.int64)
    else:
        return (line // ACROSS).to(tl.int64) * ((runs + (RUNS - 1)) // RUNS) + run // RUNS


@triton.jit
def is_block(line, run, lines, runs, ACROSS: tl.constexpr, RUNS: tl.constexpr):
    """Which of what `block_index` returns are blocks of the operand."""
    if ACROSS == 0:
        return tl.full((), True, tl.int1)
    elif RUNS == 0:
        return line < lines
    else:
        return (line < lines) & (run < runs)


@triton.jit
def join(
    maxima, amax, line, run, lines, runs,
    ACROSS: tl.constexpr, RUNS: tl.constexpr, AXIS: tl.constexpr,
):  # fmt: skip
    """Bits of the magnitudes of lanes into the maxima of their blocks."""
    if ACROSS == 0:
        amax = tl.max(tl.max(amax, 1), 0)
    elif RUNS == 0:
        amax = tl.max(amax, AXIS, keep_dims=True)
    place = block_index(line, run, runs, ACROSS, RUNS)
    inside = is_block(line, run, lines, runs, ACROSS, RUNS)
    tl.atomic_max(maxima + place, amax, mask=inside, sem="relaxed")


@triton.jit
def joined(maxima, line, run, lines, runs, ACROSS: tl.constexpr, RUNS: tl.constexpr):
    """The maximum of each lane's block, FP32, in the shape of `block_index`."""
    place = block_index(line, run, runs, ACROSS, RUNS)
    inside = is_block(line, run, lines, runs, ACROSS, RUNS)
    return number_of(tl.load(maxima + place, mask=inside, other=0))


@triton.jit
def scale_above(bits, above, line, run, lines, runs, PASS: tl.constexpr):
    """S of each lane under an E4M3 scale, else of no meaning.

    Args:
        bits: Of the largest magnitude of each lane.
        above: Pointer to the joined maxima.
        line: As in `kernels.lanes_triton`.
        run: As there.
        lines: As there.
        runs: How many a line has.
        PASS: The operand's `Pass`.
    """
    a: tl.constexpr = PASS.numbers
    if a.scale != E4M3:
        return tl.full((), 1.0, tl.float32)
    elif PASS.above == IN_TILE:
        amax = number_of(within_tile(bits, PASS.outer, 1, PASS.axis))
        return tensor_scale(amax, a)
    else:
        amax = joined(above, line, run, lines, runs, 1 if PASS.outer else 0, PASS.outer)
        return tensor_scale(amax, a)
