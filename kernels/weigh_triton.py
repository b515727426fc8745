"""Scales of blocks that no tile holds and that depend on sums over them, in Triton.

    lane      a block of one line of the operand; its runs are read one after another
    scales    [blocks, 2] FP32: what elements are divided by, under E4M3 multiplied by, and what
              they are multiplied by after rounding

`measure` of `kernels.quantize_triton` goes before and joins the maxima of the blocks, `quantize`
comes after. Where there is an RHT, x is the transformed matrix.
"""

import triton
import triton.language as tl

from kernels.draws_triton import run_number
from kernels.lanes_triton import load
from kernels.maxima_triton import block_index, joined, scale_above
from kernels.rounding_triton import bits_of
from kernels.scales_triton import block_scale
from kernels.sums_triton import moments, squared_error, unshrunk


@triton.jit(do_not_specialize=("runs",), do_not_specialize_on_alignment=("draws",))
def weigh(x, rows, columns, operand, draws, runs, scales, PASS: tl.constexpr, LANES: tl.constexpr):
    """A program decides the scales of LANES lines at one place along the axis.

    Args:
        x: Pointer to [rows, columns], contiguous.
        rows: Of x.
        columns: Of x.
        operand: As `first` of `quantize`; its maxima are those of the blocks.
        draws: As `first_draws`.
        runs: As `first_runs`.
        scales: Pointer to what is decided.
        PASS: The operand's `Pass`.
        LANES: Lines of a program.
    """
    a: tl.constexpr = PASS.numbers
    _, maxima, above, _, table = operand
    lines, length = (rows, columns) if PASS.axis == 1 else (columns, rows)
    line = tl.program_id(0) * LANES + tl.arange(0, LANES)
    line = tl.expand_dims(line, PASS.axis)
    begin = tl.program_id(1) * PASS.runs + line * 0
    amax = joined(maxima, line, begin, lines, runs, PASS.across, PASS.runs)
    tensor = scale_above(bits_of(amax), above, line, begin, lines, runs, PASS)
    into, stored, inverse = block_scale(amax, tensor, a.target, a)
    if a.alternate:
        into_2, stored_2, _ = block_scale(amax, tensor, a.alternate_target, a)
        error = tl.full(line.shape, 0.0, tl.float32)
        error_2 = tl.full(line.shape, 0.0, tl.float32)
        for step in range(PASS.runs):
            v = load(x, line, begin + step, lines, length, PASS.axis)
            error = squared_error(error, v, into, stored * inverse, table, PASS)
            error_2 = squared_error(error_2, v, into_2, stored_2 * inverse, table, PASS)
        into = tl.where(error_2 < error, into_2, into)
        stored = tl.where(error_2 < error, stored_2, stored)
    else:
        squares = tl.full(line.shape, 0.0, tl.float32)
        products = tl.full(line.shape, 0.0, tl.float32)
        for step in range(PASS.runs):
            v = load(x, line, begin + step, lines, length, PASS.axis)
            squares, products = moments(squares, products, v, into, table, PASS)
        stored = unshrunk(stored, squares, products, run_number(line, begin, runs), draws, a)
    back = stored * inverse if PASS.has_outer else stored
    place = block_index(line, begin, runs, PASS.across, PASS.runs)
    tl.store(scales + 2 * place, into, mask=line < lines)
    tl.store(scales + 2 * place + 1, back, mask=line < lines)
