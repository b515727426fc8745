"""Number formats, draws and keys of docs/numerics.md, one Python number at a time.

An operation on FP32 numbers is done in binary64 and rounded to FP32. For + - * / that equals one
FP32 operation, since binary64 carries 53 >= 2 * 24 + 2 bits; test_golden checks it with fractions.
"""

import struct
from ctypes import c_float
from functools import lru_cache
from hashlib import blake2b
from math import copysign, frexp, inf, isfinite, isnan, ldexp, nan

LEAST_NORMAL = 2.0**-126
LARGEST = (2 - 2.0**-23) * 2.0**127


def f32(value: float) -> float:
    """Binary64 to FP32, to nearest even, subnormals kept, overflow to Inf."""
    return c_float(value).value


def divide(a: float, b: float) -> float:
    """a / b in FP32, with the IEEE 754 answers where Python raises."""
    if b == 0:
        return nan if a == 0 or isnan(a) else copysign(inf, a) * copysign(1, b)
    return f32(a / b)


def bits_of(value: float) -> int:
    """The 32 bits of an FP32 number."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def from_bits(bits: int) -> float:
    """The FP32 number of 32 bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _rounded(value: float, significand: int, least: int, maximum: float, beyond: float) -> float:
    """To nearest even with `significand` bits, none below 2**least; above `maximum`: `beyond`."""
    if not isfinite(value) or value == 0:
        return value if abs(value) != inf else copysign(beyond, value)
    unit = max(frexp(value)[1] - significand, least)
    magnitude = ldexp(round(ldexp(abs(value), -unit)), unit)
    return copysign(magnitude if magnitude <= maximum else beyond, value)


def bf16(value: float) -> float:
    """FP32 to BF16."""
    return _rounded(value, 8, -133, (2 - 2.0**-7) * 2.0**127, inf)


def tf32(value: float) -> float:
    """FP32 to TF32: the exponents of FP32, a significand of 11 bits."""
    return _rounded(value, 11, -136, (2 - 2.0**-10) * 2.0**127, inf)


def fp16(value: float) -> float:
    """FP32 to FP16."""
    return _rounded(value, 11, -24, 65504.0, inf)


def e4m3(value: float) -> float:
    """FP32 to E4M3, at most 448."""
    return _rounded(value, 4, -9, 448.0, 448.0)


@lru_cache(maxsize=4096)
def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011)."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (
            (right >> 32) ^ b ^ k0,
            right & 0xFFFFFFFF,
            (left >> 32) ^ d ^ k1,
            left & 0xFFFFFFFF,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return a, b, c, d


KNOWN_PHILOX = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)
"""Counter, key and output of the authors' published known-answer tests."""


def digest(purpose: str, size: int, *parts: object) -> bytes:
    """BLAKE2b of the parts with zero bytes between them, personalised with the purpose."""
    text = "\0".join(str(part) for part in parts)
    return blake2b(text.encode(), digest_size=size, person=purpose.encode()).digest()


def draw(key: int, row: int, column: int, columns: int, bits: int, half_offset: bool) -> float:
    """u of the element [row, column] of an operand with `columns` along the contraction axis."""
    run, i = row * -(-columns // 16) + column // 16, column % 16
    call = {8: 0, 16: i // 8, 24: i // 4}[bits]
    words = philox((run % 2**32, run // 2**32, call, 0), (key % 2**32, key // 2**32))
    match bits:
        case 8:
            b = (words[i // 4] >> 8 * (i % 4)) & 255
        case 16:
            b = (words[i % 8 // 2] >> 16 * (i % 2)) & 65535
        case _:
            b = words[i % 4] >> 8
    return f32((b + (0.5 if half_offset else 1.0)) / 2**bits)
