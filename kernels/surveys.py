"""Surveys: quantizers on the distributions of `kernels.synthetic`, where what they do is known.

    tensors    [samples / 1024, 1024], one draw of each distribution, blocks along the 1024
    products   x [256, 2048] by Gaussian w [256, 2048], blocks and RHT along the 2048
    bias       each level of a grid on Gaussian blocks of 16

Generators are seeded: as many samples give the same numbers again.

Source: the comparison of E2M1 with uniform grids in UFP4 (arXiv 2606.20381).
"""

from collections.abc import Iterator
from itertools import product
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from kernels.bias import GridBias, Level, bin_bias
from kernels.blocks import Block
from kernels.codes import encoded
from kernels.formats import E2M1, GRIDS, INT4, Grid
from kernels.hadamard import Rotation, random_signs
from kernels.measures import quality, sqnr_and_gain
from kernels.operands import Operand, Rounding, Scale
from kernels.ops import fake_quantize
from kernels.quality import Survey, Surveyed, SurveyedProduct
from kernels.recipes import Signs
from kernels.synthetic import DISTRIBUTIONS, gaussian

COLUMNS = 1024
TOKENS, FEATURES, OUTPUTS = 256, 2048, 256
DRAWS = 16
COMPARED = (E2M1, INT4)
MULTIPLIED = ("gaussian", "swiglu", "channels")


def survey(samples: int) -> Survey:
    """SQNR and gain of E2M1 and uniform blocks, without and with an RHT of 16.

    Args:
        samples: Elements of each tensor, a multiple of 1024.
    """
    return Survey(
        samples=samples,
        draws=DRAWS,
        tensors=tuple(row for data in DISTRIBUTIONS for row in tensor_rows(data, samples)),
        products=tuple(row for data in MULTIPLIED for row in product_rows(data, DRAWS)),
    )


def surveyed(
    data: str, x: Tensor, operand: Operand, rht: int | None = None, *, key: int = 0
) -> Surveyed:
    """A tensor under a quantizer.

    Args:
        data: What it is called.
        x: [rows, columns], blocks along the columns.
        operand: The quantizer.
        rht: Size of the Hadamard matrix, or None.
        key: Of the draws of SR.
    """
    assert operand.grid is not None
    return Surveyed(
        data=data,
        format=operand.grid.name,
        block=str(operand.block),
        scale=operand.scale.value,
        rounding=operand.rounding.value,
        rht=rht,
        quality=quality(x, operand, rotation=_rotation(rht), key=key),
    )


def grid_bias(grid: Grid, samples: int) -> GridBias:
    """Occupancy and mean error of each level on Gaussian blocks of 16 under an FP32 scale.

    Args:
        grid: The levels.
        samples: Elements drawn, a multiple of 1024.
    """
    x = gaussian(samples // COLUMNS, COLUMNS, Generator().manual_seed(0))
    magnitudes = torch.tensor(grid.magnitudes, dtype=torch.float64)
    counts, errors = torch.zeros(2, len(magnitudes), dtype=torch.float64)
    for panel in encoded(x, Operand(grid=grid)):
        level = panel.codes.abs().flatten().long()
        moved = magnitudes[level] - panel.scaled.abs().flatten().double()
        counts += torch.bincount(level, minlength=len(magnitudes))
        errors += torch.bincount(level, moved, minlength=len(magnitudes))
    return GridBias(
        format=grid.name,
        samples=samples,
        levels=tuple(
            Level(
                magnitude=magnitude,
                bias=bias,
                occupancy=count / samples,
                error=error / count if count else None,
            )
            for magnitude, bias, count, error in zip(
                grid.magnitudes, bin_bias(grid), counts.tolist(), errors.tolist(), strict=True
            )
        ),
    )


def _rotation(rht: int | None) -> Rotation | None:
    if rht is None:
        return None
    signs = random_signs(Signs.FIXED, seed=0, layer="", gemm="", step=0, microbatch=0, size=rht)
    return Rotation(signs)


def tensor_rows(data: str, samples: int) -> Iterator[Surveyed]:
    """A distribution under each grid; for Gaussian ones also what else there is to a quantizer."""
    x = DISTRIBUTIONS[data](samples // COLUMNS, COLUMNS, Generator().manual_seed(0))
    for grid, rht in product(COMPARED, (None, 16)):
        yield surveyed(data, x, Operand(grid=grid), rht)
    if data != "gaussian":
        return
    yield surveyed(data, x, Operand(grid=GRIDS["e3m0"]))
    for grid in COMPARED:
        yield surveyed(data, x, Operand(grid=grid, rounding=Rounding.SR))
    for grid, along, scale in product(COMPARED, (16, 32), Scale):
        if (along, scale) != (16, Scale.FP32):
            yield surveyed(data, x, Operand(grid=grid, block=Block(along=along), scale=scale))


class _Case(NamedTuple):
    """How the operands of a product are quantized."""

    rht: int | None
    grid: Grid
    scale: Scale


def product_rows(data: str, draws: int) -> Iterator[SurveyedProduct]:
    """Means over draws of a distribution times Gaussian weights; at least two draws."""
    cases = [_Case(*case) for case in product((None, 16), COMPARED, (Scale.FP32, Scale.E4M3))]
    ratios: dict[_Case, list[tuple[float, float]]] = {case: [] for case in cases}
    for draw in range(draws):
        generator = Generator().manual_seed(draw)
        x = DISTRIBUTIONS[data](TOKENS, FEATURES, generator)
        w = gaussian(OUTPUTS, FEATURES, generator)
        z = x @ w.t()
        for case in cases:
            sqnr, gain = sqnr_and_gain(z, _product(x, w, case))
            assert sqnr is not None
            assert gain is not None
            ratios[case].append((sqnr, gain))
    for case, drawn in ratios.items():
        sqnrs, gains = zip(*drawn, strict=True)
        yield SurveyedProduct(
            data=data,
            format=case.grid.name,
            block="1x16",
            scale=case.scale.value,
            rht=case.rht,
            sqnr=fmean(sqnrs),
            sqnr_sd=stdev(sqnrs),
            gain=fmean(gains),
            gain_sd=stdev(gains),
        )


def _product(x: Tensor, w: Tensor, case: _Case) -> Tensor:
    operand = Operand(grid=case.grid, scale=case.scale)
    left, right = (
        fake_quantize(tensor, operand, 0, rotation=_rotation(case.rht)).dequantized()
        for tensor in (x, w)
    )
    return left @ right.t()
