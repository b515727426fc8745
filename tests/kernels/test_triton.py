"""The Triton kernels in Triton's interpreter against the plain-torch reference, bit by bit."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from kernels import gpu, reference
from kernels.blocks import ROW, TENSOR, Block
from kernels.draws import on_device
from kernels.formats import E2M1, E4M3, GRIDS, INT4, Grid
from kernels.hadamard import Rotation
from kernels.operands import CARRIED, Operand, Rounding, Scale
from kernels.passes import IN_TILE, MEASURED, WEIGHED, pass_of
from kernels.philox import uniforms
from kernels.presets import PRESETS
from kernels.recipes import Precision, Rht
from kernels.request import Request
from kernels.rounding import round_stochastic_
from tests.kernels.drawn_cases import (
    ALL_GRIDS,
    BLOCKS,
    DTYPES,
    KINDS,
    RHT_SIZES,
    Case,
    assert_same,
    assert_same_bits,
    cases,
    rows,
)
from tests.kernels.interpreted import interpreted_kernels

KEY = 0xFEDCBA9876543210
CASES = 5  # of each grid
TURNED = Rotation((1.0, -1.0, -1.0, 1.0) * 4)
TURNED_128 = Rotation(TURNED.signs * 8)
grids = pytest.mark.parametrize("grid", ALL_GRIDS.values(), ids=ALL_GRIDS)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[dict[str, Any]]:
    with interpreted_kernels() as kernels:
        yield kernels


def assert_reference(x: Tensor, request: Request) -> None:
    assert_same(gpu.fulfil(x, request), request.of(x, reference.fake_quantize))


def tried() -> list[Case]:
    return [case for grid in ALL_GRIDS.values() for case in cases(grid, CASES)]


@grids
def test_every_bit_is_that_of_the_reference(grid: Grid) -> None:
    for case in cases(grid, CASES):
        assert_reference(case.matrix(), case.request)


def test_an_operand_without_a_grid_is_rotated_and_rounded_to_the_carrier() -> None:
    for case in cases(None, 2 * CASES):
        assert_reference(case.matrix(), case.request)


def test_the_cases_have_every_scale_block_rounding_draw_transform_and_type() -> None:
    operands = [case.operand for case in tried()]
    assert {operand.scale for operand in operands} == set(Scale)
    assert {operand.block for operand in operands} == set(BLOCKS)
    assert {(case.operand.rounding, case.axis) for case in tried()} == set(
        product(Rounding, (0, 1))
    )
    drawn = [operand for operand in operands if operand.rounding is Rounding.SR]
    assert {(operand.random_bits, operand.half_offset) for operand in drawn} == set(
        product((8, 16, 24), (True, False))
    )
    assert {case.rotation and len(case.rotation.signs) for case in tried()} == set(RHT_SIZES)
    assert {(case.dtype, case.precision) for case in tried()} == set(product(DTYPES, Precision))


def test_the_cases_need_every_kind_of_pass() -> None:
    plans = [pass_of(case.request, *lines_of(case)) for case in tried()]
    sources = {(plan.blocks, plan.above) for plan in plans}
    assert sources == set(product((IN_TILE, MEASURED, WEIGHED), (IN_TILE, MEASURED)))
    assert {bool(plan.half) for plan in plans if plan.magnitudes or plan.half} == {True, False}


def lines_of(case: Case) -> tuple[int, int]:
    shape = case.matrix().shape
    return shape[1 - case.axis], shape[case.axis]


def preset_operands() -> dict[str, set[tuple[Operand, Rht | None, int]]]:
    """Each with its transform and axis, under the first preset that has it."""
    axes = {"fprop": (1, 1), "dgrad": (1, 0), "wgrad": (0, 0)}
    seen: set[tuple[Operand, Rht | None, int]] = set()
    of = {}
    for name, recipe in PRESETS.items():
        gemms = {"fprop": recipe.fprop, "dgrad": recipe.dgrad, "wgrad": recipe.wgrad}
        every = {
            (operand, gemm.rht, axis)
            for word, gemm in gemms.items()
            for operand, axis in zip((gemm.left, gemm.right), axes[word], strict=True)
        }
        if every - seen:
            of[name] = every - seen
        seen |= every
    return of


@pytest.mark.parametrize("operands", preset_operands().values(), ids=preset_operands())
def test_every_operand_of_every_preset_has_the_bits_of_the_reference(
    operands: set[tuple[Operand, Rht | None, int]],
) -> None:
    x = rows(40, 144, KINDS["finite"]).to(torch.bfloat16)
    for operand, rht, axis in operands:
        signs = (1.0, -1.0, -1.0, 1.0)
        turned = Rotation(signs * (rht.size // 4), rht.to_bf16) if rht else None
        assert_reference(x, Request(operand=operand, key=KEY, rotation=turned, axis=axis))


def pairs_of_operands() -> dict[str, tuple[Operand, Operand]]:
    """Along rows and along columns: alike, of different passes, and such as need two launches."""
    stochastic = Operand(grid=INT4, rounding=Rounding.SR)
    nvfp4 = Operand(grid=E2M1, scale=Scale.E4M3)
    square = Operand(grid=E2M1, scale=Scale.E4M3, block=Block(across=16, along=16))
    return {
        "alike": (stochastic, stochastic),
        "measured": (nvfp4, replace(nvfp4, rounding=Rounding.SR)),
        "one measured": (stochastic, nvfp4),
        "blocks of a tensor": (square, Operand(grid=E4M3, block=TENSOR)),
        "weighed": (Operand(grid=E2M1, block=Block(along=48), alternate=4.0), square),
        "carried along rows": (CARRIED, stochastic),
        "carried along columns": (stochastic, CARRIED),
    }


@pytest.mark.parametrize("pair", pairs_of_operands().values(), ids=pairs_of_operands())
@pytest.mark.parametrize(
    "turned", [(None, None), (None, TURNED), (TURNED, None), (TURNED, Rotation(TURNED.signs * 2))]
)
def test_both_axes_of_a_matrix_have_the_bits_of_two_references(
    pair: tuple[Operand, Operand], turned: tuple[Rotation | None, Rotation | None]
) -> None:
    draw = Random(f"{pair} {turned}")
    x = rows(*draw.choice(((19, 48), (40, 37), (130, 11))), KINDS["finite"]).to(draw.choice(DTYPES))
    requests = [
        Request(
            operand=operand,
            key=draw.getrandbits(64),
            rotation=rotation,
            axis=axis,
            precision=draw.choice(list(Precision)),
        )
        for operand, rotation, axis in zip(pair, turned, (1, 0), strict=True)
    ]
    results = gpu.fulfil_both(x, *requests)
    for result, request in zip(results, requests, strict=True):
        assert_same(result, request.of(x, reference.fake_quantize))


@pytest.mark.parametrize(
    ("pair", "turned", "launches"),
    [
        ("alike", TURNED, ["quantize"]),
        ("measured", TURNED, ["measure", "quantize"]),
        ("one measured", TURNED, ["measure", "quantize"]),
        ("alike", Rotation(TURNED.signs * 2), ["quantize"] * 2),
        ("carried along rows", TURNED, ["quantize"]),
    ],
)
def test_one_launch_serves_both_axes(
    kernels: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    pair: str,
    turned: Rotation,
    launches: list[str],
) -> None:
    launched = []
    for name, kernel in kernels.items():

        def run(*data: Any, name: str = name, kernel: Any = kernel, **options: Any) -> Any:
            launched.append(name)
            return type(kernel).run(kernel, *data, **options)

        monkeypatch.setattr(kernel, "run", run)
    x = torch.randn(32, 32, generator=torch.Generator().manual_seed(8))
    first, second = pairs_of_operands()[pair]
    gpu.fulfil_both(
        x,
        Request(operand=first, key=0),
        Request(operand=second, key=0, rotation=turned, axis=0),
    )
    assert launched == launches


@pytest.mark.parametrize("precision", Precision)
def test_values_are_stored_as_bf16_where_that_is_the_precision(precision: Precision) -> None:
    x = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
    operand = Operand(grid=E2M1)
    expected = torch.bfloat16 if precision is Precision.BF16 else torch.float32
    turned = Request(operand=operand, key=0, precision=precision, rotation=TURNED)
    for request in (turned, replace(turned, operand=CARRIED), replace(turned, rotation=None)):
        assert gpu.fulfil(x, request).values.dtype is expected
        assert_reference(x, request)
    carried = replace(turned, operand=CARRIED, rotation=None)
    assert gpu.fulfil(x, carried).values.dtype is expected
    assert_reference(x, carried)


@pytest.mark.parametrize("size", [8, 16, 64, 128])
@pytest.mark.parametrize("axis", [0, 1])
def test_key_and_signs_are_those_in_memory(size: int, axis: int) -> None:
    draw = Random(size)
    signs = tuple(draw.choice((1.0, -1.0)) for _ in range(size))
    x = torch.randn(24, 40, generator=torch.Generator().manual_seed(2))
    request = Request(
        operand=Operand(grid=INT4, rounding=Rounding.SR),
        key=1,
        rotation=Rotation((1.0,) * size),
        axis=axis,
        draws=on_device(KEY, Rotation(signs), x.device),
    )
    stated = replace(request, key=KEY, rotation=Rotation(signs), draws=None)
    assert_same(gpu.fulfil(x, request), stated.of(x, reference.fake_quantize))


@pytest.mark.parametrize("bits", [8, 16, 24])
def test_the_number_of_a_run_has_more_than_32_bits(kernels: dict[str, Any], bits: int) -> None:
    lines, apart = 11, 2**33 + 5
    x = torch.rand(lines, 16, generator=torch.Generator().manual_seed(6)) * 6
    x[:, 0] = 7
    y = torch.empty_like(x)
    request = Request(
        operand=Operand(grid=INT4, rounding=Rounding.SR, random_bits=bits), key=KEY
    )  # fmt: skip
    data, words = (y, None, None, None, None), on_device(KEY, None, x.device)
    kernels["quantize"][(1, 1)](
        x, lines, 16, data, words, apart, None, None, 0,
        FIRST=pass_of(request, lines, 16), SECOND=None, R=16, C=16,
    )  # fmt: skip
    u = uniforms(torch.arange(lines) * apart, KEY, bits=bits).t().contiguous()
    assert torch.equal(y, round_stochastic_(x.clone(), u, torch.empty_like(x), INT4))


@pytest.mark.parametrize("half_offset", [True, False])
@pytest.mark.parametrize("bits", [8, 16, 24])
@pytest.mark.parametrize(
    "grid",
    [INT4, E2M1, GRIDS["e3m0"], GRIDS["bf16"]],
    ids=["integers", "floats", "a short table", "a long table"],
)
def test_a_position_equal_to_the_draw_goes_up(grid: Grid, bits: int, half_offset: bool) -> None:
    u = uniforms(torch.arange(64), KEY, bits=bits, half_offset=half_offset).t()
    values = torch.tensor(grid.magnitudes)
    low, high = values[-2], values[-1]
    x = low + (high - low) * u
    expected = torch.where(((x - low) / (high - low) >= u) | (x == high), high, low)
    x[:, 0] = expected[:, 0] = high  # so that every scale is 1
    operand = Operand(
        grid=grid, rounding=Rounding.SR, random_bits=bits, half_offset=half_offset
    )  # fmt: skip
    assert torch.equal(gpu.fulfil(x, Request(operand=operand, key=KEY)).values, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", [5, 17, 100, 130])
def test_a_row_is_as_long_as_the_transform_makes_it(length: int, axis: int) -> None:
    x = torch.randn(7, length, generator=torch.Generator().manual_seed(length))
    request = Request(
        operand=Operand(grid=INT4, block=ROW), key=0, rotation=TURNED_128, axis=axis
    )  # fmt: skip
    assert_reference(x if axis == 1 else x.t(), request)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(3, 20), (20, 100), (130, 130)])
@pytest.mark.parametrize(
    "block",
    [Block(across=48, along=32), Block(across=32, along=128), Block(across=128, along=48)],
    ids=str,
)
def test_a_block_ends_with_the_matrix(block: Block, shape: tuple[int, int], axis: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)) * torch.arange(shape[1])
    for scale in (Scale.FP32, Scale.E4M3):
        operand = Operand(grid=E2M1, block=block, scale=scale)
        assert_reference(x, Request(operand=operand, key=0, axis=axis))


@pytest.mark.parametrize("grid", [E2M1, INT4, E4M3], ids=["e2m1", "int4", "e4m3"])
def test_every_bf16_number_beside_a_fixed_maximum(grid: Grid) -> None:
    numbers = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    x = numbers[numbers.abs() <= grid.maximum].view(-1, 1).expand(-1, 16).contiguous()
    x[:, 5] = grid.maximum
    assert_reference(x, Request(operand=Operand(grid=grid), key=0))


def test_a_long_table_is_fp32_whatever_the_default_type() -> None:
    grid = Grid("first used here", tuple(code**1.25 for code in range(40)))
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(9))
    request = Request(operand=Operand(grid=grid), key=0)
    expected = request.of(x, reference.fake_quantize)
    torch.set_default_dtype(torch.bfloat16)
    try:
        ours = gpu.fulfil(x, request)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same(ours, expected)


def test_the_least_power_of_two_is_not_flushed() -> None:
    x = torch.full((9, 16), 2.0**-127)
    request = Request(operand=Operand(grid=E2M1, scale=Scale.E8M0_FLOOR), key=0)
    assert_same_bits(gpu.fulfil(x, request).values, x)


@pytest.mark.parametrize("operand", [CARRIED, Operand(grid=INT4)], ids=["carried", "int4"])
def test_any_layout_and_type_of_input_is_taken_as_it_is_read(operand: Operand) -> None:
    request = Request(operand=operand, key=0)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for view in (x, x.half(), x.t(), x[:, ::2], x[:1].expand(32, -1), x.requires_grad_()):
        kept = view.detach().clone()
        ours = gpu.fulfil(view, request)
        assert not ours.values.requires_grad
        assert torch.equal(view, kept)
        assert_same(ours, request.of(kept, reference.fake_quantize))


@pytest.mark.parametrize("shape", [(0, 16), (16,), (2, 16, 16)])
def test_what_is_not_a_matrix_with_elements_is_refused(shape: tuple[int, ...]) -> None:
    request = Request(operand=Operand(grid=INT4), key=0)
    with pytest.raises(ValueError, match="a matrix with elements"):
        gpu.fulfil(torch.zeros(shape), request)
    with pytest.raises(ValueError, match="a matrix with elements"):
        gpu.fulfil_both(torch.zeros(shape), request, replace(request, axis=0))
