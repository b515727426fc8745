"""Random Hadamard transform (RHT): what spreads an outlier over its block before rounding.

    y = x D H / sqrt(n)      D = diag(signs), H = Sylvester's Hadamard matrix of size n

applied to each run of n elements along an axis. D H / sqrt(n) is orthogonal, so two operands that
share it along their contraction axis have the product of the originals.

The arithmetic is fixed so that every implementation gives the same bits: multiply by the signs;
for stride 1, 2, 4, ... n/2 replace (a, b), `stride` apart, by (a + b, a - b); multiply by
1/sqrt(n) rounded to FP32. All of it in FP32, each operation rounded.

Source: UFP4 (arXiv 2606.20381), H' = S H with S of random signs.
"""

from hashlib import blake2b
from math import sqrt

import torch
from torch import Tensor


def random_signs(*, seed: int, layer: str, gemm: str, size: int) -> tuple[float, ...]:
    """The +1 and -1 of D, fixed for the whole of a run.

    Seed, layer and GEMM are hashed as UTF-8 text that a zero byte separates; sign i is negative
    where bit i of the digest is set, bit 0 being the lowest of the first byte.

    Args:
        seed: The run's RHT seed.
        layer: The name of the linear layer.
        gemm: `fprop`, `dgrad` or `wgrad`.
        size: n, at most 128.
    """
    text = "\0".join((str(seed), layer, gemm))
    bits = int.from_bytes(
        blake2b(text.encode(), digest_size=16, person=b"rht").digest(), byteorder="little"
    )
    return tuple(-1.0 if bits >> place & 1 else 1.0 for place in range(size))


def rotate(x: Tensor, signs: tuple[float, ...]) -> Tensor:
    """RHT of each run of len(signs) elements along the last axis.

    Args:
        x: [..., k] FP32, k a multiple of len(signs).
        signs: +1 and -1; their number is a power of two.

    Returns:
        A new tensor of x's shape, FP32.
    """
    size = len(signs)
    lanes = x.reshape(1, -1, size).transpose(1, 2).contiguous()
    rotated, _ = rotate_lanes(lanes, torch.empty_like(lanes), signs)
    return rotated.transpose(1, 2).reshape(x.shape)


def rotate_lanes(lanes: Tensor, scratch: Tensor, signs: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """RHT along the middle axis, where one vector instruction serves neighbouring lanes.

    Args:
        lanes: [c, k, l] FP32, contiguous, k a multiple of len(signs); overwritten.
        scratch: The same shape, contiguous; overwritten.
        signs: +1 and -1; their number is a power of two.

    Returns:
        The result and the buffer that is free, which are `lanes` and `scratch` in some order.
    """
    outer, length, width = lanes.shape
    size = len(signs)
    lanes.view(-1, size, width).mul_(
        torch.tensor(signs, dtype=lanes.dtype, device=lanes.device).view(size, 1)
    )
    stride = 1
    while stride < size:
        shape = (outer * length // (2 * stride), 2, stride, width)
        first, second = lanes.view(shape).unbind(1)
        total, difference = scratch.view(shape).unbind(1)
        torch.add(first, second, out=total)
        torch.sub(first, second, out=difference)
        lanes, scratch = scratch, lanes
        stride *= 2
    return lanes.mul_(1 / sqrt(size)), scratch
