"""Comparing results bit for bit, and the sentence about it."""

import torch
from torch import Tensor

from kernels.verdict import Check


def differing(got: Tensor, expected: Tensor) -> Tensor:
    """Where two FP32 tensors differ in a bit, as booleans on the CPU; all NaN count as one."""
    got, expected = got.cpu(), expected.cpu()
    return (got.view(torch.int32) != expected.view(torch.int32)) & ~(got.isnan() & expected.isnan())


def equal_bits(name: str, what: str, got: Tensor, expected: Tensor) -> Check:
    """Whether all results are the expected ones; else the first that is not.

    Args:
        name: Of the check.
        what: A plural, as in `quotients`.
        got: FP32, on any device.
        expected: FP32, the same shape.
    """
    wrong = differing(got, expected).flatten()
    count, total = int(wrong.sum()), wrong.numel()
    if count == 0:
        return Check(name=name, passed=True, detail=f"all {total:,} {what} are right to the bit")
    place = int(wrong.nonzero()[0])
    first, right = (_shown(tensor.flatten()[place]) for tensor in (got, expected))
    return Check(
        name=name,
        passed=False,
        detail=f"{count:,} of {total:,} {what} are wrong; the first is {first} and not {right}",
    )


def _shown(number: Tensor) -> str:
    # The bits too: a subnormal that is read as zero also prints as zero.
    bits = int(number.cpu().view(torch.int32)) & 0xFFFFFFFF
    return f"{number.item()!r} (bits {bits:08x})"
