"""The C kernel against the plain-torch reference, bit by bit."""

import platform
import shutil
from itertools import combinations, product

import pytest
import torch

from kernels import compiled, reference
from kernels.arithmetic import arithmetic_of
from kernels.blocks import TENSOR, Block
from kernels.compiled import FLAGS, NATIVE
from kernels.formats import E2M1, E4M3, INT4, Grid
from kernels.hadamard import Rotation
from kernels.job import job_of, template_of
from kernels.lanes import cut
from kernels.native import Kernel
from kernels.operands import Operand, Rounding, Scale
from kernels.philox import uniforms
from kernels.presets import PRESETS
from kernels.recipes import Recipe
from kernels.rounding import round_stochastic_
from tests.kernels.drawn_cases import (
    ALL_GRIDS,
    BLOCKS,
    KINDS,
    Case,
    assert_same,
    assert_same_bits,
    cases,
    rows,
)

KEY = 0xFEDCBA9876543210
CASES = 24  # of each grid
pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler"
)
grids = pytest.mark.parametrize("grid", ALL_GRIDS.values(), ids=ALL_GRIDS)


@pytest.fixture(scope="module")
def kernels() -> tuple[Kernel, ...]:
    """For this machine and, with narrower vectors, for older ones, by each compiler there is."""
    kinds = [NATIVE]
    if platform.machine() in ("x86_64", "AMD64"):
        kinds += ["-march=x86-64"]
        if torch.backends.cpu.get_cpu_capability().startswith("AVX"):
            kinds += ["-march=x86-64-v3"]
    libraries = [compiled.build((*FLAGS, kind)) for kind in kinds]
    if shutil.which("clang"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CC", "clang")
            libraries += [compiled.build((*FLAGS, kind)) for kind in kinds]
    return tuple(Kernel(compiled.load(library)) for library in dict.fromkeys(libraries))


@grids
def test_every_bit_is_that_of_the_reference(kernels: tuple[Kernel, ...], grid: Grid) -> None:
    for case in cases(grid, CASES):
        expected = case.call(reference.fake_quantize)
        for kernel in kernels:
            assert_same(case.call(kernel.fake_quantize), expected)


@pytest.mark.parametrize("exponent", [97, 98])
def test_steps_are_added_only_where_their_sum_is_finite(
    kernels: tuple[Kernel, ...], exponent: int
) -> None:
    grid = Grid("high", tuple(value * 2.0**exponent for value in E2M1.magnitudes))
    test_every_bit_is_that_of_the_reference(kernels, grid)


def test_an_operand_without_a_grid_is_rotated_and_rounded_to_the_carrier(
    kernels: tuple[Kernel, ...],
) -> None:
    for case in cases(None, CASES):
        expected = case.call(reference.fake_quantize)
        for kernel in kernels:
            assert_same(case.call(kernel.fake_quantize), expected)


def test_the_cases_bring_together_every_scale_block_rounding_and_kind_of_draw() -> None:
    tried = [case for grid in ALL_GRIDS.values() for case in cases(grid, CASES)]
    met = {pair for case in tried for pair in pairs(case)}
    for first, second in combinations(AXES.values(), 2):
        assert set(product(first, second)) <= met
    # EDEN corrects the scale of a row's block, which is not a power of two.
    assert set(product((Scale.FP32, Scale.E4M3), (Rounding.EDEN,))) <= met


AXES: dict[str, tuple[object, ...]] = {
    "scale": tuple(Scale),
    "block": BLOCKS,
    "rounding": (Rounding.RTNE, Rounding.SR),
    "bits": tuple((bits, half) for bits in (8, 16, 24) for half in (True, False)),
    "kinds": tuple(KINDS),
    "axis": ("rows", "columns"),
}


def pairs(case: Case) -> set[tuple[object, object]]:
    operand = case.operand
    values = (
        operand.scale, operand.block, operand.rounding, (operand.random_bits, operand.half_offset),
        case.kinds, ("columns", "rows")[case.axis],
    )  # fmt: skip
    return set(combinations(values, 2))


@pytest.mark.parametrize("recipe", PRESETS.values(), ids=PRESETS)
def test_every_operand_of_every_preset_has_the_bits_of_the_reference(
    kernels: tuple[Kernel, ...], recipe: Recipe
) -> None:
    x = rows(40, 272, KINDS["finite"]).to(torch.bfloat16)
    gemms = {"fprop": recipe.fprop, "dgrad": recipe.dgrad, "wgrad": recipe.wgrad}
    axes = {"fprop": (1, 1), "dgrad": (1, 0), "wgrad": (0, 0)}
    tried = {
        (operand, gemm.rht, axis)
        for name, gemm in gemms.items()
        for operand, axis in zip((gemm.left, gemm.right), axes[name], strict=True)
    }
    for operand, rht, axis in tried:
        signs = (1.0, -1.0, -1.0, 1.0)
        turned = Rotation(signs * (rht.size // 4), rht.to_bf16) if rht else None
        expected = reference.fake_quantize(x, operand, KEY, rotation=turned, axis=axis)
        for kernel in kernels:
            ours = kernel.fake_quantize(x, operand, KEY, rotation=turned, axis=axis)
            assert_same(ours, expected)


@pytest.mark.parametrize("grid", [E2M1, INT4, E4M3], ids=["e2m1", "int4", "e4m3"])
def test_every_bf16_number_beside_a_fixed_maximum(kernels: tuple[Kernel, ...], grid: Grid) -> None:
    numbers = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    x = numbers[numbers.abs() <= grid.maximum].view(-1, 1).expand(-1, 16).contiguous()
    x[:, 5] = grid.maximum
    operand = Operand(grid=grid)
    expected = reference.fake_quantize(x, operand, 0)
    for kernel in kernels:
        assert_same(kernel.fake_quantize(x, operand, 0), expected)


@grids
@pytest.mark.parametrize("half_offset", [True, False])
@pytest.mark.parametrize("bits", [8, 16, 24])
def test_a_position_equal_to_the_draw_goes_up(
    kernels: tuple[Kernel, ...], grid: Grid, bits: int, half_offset: bool
) -> None:
    u = uniforms(torch.arange(64), KEY, bits=bits, half_offset=half_offset).t()
    values = torch.tensor(grid.magnitudes)
    low, high = values[-2], values[-1]
    x = low + (high - low) * u
    expected = torch.where(((x - low) / (high - low) >= u) | (x == high), high, low)
    x[:, 0] = expected[:, 0] = high  # so that every scale is 1
    operand = Operand(
        grid=grid, rounding=Rounding.SR, random_bits=bits, half_offset=half_offset
    )  # fmt: skip
    for kernel in kernels:
        assert torch.equal(kernel.fake_quantize(x, operand, KEY).values, expected)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "operand",
    [
        Operand(grid=E2M1),
        Operand(grid=E2M1, rounding=Rounding.SR),
        Operand(grid=E2M1, block=Block(across=16, along=16), scale=Scale.E4M3),
        Operand(grid=E4M3, block=TENSOR),
    ],
    ids=["rtne", "sr", "measured", "tensor"],
)
def test_threads_share_the_work_and_change_no_bit(
    kernels: tuple[Kernel, ...], operand: Operand, axis: int
) -> None:
    x = torch.randn(96 * 16, 20 * 16, generator=torch.Generator().manual_seed(5))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        ours = [kernel.fake_quantize(x, operand, KEY, axis=axis) for kernel in kernels]
    finally:
        torch.set_num_threads(before)
    expected = reference.fake_quantize(x, operand, KEY, axis=axis)
    for result in ours:
        assert_same(result, expected)


def test_the_index_of_a_run_has_more_than_32_bits(kernels: tuple[Kernel, ...]) -> None:
    lanes, apart = 11, 2**33 + 5
    x = torch.rand(lanes, 16, generator=torch.Generator().manual_seed(6)) * 6
    x[:, 0] = 7
    y = torch.empty_like(x)
    operand = Operand(grid=INT4, rounding=Rounding.SR)
    template = template_of(cut((lanes, 16), operand, 0, 1), operand, 0, False)
    job = job_of(template, KEY, None)
    job.x, job.y, job.lane_runs = x.data_ptr(), y.data_ptr(), apart
    u = uniforms(torch.arange(lanes) * apart, KEY).t().contiguous()
    expected = round_stochastic_(x.clone(), u, torch.empty_like(x), INT4)
    for kernel in kernels:
        job.next = 0
        assert kernel.library.quantize(job) == 0
        assert torch.equal(y, expected)
        y.zero_()


def test_the_least_power_of_two_is_not_flushed(kernels: tuple[Kernel, ...]) -> None:
    x = torch.full((9, 16), 2.0**-127)
    operand = Operand(grid=E2M1, scale=Scale.E8M0_FLOOR)
    for kernel in kernels:
        assert_same_bits(kernel.fake_quantize(x, operand, 0).values, x)


def test_any_layout_and_type_of_input_is_taken_as_it_is_read(kernels: tuple[Kernel, ...]) -> None:
    operand = Operand(grid=INT4)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for view in (x, x.half(), x.t(), x[:, ::2], x[:1].expand(32, -1), x.requires_grad_()):
        kept = view.detach().clone()
        ours = kernels[0].fake_quantize(view, operand, 0)
        assert not ours.values.requires_grad
        assert torch.equal(view, kept)
        assert_same(ours, reference.fake_quantize(kept, operand, 0))


@pytest.mark.parametrize(
    "operand",
    [Operand(), Operand(grid=INT4), Operand(grid=E4M3, block=TENSOR)],
    ids=["no grid", "block", "tensor"],
)
def test_a_view_that_turns_signs_is_read_with_them(
    kernels: tuple[Kernel, ...], operand: Operand
) -> None:
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(9), dtype=torch.complex64)
    turned = torch._neg_view(x.real.contiguous())
    for view in (turned, turned.t(), x.conj().imag):
        assert view.is_neg()
        ours = kernels[0].fake_quantize(view, operand, 0)
        assert_same(ours, reference.fake_quantize(view.resolve_neg(), operand, 0))


@pytest.mark.parametrize(
    "operand",
    [
        Operand(),
        Operand(grid=INT4),
        Operand(grid=E4M3, block=TENSOR),
        Operand(grid=E2M1, block=Block(across=16, along=16), scale=Scale.E4M3),
        Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, headroom=1.3),
    ],
    ids=["no grid", "block", "tensor", "measured", "factor"],
)
def test_results_are_on_the_cpu_whatever_the_default_device(
    kernels: tuple[Kernel, ...], operand: Operand
) -> None:
    x = torch.randn(32, 50, generator=torch.Generator().manual_seed(10))
    rotation = Rotation((1.0, -1.0) * 8)
    expected = reference.fake_quantize(x, operand, KEY, rotation=rotation)
    with torch.device("meta"):
        ours = kernels[0].fake_quantize(x, operand, KEY, rotation=rotation)
    assert_same(ours, expected)


@pytest.mark.parametrize("scale", [Scale.FP32, Scale.FP32_5BIT])
def test_a_target_above_the_largest_fp32_number_is_infinite(
    kernels: tuple[Kernel, ...], scale: Scale
) -> None:
    grid = Grid("two", (0.0, 2.0**127))
    operand = Operand(grid=grid, scale=scale, headroom=0.5)
    assert arithmetic_of(operand, 0, False).target == torch.inf
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(11))
    expected = reference.fake_quantize(x, operand, 0)
    for kernel in kernels:
        assert_same(kernel.fake_quantize(x, operand, 0), expected)


@pytest.mark.parametrize("shape", [(0, 16), (16,), (2, 16, 16)])
def test_what_is_not_a_matrix_with_elements_is_refused(
    kernels: tuple[Kernel, ...], shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="a matrix with elements"):
        kernels[0].fake_quantize(torch.zeros(shape), Operand(grid=INT4), 0)
