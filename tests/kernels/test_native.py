"""The C kernel against the plain-torch reference, bit by bit; how it is built and cached."""

import logging
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from kernels import native, ops, reference
from kernels.formats import E2M1, E4M3, INT4, Grid, minifloat, uniform
from kernels.hadamard import random_signs
from kernels.native import FLAGS, NATIVE, Kernel
from kernels.philox import uniforms
from kernels.recipes import Operand, Rounding
from kernels.rounding import round_stochastic_

ROOT = Path(__file__).resolve().parents[2]
KEY = 0xFEDCBA9876543210
GRIDS = (
    E2M1,
    INT4,
    E4M3,
    minifloat("e3m0", 3, 0),
    minifloat("e5m2", 5, 2, reserved_codes=4),
    minifloat("e8m1", 8, 1, reserved_codes=2),
    Grid("high", tuple(value * 2.0**110 for value in E2M1.magnitudes)),
    Grid("e1m2", tuple(code * 0.25 for code in range(8))),
    Grid("coarse", tuple(code * 2.0**90 for code in range(5))),
    Grid("two", (0.0, 2.0**127)),
    Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0)),
    Grid("sign", (0.0, 1.0 / 3)),
    Grid("long", tuple(code**1.5 for code in range(100))),
    uniform("int16", 2**15 - 1),
)
# Block, and the size of its transform.
BLOCKS = ((16, None), (16, 4), (16, 16), (32, 16), (32, 32), (48, None), (128, 128))
# Rows, and blocks in each: whole tiles with a rest, and less than a tile.
SHAPES = ((19, 3), (3, 1))
PORTABLE = "-march=x86-64"
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler"
)
grids = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
roundings = pytest.mark.parametrize("rounding", Rounding)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def kernels(cache: Path) -> tuple[Kernel, ...]:
    """For this machine and, with other instructions and narrower vectors, for any of its kind."""
    portable = (PORTABLE,) if platform.machine() in ("x86_64", "AMD64") else ()
    return tuple(native.load(native.build((*FLAGS, kind))) for kind in (NATIVE, *portable))


@pytest.fixture
def no_kernel_yet() -> Iterator[None]:
    native.kernel.cache_clear()
    yield
    native.kernel.cache_clear()


def rows(count: int, length: int, dtype: torch.dtype) -> Tensor:
    """[count, length], each row of another kind, so that lanes that meet in a tile differ."""
    generator = torch.Generator().manual_seed(count * length)
    x = torch.randn(count, length, generator=generator)
    kinds = (
        lambda row: row,
        lambda row: row / row.roll(1) ** 3,
        lambda row: row * 1e-38,
        lambda row: (row * 3).round() * 2.0**-149,
        lambda row: row * 0,
        lambda row: torch.where(row > 1, 0.5 * row.round(), -0.0),
        lambda row: (row * 4).round() / 4,
        lambda row: row.index_fill(0, torch.tensor(length // 2), torch.inf),
        lambda row: row.index_fill(0, torch.tensor(3), torch.nan),
        lambda row: row * 1e38,
        lambda row: row.clamp(-1, 1) * 3.4028234e38,
    )
    for index in range(count):
        x[index] = kinds[index % len(kinds)](x[index])
    return x.to(dtype)


def assert_same_bits(ours: Tensor, expected: Tensor) -> None:
    # Which of its NaNs a processor gives is not part of the contract.
    assert torch.equal(ours.isnan(), expected.isnan())
    finite = ours.nan_to_num(7.0, torch.inf, -torch.inf).view(torch.int32)
    assert torch.equal(finite, expected.nan_to_num(7.0, torch.inf, -torch.inf).view(torch.int32))


def signs_of(size: int | None) -> tuple[float, ...] | None:
    return (size and random_signs(seed=1, layer="a", gemm="fprop", size=size)) or None


def compare(kernels: Sequence[Kernel], grid: Grid | None, rounding: Rounding) -> None:
    for block, size in BLOCKS:
        operand = Operand(grid=grid, block=block, rounding=rounding)
        signs = signs_of(size)
        for (count, blocks), dtype in product(SHAPES, (torch.float32, torch.bfloat16)):
            x = rows(count, block * blocks, dtype)
            for axis, matrix in ((1, x), (0, x.t().contiguous())):
                expected = reference.fake_quantize(matrix, operand, KEY, signs=signs, axis=axis)
                for kernel in kernels:
                    ours = kernel.fake_quantize(matrix, operand, KEY, signs=signs, axis=axis)
                    assert_same_bits(ours, expected)


@needs_compiler
@grids
@roundings
def test_every_bit_is_that_of_the_reference(
    kernels: tuple[Kernel, ...], grid: Grid, rounding: Rounding
) -> None:
    compare(kernels, grid, rounding)


@needs_compiler
def test_an_operand_without_a_grid_is_rotated_and_rounded_to_bf16(
    kernels: tuple[Kernel, ...],
) -> None:
    compare(kernels, None, Rounding.RTNE)


@needs_compiler
@pytest.mark.parametrize("grid", [E2M1, INT4], ids=["e2m1", "int4"])
def test_every_bf16_number_beside_a_fixed_maximum(kernels: tuple[Kernel, ...], grid: Grid) -> None:
    numbers = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    x = numbers[numbers.abs() <= grid.maximum].view(-1, 1).expand(-1, 16).contiguous()
    x[:, 5] = grid.maximum
    operand = Operand(grid=grid)
    expected = reference.fake_quantize(x, operand, 0)
    for kernel in kernels:
        assert_same_bits(kernel.fake_quantize(x, operand, 0), expected)


@needs_compiler
@grids
def test_a_position_equal_to_the_draw_goes_up(kernels: tuple[Kernel, ...], grid: Grid) -> None:
    u = uniforms(torch.arange(64), KEY).t()
    values = torch.tensor(grid.magnitudes)
    low, high = values[-2], values[-1]
    x = low + (high - low) * u
    expected = torch.where(x - low >= (high - low) * u, high, low)
    x[:, 0] = expected[:, 0] = high  # so that every scale is 1
    for kernel in kernels:
        ours = kernel.fake_quantize(x, Operand(grid=grid, rounding=Rounding.SR), KEY)
        assert torch.equal(ours, expected)


@needs_compiler
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rounding", Rounding)
def test_threads_share_the_work_and_change_no_bit(
    kernels: tuple[Kernel, ...], axis: int, rounding: Rounding
) -> None:
    x = torch.randn(48 * 16, 20 * 16, generator=torch.Generator().manual_seed(5))
    operand = Operand(grid=E2M1, rounding=rounding)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        ours = [kernel.fake_quantize(x, operand, KEY, axis=axis) for kernel in kernels]
    finally:
        torch.set_num_threads(before)
    expected = reference.fake_quantize(x, operand, KEY, axis=axis)
    for result in ours:
        assert_same_bits(result, expected)


@needs_compiler
def test_the_index_of_a_run_has_more_than_32_bits(kernels: tuple[Kernel, ...]) -> None:
    lanes, apart = 11, 2**33 + 5
    x = torch.rand(lanes, 16, generator=torch.Generator().manual_seed(6)) * 6
    x[:, 0] = 7
    y = torch.empty_like(x)
    job = native._Job(x=x.data_ptr(), y=y.data_ptr(), key=KEY, block=16, groups=1, lanes=lanes)
    native._lay_out(job, x.shape, 1)
    native._follow(job, INT4, Rounding.SR)
    job.lane_runs = apart
    u = uniforms(torch.arange(lanes) * apart, KEY).t().contiguous()
    expected = round_stochastic_(x.clone(), u, torch.empty_like(x), INT4)
    for kernel in kernels:
        assert kernel.library.quantize(job, 0, 1) == 0
        assert torch.equal(y, expected)
        y.zero_()


@needs_compiler
def test_any_layout_and_type_of_input_is_taken_as_it_is_read(kernels: tuple[Kernel, ...]) -> None:
    operand = Operand(grid=INT4)
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    for view in (x, x.half(), x.t(), x[:, ::2], x[:1].expand(32, -1), x[:0]):
        kept = view.clone()
        ours = kernels[0].fake_quantize(view, operand, 0)
        assert ours.shape == view.shape
        assert ours.is_contiguous()
        assert torch.equal(view, kept)
        assert_same_bits(ours, reference.fake_quantize(kept, operand, 0))


@needs_compiler
def test_a_ragged_axis_is_refused(kernels: tuple[Kernel, ...]) -> None:
    with pytest.raises(ValueError, match="axis 0 has 24 elements, not a multiple of 16"):
        kernels[0].fake_quantize(torch.zeros(24, 16), Operand(grid=INT4), 0, axis=0)


@needs_compiler
def test_a_library_is_compiled_once_for_each_set_of_flags(
    kernels: tuple[Kernel, ...], cache: Path
) -> None:
    first = native.build()
    stamp = first.stat().st_mtime_ns
    assert native.build() == first
    assert first.stat().st_mtime_ns == stamp
    assert first.parent == cache / "gridlaw"
    assert {native.build((*FLAGS, kind)) for kind in (NATIVE, PORTABLE)} > {first}


@needs_compiler
def test_the_layer_uses_the_compiled_kernel(no_kernel_yet: None, cache: Path) -> None:
    x = rows(16, 32, torch.bfloat16)
    operand = Operand(grid=E2M1, rounding=Rounding.SR)
    assert native.kernel() is not None
    assert_same_bits(ops.fake_quantize(x, operand, KEY), reference.fake_quantize(x, operand, KEY))


def no_compiler(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("PATH", str(folder))
    patch.delenv("CC", raising=False)


def broken_compiler(patch: pytest.MonkeyPatch, folder: Path) -> None:
    script = folder / "cc"
    script.write_text("#!/bin/sh\necho internal error >&2\nexit 1\n")
    script.chmod(0o700)
    patch.setenv("CC", str(script))


def cache_that_is_a_file(patch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "file").touch()
    patch.setenv("XDG_CACHE_HOME", str(folder / "file"))


@pytest.mark.parametrize(
    ("obstacle", "sentence"),
    [
        (no_compiler, "none of cc, gcc, clang is on the path"),
        (broken_compiler, "failed: internal error"),
        pytest.param(cache_that_is_a_file, "file", marks=needs_compiler),
    ],
)
def test_without_a_kernel_the_reference_serves_and_says_so_once(
    obstacle, sentence: str, no_kernel_yet: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    obstacle(monkeypatch, tmp_path)
    x, operand = rows(11, 32, torch.bfloat16), Operand(grid=INT4, rounding=Rounding.SR)
    expected = reference.fake_quantize(x, operand, KEY)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert_same_bits(ops.fake_quantize(x, operand, KEY), expected)
    (record,) = caplog.records
    assert "quantizing in plain torch" in record.getMessage()
    assert sentence in record.getMessage()


@needs_compiler
@pytest.mark.slow
def test_processes_that_compile_at_once_end_with_one_valid_library(tmp_path: Path) -> None:
    code = "from kernels import native; native.load(native.build()); print(native.build())"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    paths = {Path(process.communicate()[0].strip()) for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert set((tmp_path / "gridlaw").iterdir()) == paths
    assert len(paths) == 1


@needs_compiler
@pytest.mark.slow
def test_sanitizers_find_nothing_in_the_whole_matrix(cache: Path) -> None:
    runtimes = [
        Path(found.stdout.strip())
        for name in ("libasan.so", "libubsan.so")
        if (found := subprocess.run(
            ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False
        )).returncode == 0
    ]  # fmt: skip
    if len(runtimes) < 2 or not all(path.is_absolute() for path in runtimes):
        pytest.skip("the compiler has no sanitizer runtime")
    library = native.build(
        (*FLAGS, NATIVE, "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    )
    code = f"""
from pathlib import Path
from kernels import native
from kernels.recipes import Rounding
from tests.kernels.test_native import GRIDS, compare
kernel = native.load(Path({str(library)!r}))
for grid in (*GRIDS, None):
    for rounding in Rounding if grid else [Rounding.RTNE]:
        compare([kernel], grid, rounding)
print("clean")
"""
    environment = {
        "LD_PRELOAD": ":".join(map(str, runtimes)),
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "clean", done.stderr[-3000:]
