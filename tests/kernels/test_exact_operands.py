"""Which operands the precision of the product leaves as they are: what the numerics page says.

Magnitudes times scales are exact in binary64, and so is the rounding here.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kernels.formats import E2M1, E4M3, GRIDS, Grid
from kernels.hadamard import Rotation
from kernels.operands import CARRIED, Operand, Rounding, Scale
from kernels.recipes import Precision
from kernels.reference import FakeQuantized

PAGE = Path(__file__).parents[2].joinpath("docs", "numerics.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n### The precision of the product\n")[2].partition("\n## ")[0]
NARROW = (Precision.TF32, Precision.BF16)
BITS = {Precision.TF32: 11, Precision.BF16: 8, Precision.FP32: 24}
SCALES = {
    "e8m0-…": 2.0 ** np.arange(-127, 128),
    "e4m3` under the tensor": np.array(E4M3.magnitudes[1:]),
    "fp32-5bit": np.outer(2.0 ** np.arange(-126, 128), np.arange(16, 32) / 16).ravel(),
}
"""Every block scale there is, by the beginning of its kind's row on the page."""
ANY_FP32 = "fp32`; `e4m3` under an outer"
KINDS: dict[str, list[dict[str, Any]]] = {
    "e8m0-…": [{"scale": scale} for scale in Scale if scale.is_power_of_two],
    "e4m3` under the tensor": [
        {"scale": Scale.E4M3},
        {"scale": Scale.E4M3, "rounding": Rounding.SR, "headroom": 17 / 16},
        {"scale": Scale.E4M3, "rounding": Rounding.EDEN},
    ],
    "fp32-5bit": [{"scale": Scale.FP32_5BIT}],
    ANY_FP32: [
        {"scale": Scale.FP32},
        {"scale": Scale.FP32, "rounding": Rounding.EDEN},
        {"scale": Scale.E4M3, "outer": 64},
    ],
}
GRID_NAMES = [name for name in GRIDS if name != "int4"]  # which is e1m2
grids = pytest.mark.parametrize("grid", [GRIDS[name] for name in GRID_NAMES], ids=GRID_NAMES)
kinds = pytest.mark.parametrize("kind", KINDS, ids=["e8m0", "e4m3", "fp32-5bit", "fp32"])
narrow = pytest.mark.parametrize("precision", NARROW)
FakeQuantize = Callable[..., FakeQuantized]


def grid_bits(grid: Grid) -> int:
    """Significant bits of its longest magnitude."""
    numerators = [Fraction(magnitude).numerator for magnitude in grid.magnitudes[1:]]
    return max(len(f"{numerator:b}".rstrip("0")) for numerator in numerators)


def row(kind: str) -> list[str]:
    (found,) = [line for line in SECTION.splitlines() if line.startswith(f"| `{kind}")]
    return [cell.strip() for cell in found.strip("|").split("|")]


def most_bits(kind: str, precision: Precision) -> int:
    """Of a grid that the page says is exact; 0 for none."""
    told = row(kind)[{Precision.BF16: 2, Precision.TF32: 3}[precision]]
    return 0 if told == "none" else int(told)


def least(precision: Precision) -> float:
    """What the page says that all numbers of a precision are multiples of."""
    superscripts = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    return 2.0 ** int(row(f"{precision}` |")[2].removeprefix("2").translate(superscripts))


def rounded(values: NDArray[np.float64], precision: Precision) -> NDArray[np.float64]:
    _, exponents = np.frexp(values)
    unit = np.maximum(np.exp2(exponents - BITS[precision]), least(precision))
    nearest: NDArray[np.float64] = np.rint(values / unit) * unit
    return nearest


def operands(kind: str, grid: Grid) -> list[Operand]:
    """Those of a kind that the grid can be put under."""
    fits = grid.maximum * 448 < 2.0**128
    settings = [one for one in KINDS[kind] if fits or one["scale"] is not Scale.E4M3]
    return [Operand(grid=grid, **one) for one in settings]


def drawn() -> torch.Tensor:
    """Gaussian rows of many sizes, [24, 256]."""
    generator = torch.Generator().manual_seed(5)
    sizes = torch.exp2(torch.randint(-12, 12, (24, 1), generator=generator).float())
    return torch.randn(24, 256, generator=generator) * sizes


def test_the_page_gives_the_bits_of_each_precision() -> None:
    assert {precision: int(row(f"{precision}` |")[1].split()[0]) for precision in Precision} == BITS
    assert {precision: precision.significand_bits for precision in Precision} == BITS
    assert all(least(precision) == 2.0 ** (-125 - BITS[precision]) for precision in Precision)


@narrow
@pytest.mark.parametrize("kind", SCALES, ids=["e8m0", "e4m3", "fp32-5bit"])
@grids
def test_magnitudes_times_scales_are_kept_exactly_where_the_page_says_so(
    grid: Grid, kind: str, precision: Precision
) -> None:
    magnitudes, scales = np.array(grid.magnitudes[1:]), SCALES[kind]
    if len(magnitudes) > 1024:  # BF16 and FP16 as grids: a binade, and every seventh scale
        magnitudes, scales = magnitudes[(magnitudes >= 1) & (magnitudes <= 2)], scales[::7]
    products = np.outer(magnitudes, scales).ravel()
    products = products[(products < 2.0**128) & (products % least(precision) == 0)]
    is_exact = bool((rounded(products, precision) == products).all())
    assert is_exact == (grid_bits(grid) <= most_bits(kind, precision))


@narrow
@kinds
@grids
def test_an_operand_knows_what_the_page_says_of_its_kind(
    grid: Grid, kind: str, precision: Precision
) -> None:
    for operand in operands(kind, grid):
        is_exact = operand.significand_bits <= precision.significand_bits
        assert is_exact == (grid_bits(grid) <= most_bits(kind, precision))
        assert operand.significand_bits <= 24


def test_the_bits_of_magnitudes_that_fp32_rounds_are_those_of_fp32_numbers() -> None:
    def bits(*magnitudes: float) -> int:
        grid = Grid("own", (0.0, *magnitudes))
        return Operand(grid=grid, scale=Scale.E8M0_CEIL).significand_bits

    assert bits(1.0, 1 + 2.0**-40, 3.0) == 2
    assert bits(0.1) == 24
    assert bits(2.0**-149, 1.0) == 1
    assert Operand(grid=Grid("own", (0.0, 17.0)), scale=Scale.E4M3).significand_bits == 8


@narrow
@kinds
@grids
def test_drawn_operands_are_changed_exactly_where_the_page_says_so(
    grid: Grid, kind: str, precision: Precision, quantize: FakeQuantize
) -> None:
    for operand in operands(kind, grid):
        plain, found = (
            quantize(drawn(), operand, 9, precision=p) for p in (Precision.FP32, precision)
        )
        expected = rounded(plain.values.double().numpy(), precision)
        assert np.array_equal(found.values.double().numpy(), expected), operand
        is_exact = grid_bits(grid) <= most_bits(kind, precision)
        assert torch.equal(found.values, plain.values) == is_exact, operand
        assert (found.factor is None) == (plain.factor is None)
        if found.factor is not None and plain.factor is not None:
            assert torch.equal(found.factor, plain.factor), operand


@pytest.mark.parametrize(
    ("carrier", "precision", "is_exact"),
    [
        (torch.bfloat16, Precision.BF16, True),
        (torch.bfloat16, Precision.TF32, True),
        (torch.float16, Precision.TF32, True),
        (torch.float16, Precision.BF16, False),
    ],
)
@pytest.mark.parametrize("rotation", [None, Rotation((1.0, -1.0) * 8)])
def test_an_operand_in_the_carrier_is_rounded_after_it(
    carrier: torch.dtype,
    precision: Precision,
    is_exact: bool,
    rotation: Rotation | None,
    quantize: FakeQuantize,
) -> None:
    given = {"rotation": rotation, "carrier": carrier}
    plain = quantize(drawn(), CARRIED, 0, **given)
    found = quantize(drawn(), CARRIED, 0, **given, precision=precision)
    expected = rounded(plain.values.double().numpy(), precision)
    assert np.array_equal(found.values.double().numpy(), expected)
    assert torch.equal(found.values, plain.values) == is_exact


def test_a_default_operand_is_not_rounded(quantize: FakeQuantize) -> None:
    operand = Operand(grid=E2M1)
    plain = quantize(drawn(), operand, 9)
    assert torch.equal(plain.values, quantize(drawn(), operand, 9, precision=Precision.FP32).values)
    largest = drawn().view(-1, 16).abs().amax(1) / 6
    steps = plain.values.view(-1, 16) / largest[:, None]
    assert torch.equal(steps.mul(2).round() / 2 * largest[:, None], plain.values.view(-1, 16))


def test_the_page_names_the_bits_of_each_grid() -> None:
    told = " ".join(SECTION.split()).partition("Of the grids, ")[2].partition(". ")[0]
    found: dict[str, int] = {}
    names: list[str] = []
    for word in re.findall(r"[A-Z]+\d\w*|\b\d+\b", told):
        if word.isdigit():
            found |= dict.fromkeys(names, int(word))
            names = []
        else:
            names.append(word.lower())
    assert found == {name: grid_bits(GRIDS[name]) for name in found}
    assert found.keys() == {
        name for name in GRIDS if "max" not in name and name not in ("bf16", "fp16")
    }
