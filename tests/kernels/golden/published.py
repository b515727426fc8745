"""Two published scale chains in vectorised numpy, as a second expectation beside the oracle.

    nvfp4(x)                1x16 blocks of E2M1, TransformerEngine's reference quantizer
    mxfp(x, mode, ...)      1x32 blocks under E8M0, torchao's modes FLOOR, CEIL, EVEN, RCEIL

Written from what these libraries compute, not from docs/numerics.md; casts to E4M3, E2M1 and the
like are those of ml_dtypes, of values within their range.

Sources: TransformerEngine d0067d0, the NVFP4 reference quantizer; torchao 050515e, to_mx.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

FP32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element type: its ml_dtypes scalar, its largest number, and that number's exponent."""

    dtype: type
    maximum: float
    exponent: int
    mantissa_bits: int


ELEMENTS = {
    "e2m1": Element(dtype=ml_dtypes.float4_e2m1fn, maximum=6, exponent=2, mantissa_bits=1),
    "e2m3": Element(dtype=ml_dtypes.float6_e2m3fn, maximum=7.5, exponent=2, mantissa_bits=3),
    "e3m2": Element(dtype=ml_dtypes.float6_e3m2fn, maximum=28, exponent=4, mantissa_bits=2),
    "e4m3": Element(dtype=ml_dtypes.float8_e4m3fn, maximum=448, exponent=8, mantissa_bits=3),
    "e5m2": Element(dtype=ml_dtypes.float8_e5m2, maximum=57344, exponent=15, mantissa_bits=2),
}


def _cast(x: FP32, element: Element) -> FP32:
    clipped = np.clip(x, -np.float32(element.maximum), np.float32(element.maximum))
    cast: FP32 = clipped.astype(element.dtype).astype(np.float32)
    return cast


def nvfp4(x: FP32) -> tuple[FP32, np.float32]:
    """Decoded elements times their block scale, and the decoding tensor scale."""
    largest = np.finfo(np.float32).max
    amax = np.abs(x).max()
    with np.errstate(divide="ignore", over="ignore"):
        encode = np.minimum(np.float32(448 * 6) / amax, largest)
        if amax == 0 or encode == 0:
            encode = np.float32(1)
        blocks = x.reshape(x.shape[0], -1, 16)
        block_amax = np.abs(blocks).max(axis=2, keepdims=True)
        scale = _cast(block_amax * (encode * np.float32(1 / 6)), ELEMENTS["e4m3"])
        decode = np.float32(1) / encode
        multiplier = np.minimum(np.float32(1) / (scale * decode), largest)
        elements = _cast(blocks * multiplier, ELEMENTS["e2m1"])
    return (elements * scale).reshape(x.shape), decode


def mxfp(x: FP32, mode: str, element: Element) -> FP32:
    """Decoded elements times their power of two."""
    blocks = x.reshape(x.shape[0], -1, 32)
    amax = np.abs(blocks).max(axis=2, keepdims=True)
    if mode == "rceil":
        descale = (amax * np.float32(1 / element.maximum)).view(np.int32)
        biased, mantissa = descale >> 23, descale & 0x7FFFFF
        biased = biased + np.where(biased == 0, mantissa > 0x400000, mantissa != 0)
    else:
        bits = amax.view(np.int32)
        if mode == "even":
            bits = (bits + (1 << (22 - element.mantissa_bits))) & -(1 << 23)
        power = (bits >> 23) - 127
        if mode == "ceil":
            power = power + ((bits & 0x7FFFFF) > 0)
        biased = np.clip(power - element.exponent, -127, 127) + 127
    elements = _cast(np.ldexp(blocks, 127 - biased).astype(np.float32), element)
    decoded: FP32 = np.ldexp(elements, biased - 127).astype(np.float32).reshape(x.shape)
    return decoded
