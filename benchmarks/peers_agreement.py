"""How far two quantizers agree, and the tensors on which that is asked.

    equal   share of elements that are the same number, ours rounded once to the type that the peer
            returns; zeros of both signs are equal
    near    share within 1/64 of each other. Neighbours on a grid, and neighbouring block scales,
            are at least 1/16 apart, so that these have the same code and the same scale, but for
            how often a product was rounded.

`tailed` is what quantizers are for; `wide` has rows from 1 down to 2**-30, and rows of zeros, which
shows the ends of a scale's range; `on_grid` has the scale 1 under `e8m0-floor`, and many elements
half-way between two magnitudes, for what rounds elements alone.
"""

import torch
from torch import Tensor

from benchmarks.peers_quantizer import Peer, Quantizer
from kernels.formats import Grid
from kernels.operands import Scale
from kernels.synthetic import outlier_entries

_NEAR = 1 / 64


def tailed(rows: int, columns: int) -> Tensor:
    """[rows, columns] BF16: Gaussian, 0.5 % of the entries times 100."""
    return outlier_entries(rows, columns, _generator()).to(torch.bfloat16)


def wide(rows: int, columns: int) -> Tensor:
    """[rows, columns] BF16: Gaussian, row r times 2**(-30 r / rows), each 16th row zero."""
    x = torch.randn(rows, columns, generator=_generator())
    x *= torch.exp2(-30 * torch.arange(rows) / rows).unsqueeze(1)
    x[::16] = 0
    return x.to(torch.bfloat16)


def on_grid(rows: int, columns: int, grid: Grid) -> Tensor:
    """[rows, columns] FP32 within the grid, whose maximum is the first of each 16 elements.

    A quarter of the others lies exactly half-way between two magnitudes; the rest is spread over
    all magnitudes alike, between them.
    """
    generator, maximum = _generator(), grid.maximum
    magnitudes = torch.tensor(grid.magnitudes)
    halves = (magnitudes[1:] + magnitudes[:-1]) / 2
    low = torch.randint(len(halves), (rows, columns), generator=generator)
    place = torch.rand(rows, columns, generator=generator)
    between = magnitudes[low] + place * (magnitudes[low + 1] - magnitudes[low])
    x = torch.where(torch.rand(rows, columns, generator=generator) < 0.25, halves[low], between)
    x = torch.where(torch.rand(rows, columns, generator=generator) < 0.5, -x, x)
    x[:, ::16] = maximum
    return x


def shares(peer: Peer, quantizer: Quantizer, x: Tensor) -> dict[str, float] | None:
    """`equal` and `near` on a matrix; None for a peer that rounds by SR, whose draws are its own.

    Raises:
        ValueError: If a peer without scales is asked of a matrix that needs others than 1.
    """
    if peer.is_stochastic:
        return None
    if not peer.computes_scales:
        _check_scale_is_one(peer, x)
    theirs = quantizer(x)
    ours = peer.ours(x).to(theirs.dtype).to(torch.float64)
    theirs = theirs.to(torch.float64)
    near = (ours - theirs).abs() <= _NEAR * ours.abs()
    return {"equal": _share(ours == theirs), "near": _share(near)}


def _check_scale_is_one(peer: Peer, x: Tensor) -> None:
    grid = peer.operand.grid
    assert grid is not None
    amax = x.view(len(x), -1, peer.operand.block.along or x.shape[1]).abs().amax(-1)
    if peer.operand.scale is not Scale.E8M0_FLOOR or not (amax == grid.maximum).all():
        raise ValueError(f"the blocks of x must reach {grid.maximum} under e8m0-floor")


def _share(holds: Tensor) -> float:
    return int(holds.sum()) / holds.numel()


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
