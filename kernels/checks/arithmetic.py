"""Whether a device keeps to IEEE 754 where the numerics rely on it.

    subnormals       neither read as zero nor flushed to it
    division         rounded to nearest even
    bf16 rounding    to nearest even, ties and subnormals included
    narrow products  matrices of BF16 and TF32 numbers: all their bits enter, sums are FP32
    fp32 products    all 24 bits of both factors enter a matrix product: no TF32, no BF16

The oracles are integers and binary64 on the CPU: a quotient of two FP32 numbers in binary64,
rounded once more, is the quotient rounded once, since 53 >= 2 * 24 + 2.
"""

import torch
from torch import Tensor

from kernels.checks.bits import equal_bits
from kernels.matmul import emulated_matmul
from kernels.recipes import Precision
from kernels.rounding import round_significand
from kernels.verdict import Check

_COUNT = 1 << 14


def subnormals(device: torch.device) -> Check:
    """2^-149 and its like survive addition, multiplication, division and a copy into FP32."""
    exponents = torch.arange(-149, -126).repeat(_COUNT // 23)
    # By bits, since making them by arithmetic would trust what is to be checked.
    tiny = (1 << (exponents + 149).to(torch.int32)).view(torch.float32)
    normal = _power_of_two(exponents + 24)
    there, raised = tiny.to(device), normal.to(device)
    scale = torch.full((), 2.0**24, device=device)
    got = torch.cat((there + there * 0, there * scale, raised / scale, raised * (1 / scale)))
    return equal_bits(
        "subnormals", "results with subnormals", got, torch.cat((tiny, normal, tiny, tiny))
    )


def division(device: torch.device) -> Check:
    """Quotients of random numbers, elementwise and by one divisor for all."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, _COUNT, generator=generator).unbind()
    one = torch.tensor(7.0)
    exact = torch.cat((a.double() / b.double(), a.double() / one.double()))
    there = a.to(device)
    got = torch.cat((there / b.to(device), there / one.to(device)))
    return equal_bits("division", "quotients", got, exact.to(torch.float32))


def bf16_rounding(device: torch.device) -> Check:
    """All positive BF16 numbers with what can follow them: below, at and above the tie."""
    high = torch.arange(0, 0x7F80, 3, dtype=torch.int32)
    bits = torch.cat([(high << 16) + low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    bits = torch.cat((bits, bits | -0x80000000))
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
    got = bits.view(torch.float32).to(device).to(torch.bfloat16).to(torch.float32)
    return equal_bits("bf16 rounding", "numbers", got, nearest.view(torch.float32))


def narrow_products(device: torch.device) -> Check:
    """Matrices times the identity on either side, and integers whose sums have up to 16 bits."""
    generator = torch.Generator().manual_seed(4)
    got, expected = [], []
    for precision in (Precision.BF16, Precision.TF32):
        whole = torch.randn(64, 64, generator=generator)
        matrix, one = round_significand(whole, precision.dropped_bits), torch.eye(64)
        a, b = torch.randint(-31, 32, (2, 64, 64), generator=generator)
        for left, right in ((matrix, one), (one, matrix), (a.float(), b.float())):
            got.append(emulated_matmul(left.to(device), right.to(device), precision))
        expected += [matrix, matrix, (a.double() @ b.double()).float()]
    what = "elements of BF16 and TF32 matrix products"
    return equal_bits("narrow products", what, torch.cat(got), torch.cat(expected))


def fp32_products(device: torch.device) -> Check:
    """A matrix times the identity, and the identity times it, are the matrix."""
    matrix = torch.randn(128, 128, generator=torch.Generator().manual_seed(2))
    there, identity = matrix.to(device), torch.eye(128, device=device)
    got = torch.cat((torch.mm(there, identity), torch.mm(identity, there)))
    return equal_bits(
        "fp32 products", "elements of FP32 matrix products", got, torch.cat((matrix, matrix))
    )


def _power_of_two(exponents: Tensor) -> Tensor:
    """Normal powers of two by their bits."""
    return ((exponents.to(torch.int32) + 127) << 23).view(torch.float32)
