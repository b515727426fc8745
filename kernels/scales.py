"""Block scales: what brings a block onto its grid, and what brings it back.

    fp32        s = amax / target                                    q = x / s
    fp32-5bit   s = amax / target, up to a significand of five bits  q = x / s
    e8m0-...    s = 2**k                                             q = x / (s headroom)
    e4m3        s = E4M3(amax (S (1 / target)))                      q = x m
                S = min(c target / A, largest FP32), 1 if A = 0
                m = min(1 / (s (1 / S)), largest FP32)

with target = grid maximum / headroom, c = `scale_maximum` and A the largest magnitude of the
tensor, or of `outer` elements; s headroom is at most the largest FP32 number. Every operation is
one FP32 operation; docs/numerics.md is the contract.

Sources: OCP Microscaling Formats (MX) v1.0 for the floor rule and the range of E8M0, PTX's
`cvt.rp.ue8m0x2` for rceil; TransformerEngine's NVFP4 for the chain of E4M3; HiFloat4 for a scale of
few significant bits.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kernels.formats import E4M3, Grid
from kernels.operands import Operand, Scale
from kernels.rounding import round_nearest_, round_stochastic_

_LEAST_NORMAL = 2.0**-126
_LARGEST = float(np.finfo(np.float32).max)
_MANTISSA_BITS = 23
_MANTISSA = 0x7FFFFF
_BIAS = 127


class Scales(NamedTuple):
    """The scales of blocks, FP32, in the shape in which their largest magnitudes came.

    Attributes:
        stored: s; NaN for a block that becomes NaN.
        onto_grid: What a block's elements are divided by, or under E4M3 multiplied by.
        inverse: 1 / S, in that shape or of no axis; None where there is no scale above the block's.
    """

    stored: Tensor
    onto_grid: Tensor
    inverse: Tensor | None = None

    def scaled(self, x: Tensor) -> Tensor:
        """q, not clipped, of elements whose shape the scales' extends to."""
        return x / self.onto_grid if self.inverse is None else x * self.onto_grid

    @property
    def applied(self) -> Tensor:
        """What q becomes x by: s with the scale above it."""
        return self.stored if self.inverse is None else self.stored * self.inverse


def tensor_scale(amax: Tensor, operand: Operand) -> Tensor:
    """S of those whose largest magnitude is A under an E4M3 scale; NaN where A is not finite."""
    assert operand.grid is not None
    most = _constant(operand.scale_maximum * operand.target, amax.device)
    scale = (most / amax).clamp_(max=_LARGEST).masked_fill_(amax == 0, 1.0)
    return scale.masked_fill_(~amax.isfinite(), torch.nan)


def block_scales(
    amax: Tensor, operand: Operand, above: Tensor | None = None, *, target: float | None = None
) -> Scales:
    """Scales of blocks.

    Args:
        amax: [...] FP32, the largest magnitude of each block.
        operand: Grid, scale and headroom.
        above: S under an E4M3 scale, [...] or of no axis.
        target: What a block's maximum is scaled to, in binary64; None for the operand's own.
    """
    assert operand.grid is not None
    target = operand.target if target is None else target
    match operand.scale:
        case Scale.FP32 | Scale.FP32_5BIT:
            stored = amax / _constant(target, amax.device)
            if operand.scale is Scale.FP32_5BIT:
                stored = _up_to_five_bits(stored)
            stored.masked_fill_(~stored.isfinite(), torch.nan)
            # A zero or a tiny block: its elements become zeros, each with its sign.
            return Scales(stored, stored.masked_fill(stored < _LEAST_NORMAL, torch.inf))
        case Scale.E4M3:
            assert above is not None
            inverse = 1 / above
            stored = nearest_e4m3(amax * (above * _constant(1 / target, amax.device)))
            return Scales(stored, (1 / (stored * inverse)).clamp_(max=_LARGEST), inverse)
        case _:
            stored = power_of_two(_exponents(amax, operand.grid, operand.scale))
            stored.masked_fill_(~amax.isfinite(), torch.nan)
            onto_grid = stored * _constant(operand.headroom, amax.device)
            return Scales(stored, onto_grid.clamp_(max=_LARGEST))


def nearest_e4m3(x: Tensor) -> Tensor:
    """Non-negative numbers onto E4M3, to nearest, ties to even, at most 448; NaN stays."""
    return round_nearest_(x.clone(), torch.empty_like(x), E4M3)


def stochastic_e4m3(x: Tensor, draws: Tensor) -> Tensor:
    """Non-negative numbers onto E4M3 by SR, at most 448; NaN stays."""
    return round_stochastic_(x.clone(), draws, torch.empty_like(x), E4M3)


def power_of_two(exponents: Tensor) -> Tensor:
    """2**k in FP32 of int32 exponents from -127, which is subnormal, to 127."""
    normal = (exponents + _BIAS) << _MANTISSA_BITS
    return normal.masked_fill_(exponents == -_BIAS, 1 << (_MANTISSA_BITS - 1)).view(torch.float32)


def _exponents(amax: Tensor, grid: Grid, rule: Scale) -> Tensor:
    """The k of E8M0 scales, int32; of no meaning where amax is not finite."""
    if rule is Scale.E8M0_RCEIL:
        exponent, mantissa = _split(amax / _constant(grid.maximum, amax.device))
        k = exponent + (mantissa > 0)
    else:
        exponent, mantissa = _split(amax)
        match rule:
            case Scale.E8M0_CEIL:
                up = mantissa > 0
            case Scale.E8M0_EVEN:
                up = (
                    mantissa
                    >= (_MANTISSA + 1) - (1 << (_MANTISSA_BITS - 1)) // 2**grid.mantissa_bits
                )
            case _:
                up = torch.zeros_like(mantissa, dtype=torch.bool)
        k = exponent - grid.exponent + up
    return k.clamp_(-_BIAS, _BIAS).masked_fill_(amax == 0, -_BIAS)


def _split(size: Tensor) -> tuple[Tensor, Tensor]:
    """The e and the 23 bits of f - 1 in f 2**e, 1 <= f < 2, of positive numbers, subnormal too."""
    tiny = size < _LEAST_NORMAL
    bits = torch.where(tiny, size * 2.0**24, size).view(torch.int32)
    exponent = (bits >> _MANTISSA_BITS) - _BIAS - 24 * tiny.to(torch.int32)
    return exponent, bits & _MANTISSA


def _up_to_five_bits(scale: Tensor) -> Tensor:
    """Rounded up to a significand of five bits; what is not finite becomes Inf."""
    bits = scale.masked_fill(~scale.isfinite(), torch.inf).view(torch.int32)
    return ((bits + 0x7FFFF) & ~0x7FFFF).view(torch.float32)


def _constant(value: float, device: torch.device) -> Tensor:
    """A number rounded to FP32, Inf if it is too large, on the device.

    Division by a host number may become the product with its reciprocal.
    """
    return torch.full((), value, dtype=torch.float64, device=device).to(torch.float32)
