"""Signal-to-noise ratios and gains on known distributions, and the independence of draws."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.blocks import Block
from kernels.formats import E2M1, GRIDS, INT4, Grid
from kernels.hadamard import Rotation, random_signs, rotate
from kernels.operands import Operand, Rounding, Scale
from kernels.philox import stream_key
from kernels.recipes import Signs
from kernels.reference import fake_quantize

RHT = Rotation(
    random_signs(Signs.LAYER, seed=0, layer="a", gemm="fprop", step=0, microbatch=0, size=16)
)
COUNT = 1 << 20


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20)


def gaussian() -> Tensor:
    return torch.randn(COUNT // 256, 256, generator=generator())


def laplace() -> Tensor:
    u = torch.rand(COUNT // 256, 256, generator=generator(), dtype=torch.float64) - 0.5
    return (-u.sign() * (1 - 2 * u.abs()).log()).float()


def student_t() -> Tensor:
    """Three degrees of freedom: a normal over the root of a third of a chi-square."""
    normal = torch.randn(4, COUNT // 256, 256, generator=generator(), dtype=torch.float64)
    return (normal[0] / (normal[1:].square().sum(0) / 3).sqrt()).float()


def swiglu() -> Tensor:
    g, u = torch.randn(2, COUNT // 256, 256, generator=generator()).unbind(0)
    return g * torch.sigmoid(g) * u


def sqnr(x: Tensor, value: Tensor) -> float:
    noise = (value - x).double().square().sum()
    return float(10 * torch.log10(x.double().square().sum() / noise))


def word(value: object) -> str:
    """How a case is called in a report."""
    return str(getattr(value, "__name__", getattr(value, "name", value)))


@pytest.mark.parametrize(
    ("draw", "grid", "plain", "rotated"),
    [
        (gaussian, E2M1, 20.53, 20.53),
        (gaussian, INT4, 21.39, 21.39),
        (gaussian, GRIDS["e3m0"], 15.49, 15.49),
        (laplace, E2M1, 20.80, 20.43),
        (laplace, INT4, 19.91, 21.71),
        (swiglu, E2M1, 21.13, 20.05),
        (swiglu, INT4, 18.69, 22.74),
        (student_t, E2M1, 21.09, 20.21),
        (student_t, INT4, 18.98, 22.33),
    ],
    ids=word,
)
def test_sqnr_before_and_after_the_transform(
    draw: Callable[[], Tensor], grid: Grid, plain: float, rotated: float
) -> None:
    x = draw()
    operand = Operand(grid=grid)
    assert sqnr(x, fake_quantize(x, operand, 0).values) == pytest.approx(plain, abs=0.1)
    value = fake_quantize(x, operand, 0, rotation=RHT).values
    assert sqnr(rotate(x, RHT), value) == pytest.approx(rotated, abs=0.1)


@pytest.mark.parametrize(
    ("grid", "along", "scale", "expected"),
    [
        (E2M1, 16, Scale.FP32, 20.53),
        (E2M1, 16, Scale.E8M0_FLOOR, 18.58),
        (E2M1, 16, Scale.E8M0_EVEN, 19.16),
        (E2M1, 16, Scale.E8M0_RCEIL, 18.96),
        (E2M1, 32, Scale.FP32, 19.90),
        (E2M1, 32, Scale.E8M0_FLOOR, 18.79),
        (E2M1, 32, Scale.E8M0_EVEN, 19.03),
        (E2M1, 32, Scale.E8M0_RCEIL, 18.76),
        (INT4, 16, Scale.FP32, 21.39),
        (INT4, 16, Scale.E8M0_FLOOR, 18.63),
        (INT4, 16, Scale.E8M0_EVEN, 17.64),
        (INT4, 16, Scale.E8M0_RCEIL, 17.64),
        (INT4, 32, Scale.FP32, 20.26),
        (INT4, 32, Scale.E8M0_FLOOR, 17.56),
        (INT4, 32, Scale.E8M0_EVEN, 16.84),
        (INT4, 32, Scale.E8M0_RCEIL, 16.84),
    ],
    ids=word,
)
def test_sqnr_of_each_scale_on_gaussians(
    grid: Grid, along: int, scale: Scale, expected: float
) -> None:
    x = gaussian()
    value = fake_quantize(x, Operand(grid=grid, scale=scale, block=Block(along=along)), 0)
    assert sqnr(x, value.values) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize(("grid", "expected"), [(E2M1, 17.49), (INT4, 18.38)])
def test_sqnr_of_stochastic_rounding(grid: Grid, expected: float) -> None:
    x = gaussian()
    value = fake_quantize(x, Operand(grid=grid, rounding=Rounding.SR), 5)
    assert sqnr(x, value.values) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("grid", "scale", "expected"),
    [
        (E2M1, Scale.FP32, 0.9959),
        (INT4, Scale.FP32, 1.0006),
        (GRIDS["e3m0"], Scale.FP32, 0.9866),
        (E2M1, Scale.E8M0_FLOOR, 0.972),
    ],
    ids=word,
)
def test_gain_on_gaussian_blocks(grid: Grid, scale: Scale, expected: float) -> None:
    x = gaussian().double()
    value = fake_quantize(x.float(), Operand(grid=grid, scale=scale), 0).values.double()
    assert float((value * x).sum() / x.square().sum()) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    "change",
    [{"step": 1}, {"microbatch": 1}, {"layer": "b"}, {"operand": "x"}, {"gemm": "dgrad"},
     {"seed": 1}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_another_stream_gives_independent_draws(change: dict[str, int | str]) -> None:
    fields: dict[str, int | str] = {
        "seed": 0, "step": 0, "microbatch": 0, "layer": "a", "gemm": "wgrad", "operand": "dy",
    }  # fmt: skip
    operand = Operand(grid=INT4, rounding=Rounding.SR)
    x = torch.full((1024, 256), 0.5)
    x[:, ::16] = 7.0
    keep = torch.arange(256) % 16 != 0

    def draw(**key: int | str) -> Tensor:
        return fake_quantize(x, operand, stream_key(**key)).values[:, keep]  # type: ignore[arg-type]

    first, again, other = draw(**fields), draw(**fields), draw(**{**fields, **change})
    assert torch.equal(first, again)
    agreement = float((first == other).double().mean())
    assert abs(agreement - 0.5) < 4 * 0.5 / first.numel() ** 0.5
