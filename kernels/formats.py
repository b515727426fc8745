"""Element grids: the values that a low-precision number can take.

A grid is the ascending tuple of its non-negative magnitudes; the sign is a separate bit. The
index of a magnitude is its code, and ties round to the even code.

    minifloat(e, m):  code = exponent field * 2**m + mantissa field
                      bias = 2**(e-1) - 1, at least 1
                      exponent field 0 is subnormal: mantissa * 2**(1 - bias - m)
    uniform(levels):  0, 1, ..., levels

Under an FP32 block scale only the ratios of the magnitudes matter, so E1M2 (0 to 1.75 in steps of
0.25) and symmetric INT4 (0 to 7, the code -8 unused) are one grid with two names.

A narrower range of a grid (E2M1 up to 2, 3 or 4) leaves its upper magnitudes out.

Sources: OCP Microscaling Formats (MX) v1.0 for E2M1, E2M3, E3M2, E4M3 and E5M2, IEEE 754 for FP16;
UFP4 (arXiv 2606.20381), figure 10, for the restricted ranges.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import frexp, ldexp


@dataclass(frozen=True, slots=True)
class Grid:
    """A sign-symmetric set of values.

    Attributes:
        name: What tables and charts call it; not part of its identity.
        magnitudes: Ascending non-negative values, the first of them 0.

    Raises:
        ValueError: If the magnitudes are not strictly ascending from 0, hold fewer than two, or
            one is not a normal or subnormal number of FP32.
    """

    name: str
    magnitudes: tuple[float, ...]

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.magnitudes, self.magnitudes[1:], strict=False))
        if len(self.magnitudes) < 2 or self.magnitudes[0] != 0 or not ascending:
            raise ValueError(
                f"grid {self.name!r}: magnitudes must ascend strictly from 0, got "
                f"{_shortened(self.magnitudes)}"
            )
        if self.magnitudes[1] < 2.0**-149 or self.magnitudes[-1] > (2 - 2.0**-23) * 2.0**127:
            raise ValueError(
                f"grid {self.name!r}: magnitudes must lie within FP32, 2**-149 to 2**128, got "
                f"{_shortened(self.magnitudes)}"
            )

    def __hash__(self) -> int:
        # All grids that are equal agree in these, and a grid may hold 2**15 magnitudes.
        return hash((len(self.magnitudes), self.magnitudes[1], self.magnitudes[-1]))

    @property
    def maximum(self) -> float:
        """The largest magnitude, onto which the block's largest element is scaled."""
        return self.magnitudes[-1]

    @property
    def exponent(self) -> int:
        """Of the largest magnitude: floor(log2 maximum)."""
        return frexp(self.maximum)[1] - 1

    @property
    def mantissa_bits(self) -> int:
        """log2, rounded down, of the number of magnitudes in the binade below the largest's.

        1 for E2M1 and for 0 ... 7, 3 for E4M3; 0 where that binade is empty.
        """
        top = ldexp(1.0, self.exponent)
        count = bisect_left(self.magnitudes, top) - bisect_left(self.magnitudes, top / 2)
        return max(1, count).bit_length() - 1


def _shortened(magnitudes: tuple[float, ...]) -> str:
    return str(magnitudes) if len(magnitudes) <= 16 else f"{len(magnitudes)} of them"


def minifloat(
    name: str, exponent_bits: int, mantissa_bits: int, *, reserved_codes: int = 0
) -> Grid:
    """Grid of a small float; the top `reserved_codes` codes are NaN or infinity and left out."""
    bias = max(1, 2 ** (exponent_bits - 1) - 1)
    codes = range(2 ** (exponent_bits + mantissa_bits) - reserved_codes)

    def value(code: int) -> float:
        exponent, mantissa = divmod(code, 2**mantissa_bits)
        if exponent == 0:
            return ldexp(mantissa, 1 - bias - mantissa_bits)
        return ldexp(2**mantissa_bits + mantissa, exponent - bias - mantissa_bits)

    return Grid(name, tuple(value(code) for code in codes))


def uniform(name: str, levels: int) -> Grid:
    """Grid 0, 1, ..., levels."""
    return Grid(name, tuple(float(level) for level in range(levels + 1)))


def restricted(grid: Grid, maximum: float) -> Grid:
    """The magnitudes of a grid up to `maximum`, under the name `e2m1-max4`."""
    kept = tuple(magnitude for magnitude in grid.magnitudes if magnitude <= maximum)
    return Grid(f"{grid.name}-max{maximum:g}", kept)


E2M1 = minifloat("e2m1", 2, 1)
INT4 = uniform("int4", 7)
E4M3 = minifloat("e4m3", 4, 3, reserved_codes=1)
E5M2 = minifloat("e5m2", 5, 2, reserved_codes=4)
INT8 = uniform("int8", 127)

GRIDS: dict[str, Grid] = {
    "e2m1": E2M1,
    "e1m2": INT4,
    "int4": INT4,
    "e3m0": minifloat("e3m0", 3, 0),
    "e2m1-max2": restricted(E2M1, 2),
    "e2m1-max3": restricted(E2M1, 3),
    "e2m1-max4": restricted(E2M1, 4),
    "e2m3": minifloat("e2m3", 2, 3),
    "e3m2": minifloat("e3m2", 3, 2),
    "e4m3": E4M3,
    "e5m2": E5M2,
    "int8": INT8,
    "fp16": minifloat("fp16", 5, 10, reserved_codes=1024),
    "bf16": minifloat("bf16", 8, 7, reserved_codes=128),
}
"""Every grid that has a name. Adding one here is all that it takes."""
