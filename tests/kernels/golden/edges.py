"""Inputs on which two readings of docs/numerics.md part: one unit in the last place decides.

Each is FP32 [rows, k] and is searched for, or solved for, with the oracle's own arithmetic.
"""

from collections.abc import Callable
from itertools import product
from math import inf

import numpy as np

from kernels.formats import E2M1, Grid
from kernels.operands import Operand
from tests.kernels.golden.arithmetic import LARGEST, divide, draw, e4m3, f32
from tests.kernels.golden.oracle import Matrix, magnitudes, nearest

TIES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""Half-way points of E2M1."""
HEADROOM = 17 / 16 / 0.93
"""Where the reciprocal of 6 / headroom is another FP32 number if 6 / headroom is rounded first."""


def beside(value: float, ulps: int) -> float:
    """The FP32 number so many places above a positive one."""
    away = np.float32(inf if ulps > 0 else 0)
    found = np.float32(value)
    for _ in range(abs(ulps)):
        found = np.nextafter(found, away)
    return float(found)


def least_powers_of_two(headroom: float) -> Matrix:
    """Under k = -127: near ties, where the divisor 2**-127 * headroom has 23 bits, not 24.

    A second row has its maximum just above 6 * 2**-127, whose quotient by 6 is rounded.
    """
    unit = 2.0**-149
    divisor = f32(2.0**-127 * headroom) / unit
    near = [unit * (int(tie * divisor) + step) for tie in TIES for step in range(-1, 4)]
    return [
        [*near, *[0.0] * (64 - len(near))],
        [25165826 * unit, *[unit * (int(tie * 2**22) + 1) for tie in TIES], *[0.0] * 56],
    ]


def largest_powers_of_two() -> Matrix:
    """Maxima of FP32, which ask for k > 127 of a grid that ends below 1."""
    row = [LARGEST, -LARGEST * 0.7, 2.0**127, 2.0**126, 1e38, -3e37, 1e36, 0.0]
    return [[f32(element) for element in row] * 4]


def scale_ties(target: float, other: Callable[[float], float]) -> Matrix:
    """Blocks whose E4M3 scale is another if amax is multiplied by other(S), not by S (1/target)."""
    ties = [(1 + (2 * i + 1) / 16) * 2.0**exponent for i in range(8) for exponent in range(1, 7)]
    for i in range(2000):
        top = f32(1 + i / 997)
        encode = divide(f32(448 * target), top)
        factor, another = f32(encode * f32(1 / target)), other(encode)
        found = {
            amax
            for tie, ulps in product(ties, range(-2, 3))
            if (amax := beside(divide(tie, factor), ulps)) < top
            and e4m3(f32(amax * factor)) != e4m3(f32(amax * another))
        }
        if len(found) >= 3:
            blocks = [top, *sorted(found)[:3]]
            return [[x for amax in blocks for x in [amax, *[amax / 4, -amax / 2, 0.0] * 5]]]
    raise AssertionError("no tensor has three such blocks")


def multiplier_ties() -> Matrix:
    """Elements whose code is another if the multiplier is S / s rather than 1 / (s (1/S))."""
    rows = []
    for i in range(2000):
        top = f32(1 + i / 1009)
        encode = divide(2688.0, top)
        s = e4m3(f32(top * f32(encode * divide(1.0, 6.0))))
        multiplier, quotient = divide(1.0, f32(s * divide(1.0, encode))), divide(encode, s)
        if multiplier == quotient:
            continue
        rows = [
            x
            for tie, ulps in product(TIES, range(-2, 3))
            if (x := beside(divide(tie, multiplier), ulps))
            and nearest(E2M1, f32(x * multiplier)) != nearest(E2M1, f32(x * quotient))
        ]
        if len(rows) >= 3:
            return [[top, *rows[:7], *[0.0] * 8]]
    raise AssertionError("no block has three such elements")


def draws(operand: Operand, key: int, rows: int = 3, columns: int = 64) -> Matrix:
    """Elements at their own threshold of SR, or one place beside it, under a block scale of 1."""
    assert operand.grid is not None
    values = magnitudes(operand.grid)

    def element(row: int, column: int) -> float:
        if column % 16 == 0:
            return values[-1]
        u = draw(key, row, column, columns, operand.random_bits, operand.half_offset)
        code = (row * 5 + column) % (len(values) - 1)
        lo, hi = values[code : code + 2]
        return beside(f32(lo + f32(u * f32(hi - lo))), column % 3 - 1)

    return [[element(row, column) for column in range(columns)] for row in range(rows)]


LEAST = Grid("least", (0.0, 2.0**-149, 2.0**-148, 3 * 2.0**-149, 1.0))
"""A grid whose least step times a draw is no FP32 number."""
BELOW_ONE = Grid("below-one", (0.0, 0.125, 0.25, 0.5))


def on_the_grid() -> Matrix:
    """Magnitudes of `LEAST` and nothing else, under a block scale of 1."""
    steps = [0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**-148, 3 * 2.0**-149, -(3 * 2.0**-149)]
    return [[1.0, *steps, *steps, 1.0]] * 4
