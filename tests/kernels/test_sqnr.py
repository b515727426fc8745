"""Signal-to-noise ratios and gains on known distributions, and the statistics of SR."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kernels.formats import E2M1, INT4, Grid
from kernels.hadamard import random_signs, rotate
from kernels.philox import stream_key
from kernels.recipes import Operand, Rounding
from kernels.reference import fake_quantize

SIGNS = random_signs(seed=0, layer="a", gemm="fprop", size=16)
COUNT = 1 << 20


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20)


def gaussian() -> Tensor:
    return torch.randn(COUNT // 256, 256, generator=generator())


def laplace() -> Tensor:
    u = torch.rand(COUNT // 256, 256, generator=generator(), dtype=torch.float64) - 0.5
    return (-u.sign() * (1 - 2 * u.abs()).log()).float()


def swiglu() -> Tensor:
    g, u = torch.randn(2, COUNT // 256, 256, generator=generator()).unbind(0)
    return g * torch.sigmoid(g) * u


def sqnr(x: Tensor, value: Tensor) -> float:
    noise = (value - x).double().square().sum()
    return float(10 * torch.log10(x.double().square().sum() / noise))


@pytest.mark.parametrize(
    ("draw", "grid", "plain", "rotated"),
    [
        (gaussian, E2M1, 20.53, 20.53),
        (gaussian, INT4, 21.39, 21.39),
        (laplace, E2M1, 20.80, 20.43),
        (laplace, INT4, 19.91, 21.71),
        (swiglu, E2M1, 21.13, 20.05),
        (swiglu, INT4, 18.69, 22.74),
    ],
    ids=lambda value: getattr(value, "__name__", getattr(value, "name", None)),
)
def test_sqnr_before_and_after_the_transform(
    draw: Callable[[], Tensor], grid: Grid, plain: float, rotated: float
) -> None:
    x = draw()
    operand = Operand(grid=grid)
    assert sqnr(x, fake_quantize(x, operand, 0)) == pytest.approx(plain, abs=0.05)
    value = fake_quantize(x, operand, 0, signs=SIGNS)
    assert sqnr(rotate(x, SIGNS), value) == pytest.approx(rotated, abs=0.05)


@pytest.mark.parametrize(("grid", "expected"), [(E2M1, 17.49), (INT4, 18.38)])
def test_sqnr_of_stochastic_rounding(grid: Grid, expected: float) -> None:
    x = gaussian()
    value = fake_quantize(x, Operand(grid=grid, rounding=Rounding.SR), 5)
    assert sqnr(x, value) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(("grid", "expected"), [(E2M1, 0.9959), (INT4, 1.0006)])
def test_gain_on_gaussian_blocks(grid: Grid, expected: float) -> None:
    x = gaussian().double()
    value = fake_quantize(x.float(), Operand(grid=grid), 0).double()
    assert float((value * x).sum() / x.square().sum()) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("fraction", [1 / 512, 0.25, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.5), (1.5, 2.0), (2.0, 3.0), (4.0, 6.0)])
def test_stochastic_rounding_has_mean_f_and_variance_f_of_one_minus_f(
    fraction: float, low: float, high: float
) -> None:
    x = torch.full((COUNT // 256, 256), low + fraction * (high - low))
    x[:, ::16] = 6.0
    value = fake_quantize(x, Operand(grid=E2M1, rounding=Rounding.SR), 77)
    keep = torch.arange(256) % 16 != 0
    up = ((value[:, keep] - low) / (high - low)).double()
    # Eight bits represent a probability to half a part in 256.
    deviation = (fraction * (1 - fraction) / up.numel()) ** 0.5
    assert set(up.flatten().tolist()) <= {0.0, 1.0}
    assert abs(float(up.mean()) - fraction) < 4 * deviation + 1 / 512
    mean = float(up.mean())
    assert float(up.var()) == pytest.approx(mean * (1 - mean), rel=1e-4)


def test_stochastic_rounding_is_unbiased_over_a_spread_of_elements() -> None:
    x = torch.rand(COUNT // 16, 16, generator=generator()) * 7
    x[:, 0] = 7
    error = (fake_quantize(x, Operand(grid=INT4, rounding=Rounding.SR), 1) - x)[:, 1:].double()
    assert abs(float(error.mean())) < 4 * float(error.std()) / error.numel() ** 0.5


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
        return fake_quantize(x, operand, stream_key(**key))[:, keep]  # type: ignore[arg-type]

    first, again, other = draw(**fields), draw(**fields), draw(**{**fields, **change})
    assert torch.equal(first, again)
    agreement = float((first == other).double().mean())
    assert abs(agreement - 0.5) < 4 * 0.5 / first.numel() ** 0.5
