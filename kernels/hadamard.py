"""Random Hadamard transform (RHT): what spreads an outlier over its block before rounding.

    y = x D H / sqrt(n)      D = diag(signs), H = Sylvester's Hadamard matrix of size n

applied to each run of n elements along an axis. D H / sqrt(n) is orthogonal, so two operands that
share it along their contraction axis have the product of the originals.

The arithmetic is fixed so that every implementation gives the same bits: multiply by the signs;
for stride 1, 2, 4, ... n/2 replace (a, b), `stride` apart, by (a + b, a - b); multiply by
1/sqrt(n) rounded to FP32. All of it in FP32, each operation rounded; where the recipe asks for it
the result is rounded to BF16.

Source: UFP4 (arXiv 2606.20381), H' = S H with S of random signs; TransformerEngine's NVFP4 for one
vector of signs and BF16 results.
"""

from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt

import torch
from torch import Tensor

from kernels.recipes import Rht, Signs


@dataclass(frozen=True, slots=True)
class Rotation:
    """The RHT of one GEMM at one step.

    Attributes:
        signs: +1 and -1, the diagonal of D; their number is the size, a power of two.
        to_bf16: Whether the result is rounded to BF16.
    """

    signs: tuple[float, ...]
    to_bf16: bool = False


def rotation(
    rht: Rht | None, *, seed: int, layer: str, gemm: str, step: int, microbatch: int
) -> Rotation | None:
    """The transform that a GEMM's RHT stands for; arguments as in `random_signs`."""
    if rht is None:
        return None
    signs = random_signs(
        rht.signs,
        seed=seed,
        layer=layer,
        gemm=gemm,
        step=step,
        microbatch=microbatch,
        size=rht.size,
    )
    return Rotation(signs, rht.to_bf16)


def random_signs(
    kind: Signs, *, seed: int, layer: str, gemm: str, step: int, microbatch: int, size: int
) -> tuple[float, ...]:
    """The +1 and -1 of D.

    The fields that the kind depends on are hashed as UTF-8 text that a zero byte separates; sign i
    is negative where bit i of the digest is set, bit 0 being the lowest of the first byte.

    Args:
        kind: What the signs depend on.
        seed: The run's RHT seed.
        layer: The name of the linear layer.
        gemm: `fprop`, `dgrad` or `wgrad`.
        step: Optimizer step.
        microbatch: Position within the step.
        size: n, at most 128.
    """
    bits = sign_bits(
        kind, seed=seed, layer=layer, gemm=gemm, step=step, microbatch=microbatch, size=size
    )
    return tuple(-1.0 if bits >> place & 1 else 1.0 for place in range(size))


def sign_bits(
    kind: Signs, *, seed: int, layer: str, gemm: str, step: int, microbatch: int, size: int
) -> int:
    """The same as bits of one number, 1 where a sign is negative, sign 0 in the lowest."""
    match kind:
        case Signs.NONE:
            return 0
        case Signs.FIXED:
            text = f"{seed}"
        case Signs.LAYER:
            text = f"{seed}\0{layer}\0{gemm}"
        case Signs.STEP:
            text = f"{seed}\0{layer}\0{gemm}\0{step}\0{microbatch}"
    digest = blake2b(text.encode(), digest_size=16, person=b"rht").digest()
    return int.from_bytes(digest, "little") & (1 << size) - 1


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """RHT of each run of n elements along the last axis.

    Args:
        x: [..., k] FP32, k a multiple of n.
        rotation: The signs, whose number is n.

    Returns:
        A new tensor of x's shape, FP32.

    Raises:
        ValueError: If k is not a multiple of n.
    """
    size = len(rotation.signs)
    if x.shape[-1] % size:
        raise ValueError(
            f"an RHT of {size} elements does not divide an axis of {x.shape[-1]} into whole runs"
        )
    matrix = x.reshape(-1, x.shape[-1])
    out = torch.empty_like(matrix, dtype=torch.float32)
    height = len(matrix)
    if x.device.type == "cpu":
        height = max(1, _PANEL // x.shape[-1])
    for first in range(0, len(matrix), height):
        # One vector instruction then serves neighbouring rows, all at the same place of theirs.
        lanes = _butterflies(matrix[first : first + height].t().contiguous(), rotation.signs)
        lanes = lanes.to(torch.bfloat16) if rotation.to_bf16 else lanes
        out[first : first + height] = lanes.t()
    return out.reshape(x.shape)


_PANEL = 1 << 17
"""Elements transformed at once, so that they stay in a processor's cache; no effect on bits."""


def _butterflies(lanes: Tensor, signs: tuple[float, ...]) -> Tensor:
    """RHT of each run of n along the first axis of [k, rows]."""
    (length, rows), size = lanes.shape, len(signs)
    factors = torch.tensor(signs, dtype=torch.float32, device=lanes.device).view(size, 1)
    lanes = lanes.view(-1, size, rows) * factors
    scratch = torch.empty_like(lanes)
    stride = 1
    while stride < size:
        shape = (length // (2 * stride), 2, stride, rows)
        first, second = lanes.view(shape).unbind(1)
        total, difference = scratch.view(shape).unbind(1)
        torch.add(first, second, out=total)
        torch.sub(first, second, out=difference)
        lanes, scratch = scratch, lanes
        stride *= 2
    return lanes.mul_(1 / sqrt(size)).view(length, rows)
