"""Element grids: the values that a low-precision number can take.

A grid is the ascending tuple of its non-negative magnitudes; the sign is a separate bit. The
index of a magnitude is its code, and ties round to the even code.

    minifloat(e, m):  code = exponent field * 2**m + mantissa field
                      bias = 2**(e-1) - 1, at least 1
                      exponent field 0 is subnormal: mantissa * 2**(1 - bias - m)
    uniform(levels):  0, 1, ..., levels

Under an FP32 block scale only the ratios of the magnitudes matter, so E1M2 (0 to 1.75 in steps of
0.25) and symmetric INT4 (0 to 7, the code -8 unused) are one grid with two names.

Source: OCP Microscaling Formats (MX) v1.0 for E2M1 and E4M3.
"""

from dataclasses import dataclass
from math import ldexp


@dataclass(frozen=True, slots=True)
class Grid:
    """A sign-symmetric set of values.

    Attributes:
        name: What tables and charts call it; not part of its identity.
        magnitudes: Ascending non-negative values, the first of them 0.

    Raises:
        ValueError: If the magnitudes are not strictly ascending from 0 or hold fewer than two.
    """

    name: str
    magnitudes: tuple[float, ...]

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.magnitudes, self.magnitudes[1:], strict=False))
        if len(self.magnitudes) < 2 or self.magnitudes[0] != 0 or not ascending:
            raise ValueError(
                f"grid {self.name!r}: magnitudes must ascend strictly from 0, got {self.magnitudes}"
            )

    @property
    def maximum(self) -> float:
        """The largest magnitude, onto which the block's largest element is scaled."""
        return self.magnitudes[-1]


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


E2M1 = minifloat("e2m1", 2, 1)
INT4 = uniform("int4", 7)
E4M3 = minifloat("e4m3", 4, 3, reserved_codes=1)

GRIDS: dict[str, Grid] = {"e2m1": E2M1, "e1m2": INT4, "int4": INT4, "e4m3": E4M3}
