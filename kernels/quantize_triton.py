"""Fake quantization on a GPU: docs/numerics.md in Triton, with the bits of kernels/reference.py.

    v = RHT(x)              butterflies within a lane                          hadamard_triton
    s = scale of amax       one for each block            maxima_triton, scales_triton, sums_triton
    y = round(v / s) * s    RTNE, SR or EDEN onto the grid     rounding_triton, draws_triton

One kernel serves every recipe: `quantize` for an operand along axis 1, for one along axis 0, or for
both from one tile of x, which the second finds in the processor's cache. x is read once from memory
and y written once. Where a scale depends on more than a tile holds, `measure` goes before it, and
`kernels.weigh_triton` where it depends on sums (`kernels.passes`).

Every operation is one FP32 operation, rounded, in the order of the contract: launch without
contraction (`enable_fp_fusion=False`).

Functions give `numbers` of a `Pass` a name before they hand it on: Triton 3.6 takes what is inside
a constant for a constant only so.
"""

import triton
import triton.language as tl

from kernels import arithmetic, passes
from kernels.draws_triton import draw, run_number, stochastic_bits
from kernels.hadamard_triton import hadamard
from kernels.lanes_triton import load, starts, store
from kernels.maxima_triton import (
    block_index,
    is_block,
    join,
    joined,
    largest,
    scale_above,
    within_tile,
)
from kernels.rounding_triton import (
    MAGNITUDE,
    bits_of,
    magnitude,
    number,
    number_of,
    round_significand,
    round_to_grid,
    with_sign_of,
)
from kernels.scales_triton import block_scale, scaled, tensor_scale
from kernels.sums_triton import moments, squared_error, unshrunk

KEEP = tl.constexpr(arithmetic.KEEP)
SR = tl.constexpr(arithmetic.SR)
EDEN = tl.constexpr(arithmetic.EDEN)
IN_TILE = tl.constexpr(passes.IN_TILE)
MEASURED = tl.constexpr(passes.MEASURED)
WEIGHED = tl.constexpr(passes.WEIGHED)


_SPECIALIZED = {
    "do_not_specialize": ("first_runs", "second_runs"),
    "do_not_specialize_on_alignment": ("first_draws", "second_draws"),
}


@triton.jit(**_SPECIALIZED)
def quantize(
    x, rows, columns, first, first_draws, first_runs, second, second_draws, second_runs,
    FIRST: tl.constexpr, SECOND: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A tile of one or two operands.

    Args:
        x: Pointer to [rows, columns], contiguous; FP32, BF16 or FP16.
        rows: Of x.
        columns: Of x.
        first: Pointers to an operand's y, maxima of blocks or their scales, maxima for S, factor
            and table.
        first_draws: Pointer to its key and signs.
        first_runs: How many runs a line of it has.
        second: As `first`, of another operand.
        second_draws: Of the other.
        second_runs: Of the other.
        FIRST: The `Pass` of the first.
        SECOND: The `Pass` of the second, or None.
        R: Rows of a tile.
        C: Its columns.
    """
    quantize_operand(x, rows, columns, first, first_draws, first_runs, FIRST, R, C)
    if SECOND is not None:
        quantize_operand(x, rows, columns, second, second_draws, second_runs, SECOND, R, C)


@triton.jit(**_SPECIALIZED)
def measure(
    x, rows, columns, first, first_draws, first_runs, second, second_draws, second_runs,
    FIRST: tl.constexpr, SECOND: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Joins the maxima that `quantize`, with the same arguments, needs beforehand."""
    measure_operand(x, rows, columns, first, first_draws, first_runs, FIRST, R, C)
    if SECOND is not None:
        measure_operand(x, rows, columns, second, second_draws, second_runs, SECOND, R, C)


@triton.jit
def quantize_operand(
    x, rows, columns, operand, draws, runs, PASS: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    """One operand's share of `quantize`."""
    y, _, above, factor, table = operand
    a: tl.constexpr = PASS.numbers
    lines, length = (rows, columns) if PASS.axis == 1 else (columns, rows)
    line, run, v = transformed(x, draws, lines, length, PASS, R, C)
    words = ()
    into, back = line, line
    if a.rule != KEEP:
        into, back = scaling(v, line, run, lines, operand, draws, runs, PASS)
    if a.rounding == SR:
        # It adds nothing, but keeps the words in the threads that hold the elements.
        here = ((bits_of(v[0]) & MAGNITUDE) >> 31).to(tl.int64)
        words = stochastic_bits(run_number(line, run, runs) + here, draws, a.random_bits)
    if a.rht:
        length = (length + (a.rht - 1)) // a.rht * a.rht
    PART: tl.constexpr = 128 // y.dtype.element_ty.primitive_bitwidth if PASS.axis == 1 else 1
    start = starts(y, line, run * 16, lines, length, PART, PASS.axis)
    for first in tl.static_range(0, 16, PART):
        part = ()
        for i in tl.static_range(PART):
            value = v[first + i]
            if a.rule != KEEP:
                value = quantized(value, into, back, words, first + i, table, PASS)
            part = part + (finished(value, PASS),)
        store(start, part, first, line, run, lines, length, PASS.axis)
    if (PASS.above == MEASURED) and not PASS.has_outer:
        inverse = tl.div_rn(1.0, tensor_scale(number_of(tl.load(above)), a))
        tl.store(factor, inverse, mask=tl.program_id(0) + tl.program_id(1) == 0)


@triton.jit
def measure_operand(
    x, rows, columns, operand, draws, runs, PASS: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    """One operand's share of `measure`."""
    if (PASS.blocks != IN_TILE) or (PASS.above != IN_TILE):
        _, maxima, above, _, _ = operand
        lines, length = (rows, columns) if PASS.axis == 1 else (columns, rows)
        line, run, v = transformed(x, draws, lines, length, PASS, R, C)
        amax = largest(v)
        if PASS.blocks != IN_TILE:
            join(maxima, amax, line, run, lines, runs, PASS.across, PASS.runs, PASS.axis)
        if PASS.above != IN_TILE:
            ACROSS: tl.constexpr = 1 if PASS.outer else 0
            join(above, amax, line, run, lines, runs, ACROSS, PASS.outer, PASS.axis)


@triton.jit
def transformed(x, draws, lines, length, PASS: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """The lanes of this program's tile: their line, their run and their elements after the RHT."""
    row, column = tl.program_id(0), tl.program_id(1)
    if PASS.axis == 1:
        line = tl.expand_dims(row * R + tl.arange(0, R), 1)
        run = tl.expand_dims(column * (C // 16) + tl.arange(0, C // 16), 0)
    else:
        line = tl.expand_dims(column * C + tl.arange(0, C), 0)
        run = tl.expand_dims(row * (R // 16) + tl.arange(0, R // 16), 1)
    v = load(x, line, run, lines, length, PASS.axis)
    a: tl.constexpr = PASS.numbers
    if a.rht:
        v = hadamard(v, run, draws, a, PASS.axis)
    return line, run, v


@triton.jit
def quantized(x, into, back, words, PLACE: tl.constexpr, table, PASS: tl.constexpr):
    """Element PLACE of every lane scaled, rounded and scaled back."""
    a: tl.constexpr = PASS.numbers
    q = scaled(magnitude(x), into, a)
    if a.rounding == SR:
        rounded = round_to_grid(q, draw(words, PLACE, a.random_bits, a.offset), table, PASS, True)
    else:
        rounded = round_to_grid(q, q, table, PASS, False)
    return with_sign_of(rounded * back, x)


@triton.jit
def finished(x, PASS: tl.constexpr):
    """Rounded to the carrier without a grid, and to the GEMM's precision."""
    if PASS.to_fp16:
        x = x.to(tl.float16).to(tl.float32)
    if PASS.numbers.dropped_bits:
        x = round_significand(x, PASS.numbers.dropped_bits)
    return x


@triton.jit
def scaling(v, line, run, lines, operand, draws, runs, PASS: tl.constexpr):
    """What brings each lane onto the grid, and what brings it back."""
    _, maxima, above, _, table = operand
    a: tl.constexpr = PASS.numbers
    if PASS.blocks == WEIGHED:
        place = 2 * block_index(line, run, runs, PASS.across, PASS.runs)
        inside = is_block(line, run, lines, runs, PASS.across, PASS.runs)
        into = tl.load(maxima + place, mask=inside, other=1.0)
        return into, tl.load(maxima + place + 1, mask=inside, other=1.0)
    bits = largest(v)
    tensor = scale_above(bits, above, line, run, lines, runs, PASS)
    if PASS.blocks == IN_TILE:
        amax = number_of(within_tile(bits, PASS.runs, PASS.across, PASS.axis))
    else:
        amax = joined(maxima, line, run, lines, runs, PASS.across, PASS.runs)
    into, stored, inverse = block_scale(amax, tensor, a.target, a)
    if PASS.blocks == IN_TILE:
        zero = number(0.0, amax)
        if a.alternate:
            into_2, stored_2, _ = block_scale(amax, tensor, a.alternate_target, a)
            error = squared_error(zero, v, into, stored * inverse, table, PASS)
            error_2 = squared_error(zero, v, into_2, stored_2 * inverse, table, PASS)
            into = tl.where(error_2 < error, into_2, into)
            stored = tl.where(error_2 < error, stored_2, stored)
        if a.rounding == EDEN:
            squares, products = moments(zero, zero, v, into, table, PASS)
            stored = unshrunk(stored, squares, products, run_number(line, run, runs), draws, a)
    back = stored * inverse if PASS.has_outer else stored
    return into, back
