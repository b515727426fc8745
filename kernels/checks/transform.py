"""Whether the random Hadamard transform is what it should be, for each size.

    R = rotate(identity)       [n, n], row i the transform of the i-th unit vector

    R = D H / sqrt(n)                  with H[i, j] = (-1)^popcount(i & j)
    R R^T = 1, x R R^T = x             orthogonal, and undone by its transpose
    rotate(a) rotate(b)^T = a b^T      cancels in a product over a longer axis, not square

Products are taken in binary64 on the CPU, so that the deviations seen are the transform's alone.
"""

from math import sqrt

import torch
from torch import Tensor

from kernels.hadamard import Rotation, random_signs, rotate
from kernels.recipes import RHT_SIZES, Signs
from kernels.verdict import Check

TOLERANCE = 2.0**-20
"""Of an element of order one: log2(128) + 2 roundings of 2^-24 each, with room."""


def transforms(device: torch.device) -> Check:
    """Every size, with random signs."""
    worst = {size: _deviations(size, device) for size in RHT_SIZES}
    size, (what, deviation) = max(worst.items(), key=lambda item: item[1][1])
    sizes = ", ".join(map(str, RHT_SIZES))
    if deviation <= TOLERANCE:
        detail = (
            f"RHTs of {sizes} are orthogonal, inverted by their transposes and cancel in a "
            f"product, within {deviation:.1e}"
        )
        return Check(name="rht", passed=True, detail=detail)
    detail = f"the RHT of {size} {what} by {deviation:.1e}, more than {TOLERANCE:.1e}"
    return Check(name="rht", passed=False, detail=detail)


def _deviations(size: int, device: torch.device) -> tuple[str, float]:
    """The largest deviation of one size, and what it is of; NaN counts as infinite."""
    signs = random_signs(
        Signs.LAYER, seed=0, layer="preflight", gemm="wgrad", step=0, microbatch=0, size=size
    )

    def turned(x: Tensor) -> Tensor:
        return rotate(x.to(device), Rotation(signs)).cpu().double()

    matrix = turned(torch.eye(size))
    generator = torch.Generator().manual_seed(size)
    a, b = (torch.randn(rows, 2 * size, generator=generator) for rows in (24, 40))
    a, b = (x / x.norm(dim=1, keepdim=True) for x in (a, b))
    back = (turned(a).view(-1, size) @ matrix.T).view(a.shape)
    found = {
        "differs from signs and Hadamard's matrix": matrix - _defined(signs),
        "is not orthogonal": matrix @ matrix.T - torch.eye(size),
        "is not undone by its transpose": back - a,
        "does not cancel in a product": turned(a) @ turned(b).T - a.double() @ b.double().T,
    }
    largest = {
        what: error.abs().nan_to_num(torch.inf).max().item() for what, error in found.items()
    }
    return max(largest.items(), key=lambda item: item[1])


def _defined(signs: tuple[float, ...]) -> Tensor:
    size = len(signs)
    parity = [[(i & j).bit_count() % 2 for j in range(size)] for i in range(size)]
    hadamard = 1 - 2 * torch.tensor(parity, dtype=torch.float64)
    return torch.tensor(signs, dtype=torch.float64).view(-1, 1) * hadamard / sqrt(size)
