"""RoPE: pair (2i, 2i + 1) of a head turned by the angle position * base^(-2i / D).

    y[2i]     = x[2i] cos - x[2i + 1] sin
    y[2i + 1] = x[2i + 1] cos + x[2i] sin

Queries and keys are turned right after their norm, `workers.layers.norm.rms_norm` does both.
Source: Su et al. (arXiv 2104.09864).
"""

import torch
from torch import Tensor


def rotations(context: int, width: int, base: float) -> Tensor:
    """What turns a head at each position.

    Args:
        context: Positions.
        width: Features D of a head, an even number.
        base: Of the frequencies.

    Returns:
        FP32 [context, 2, D]: the cosine by which a feature is multiplied, and the sine by which the
        other one of its pair is, negative for the first of each pair.
    """
    half = width // 2
    frequency = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(context, dtype=torch.float64), frequency)
    cosines, sines = angle.cos(), angle.sin()
    pairs = torch.stack((cosines, cosines), -1), torch.stack((-sines, sines), -1)
    return torch.stack([pair.flatten(-2) for pair in pairs], 1).to(torch.float32)
