"""Whether stochastic rounding is unbiased on a device and its streams are distinct.

    mean       elements at f = 1/16 ... 15/16 of a bin go up a share f of the time, within 4 sigma
               of n draws, sigma = sqrt(f (1 - f) / n)
    streams    elements half-way between two neighbours go up or down, +1 or -1: a sequence that
               correlates neither with itself at any distance, which a generator that counts or
               forgets its tile would, nor at any distance with that of another step, microbatch,
               layer, GEMM, operand or seed

Correlations over n elements have sigma 1 / sqrt(n); the largest of n of them stays below 6 sigma.
All draws are fixed by their keys, so a device passes always or never.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from kernels import ops
from kernels.formats import E2M1, INT4, Grid
from kernels.operands import Operand, Rounding
from kernels.philox import RUN, philox4x32, stream_key
from kernels.verdict import Check

PLACES = RUN - 1
"""Elements of a block that are drawn; the first holds the grid's maximum, so the scale is one."""

BLOCKS = 4096
BASE: dict[str, Any] = {
    "seed": 0, "step": 7, "microbatch": 0, "layer": "blocks.0.mlp.down", "gemm": "dgrad",
    "operand": "dy",
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "seed": 1, "step": 8, "microbatch": 1, "layer": "blocks.1.mlp.down", "gemm": "wgrad",
    "operand": "x",
}  # fmt: skip

KNOWN_WORDS = (
    (0x00000000, 0x0000000000000000, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
)
"""All counter words alike, key, result: the vectors published with Philox4x32-10."""


def generator(device: torch.device) -> Check:
    """The published words of Philox4x32-10 come out of the device."""
    for word, key, expected in KNOWN_WORDS:
        counter = torch.full((4, 1), word, dtype=torch.int64, device=device)
        got = " ".join(f"{each:08x}" for each in philox4x32(counter, key).flatten().tolist())
        if got != expected:
            detail = f"Philox4x32-10 of key {key:#x} gave {got} instead of {expected}"
            return Check(name="generator", passed=False, detail=detail)
    detail = f"Philox4x32-10 gives {4 * len(KNOWN_WORDS)} published words"
    return Check(name="generator", passed=True, detail=detail)


def mean(device: torch.device) -> Check:
    """Shares that go up, for both four-bit grids and each number of random bits."""
    cases = ((E2M1, 8), (INT4, 8), (INT4, 16), (INT4, 24))
    found = [deviation for grid, bits in cases for deviation in _shares(grid, bits, device)]
    sigmas, told = max(found, key=lambda item: item[0])
    passed = sigmas <= 4
    detail = f"of {len(found)} means of SR the furthest is {sigmas:.1f} sigma off: {told}"
    return Check(name="sr mean", passed=passed, detail=detail)


def streams(device: torch.device) -> Check:
    """A stream against itself, its repetition, and one for each thing that tells streams apart."""
    base = _coins(stream_key(**BASE), device)
    again = _coins(stream_key(**BASE), device)
    if not torch.equal(base, again):
        detail = "the same key gave other draws the second time"
        return Check(name="sr streams", passed=False, detail=detail)
    found = {"itself at another distance": _correlation(base, base)}
    for word, value in OTHERS.items():
        other = _coins(stream_key(**BASE | {word: value}), device)
        found[f"that of another {word}"] = _correlation(base, other)
    whose, largest = max(found.items(), key=lambda item: item[1])
    sigmas = largest * sqrt(base.numel())
    detail = (
        f"over {base.numel():,} draws at every distance a stream correlates most with {whose}, "
        f"{largest:.3f} or {sigmas:.1f} sigma"
    )
    return Check(name="sr streams", passed=sigmas <= 6, detail=detail)


def _shares(grid: Grid, bits: int, device: torch.device) -> Iterator[tuple[float, str]]:
    """How many sigma off the share that went up is, for each position in the bins."""
    magnitudes = torch.tensor(grid.magnitudes)
    position = torch.arange(1, RUN) / RUN
    low, high = (side[torch.arange(BLOCKS) % (len(magnitudes) - 1)].view(-1, 1)
                 for side in (magnitudes[:-1], magnitudes[1:]))  # fmt: skip
    rounded = _rounded(low + position * (high - low), grid, bits, stream_key(**BASE), device)
    up = rounded == high
    if not bool((up | (rounded == low)).all()):
        yield torch.inf, f"{grid.name} elements left their two neighbours"
    for place, share in enumerate(up.double().mean(0).tolist()):
        f = (place + 1) / RUN
        sigmas = abs(share - f) / sqrt(f * (1 - f) / BLOCKS)
        yield (
            sigmas,
            f"{share:.4f} of {BLOCKS:,} {grid.name} elements at {f:.4f} went up, {bits} bits",
        )


def _coins(key: int, device: torch.device) -> Tensor:
    """+1 and -1 for elements half-way between two neighbours, in the order of the elements."""
    rounded = _rounded(torch.full((BLOCKS, PLACES), 0.5), INT4, 8, key, device)
    return (2 * rounded - 1).flatten()


def _rounded(x: Tensor, grid: Grid, bits: int, key: int, device: torch.device) -> Tensor:
    """SR of [blocks, places] under a scale of one, on the CPU."""
    operand = Operand(grid=grid, rounding=Rounding.SR, random_bits=bits)
    blocks = torch.cat((torch.full((len(x), 1), grid.maximum), x), dim=1).view(-1, 4 * RUN)
    rounded = ops.fake_quantize(blocks.to(device), operand, key).values.cpu()
    return rounded.view(-1, RUN)[:, 1:]


def _correlation(a: Tensor, b: Tensor) -> float:
    """Largest correlation of two sequences of +1 and -1 at any distance, but for a with itself."""
    spectra = torch.fft.rfft(torch.stack((a, b)).double())
    products = torch.fft.irfft(spectra[0] * spectra[1].conj(), a.numel()) / a.numel()
    if a is b:
        products[0] = 0
    return float(products.abs().nan_to_num(torch.inf).max())
