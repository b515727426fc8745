"""What a GPU would run, without one: every kernel compiled for three generations of GPUs."""

import multiprocessing
import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
import torch

from kernels.blocks import TENSOR, Block
from kernels.formats import E2M1, INT4, Grid
from kernels.gemm import DGRAD, FORMS, FPROP, WGRAD, Form, operand_of
from kernels.hadamard import Rotation
from kernels.operands import CARRIED, Operand, Rounding, Scale, Source
from kernels.presets import PRESETS
from kernels.recipes import Gemm, Precision, Recipe
from kernels.request import Request
from tests.kernels.ahead_of_time import Compiled, Launch, compiled, compiling

CAPABILITIES = (80, 90, 100)
REGISTERS = 168
"""Of a thread. A multiprocessor has 65536, so that 12 warps are at work at once."""
ARITHMETIC = re.compile(
    r"(add|sub|mul)\.rn\.f32(x2)?|div\.rn\.f32|(min|max|neg|abs|selp|set|setp|mov)\b.*"
)
CAST = re.compile(r"cvt\.(f32\.bf16|f32\.f16|rn\.f32\.[su]32|rn\.bf16x?2?\.f32|rn\.f16x?2?\.f32)")
BOTH = ("ufp4", "nvfp4", "mxfp4-sr", "fp8-block", "tetrajet2")
"""Presets that have another scale, block or transform each."""
IRREGULAR = Grid("irregular", (0.0, 0.1, 0.25, 1.0, 1.1, 5.0))
OTHERS = {
    "rht 128": (Operand(grid=INT4), 128),
    "rht 64, to bf16, sr": (Operand(grid=E2M1, rounding=Rounding.SR), 64),
    "rht alone, fp16": (CARRIED, 16),
    "sr of 24 bits": (Operand(grid=INT4, rounding=Rounding.SR, random_bits=24), 0),
    "eden": (Operand(grid=E2M1, rounding=Rounding.EDEN), 16),
    "eden, 1x128": (Operand(grid=E2M1, rounding=Rounding.EDEN, block=Block(along=128)), 0),
    "alternate": (Operand(grid=E2M1, alternate=4.0), 0),
    "irregular grid": (Operand(grid=IRREGULAR), 0),
    "irregular grid, sr": (Operand(grid=IRREGULAR, rounding=Rounding.SR), 0),
    "outer": (Operand(grid=E2M1, scale=Scale.E4M3, outer=128), 16),
    "5 x 48": (Operand(grid=INT4, block=Block(across=5, along=48)), 0),
    "tensor, e8m0": (Operand(grid=E2M1, scale=Scale.E8M0_FLOOR, block=TENSOR), 0),
}  # fmt: skip


def request(recipe: Recipe, form: Form, word: str) -> Request:
    operand, axis = operand_of(recipe, form, word)
    gemm: Gemm = getattr(recipe, form.name)
    rotation = None if gemm.rht is None else rotated(gemm.rht.size, gemm.rht.to_bf16)
    return Request(operand=operand, key=0, rotation=rotation, axis=axis, precision=recipe.gemm)


def rotated(size: int, to_bf16: bool = False) -> Rotation:
    return Rotation((1.0,) * size, to_bf16)


def of_presets() -> Iterator[tuple[str, Launch]]:
    """Each operand by itself, and for some presets dy for both GEMMs that take it."""
    for recipe in PRESETS.values():
        for form in FORMS.values():
            for word in (form.left, form.right):
                asked = request(recipe, form, word)
                if asked.operand.grid is not None or asked.rotation is not None:
                    dequantized = asked.operand.source is Source.FORWARD
                    dtype = torch.float32 if dequantized else torch.bfloat16
                    yield (
                        f"{recipe.name}, {form.name}, {word}",
                        Launch(requests=(asked,), dtype=dtype),
                    )
    for name in BOTH:
        pair = request(PRESETS[name], DGRAD, "dy"), request(PRESETS[name], WGRAD, "dy")
        yield f"{name}, both, dy", Launch(requests=pair)


def of_others() -> Iterator[tuple[str, Launch]]:
    """What no preset asks for, and the values of a preset in 16 bits."""
    for name, (operand, size) in OTHERS.items():
        for axis in (0, 1):
            yield (
                f"{name}, axis {axis}",
                Launch(
                    requests=(
                        Request(
                            operand=operand,
                            key=0,
                            axis=axis,
                            rotation=rotated(size, "to bf16" in name) if size else None,
                            carrier=torch.float16 if "fp16" in name else torch.bfloat16,
                        ),
                    ),
                    shape=(4095, 4093),
                    dtype=torch.float16 if "fp16" in name else torch.bfloat16,
                ),
            )
    for name in ("ufp4", "nvfp4"):
        pair = (request(PRESETS[name], DGRAD, "dy"), request(PRESETS[name], WGRAD, "dy"))
        narrow = tuple(replace(asked, precision=Precision.BF16) for asked in pair)
        yield f"{name} in bf16, both, dy", Launch(requests=narrow)
        for asked in narrow:
            yield f"{name} in bf16, axis {asked.axis}", Launch(requests=(asked,))


def distinct(launches: Iterable[tuple[str, Launch]]) -> dict[str, Launch]:
    """Launches by name, without those whose kernels others have in all but constants."""
    return dict({launch.key(): (name, launch) for name, launch in launches}.values())


@pytest.fixture(scope="module")
def compilers() -> Iterator[ProcessPoolExecutor]:
    processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=processes) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_every_kernel_of_every_preset_keeps_to_registers_and_to_rounded_arithmetic(
    compilers: ProcessPoolExecutor, capability: int
) -> None:
    assert_sound(compilers, capability, distinct(of_presets()), {"quantize", "measure"})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_so_does_what_no_preset_asks_for(compilers: ProcessPoolExecutor) -> None:
    assert_sound(compilers, 90, distinct(of_others()), {"quantize", "measure", "weigh"})


def assert_sound(
    compilers: ProcessPoolExecutor, capability: int, launches: dict[str, Launch], names: set[str]
) -> None:
    kernels = dict(
        zip(
            launches,
            compilers.map(partial(compiled, capability), launches.values()),
            strict=True,
        )
    )
    assert {kernel.name for of_one in kernels.values() for kernel in of_one} == names
    wrong = {name: [fault for one in kernels[name] for fault in faults(one)] for name in kernels}
    assert not {name: found for name, found in wrong.items() if found}


def faults(kernel: Compiled) -> list[str]:
    """Why a kernel is slow, or why its bits may be others than those of the reference."""
    found = [f"{kernel.name}: {kernel.spilled} bytes spilled"] if kernel.spilled else []
    if kernel.registers > min(REGISTERS, 2**16 // (32 * kernel.warps)):
        found.append(f"{kernel.name}: {kernel.registers} registers")
    # Others fuse two operations, flush subnormal numbers or are wrong in the last bits.
    found.extend(
        f"{kernel.name}: {instruction}"
        for instruction in sorted(kernel.instructions)
        if re.search(r"\.f(16|32|64)|\.bf16|call", instruction)
        and (
            ".ftz" in instruction
            or not (ARITHMETIC.fullmatch(instruction) or CAST.fullmatch(instruction))
        )
    )
    return found


def test_matrices_of_other_sizes_do_not_ask_for_other_kernels() -> None:
    asked = request(PRESETS["ufp4-no-rht"], FPROP, "x")
    with compiling(90) as kernels:
        for shape in ((4096, 4096), (2048, 5120), (65536, 1024), (100_000 * 16, 2**16)):
            Launch(requests=(asked,), shape=shape).run()
    assert len(kernels) == 1


def test_what_is_forbidden_is_found() -> None:
    clean = Compiled(
        name="k", warps=4, registers=40, spilled=0,
        instructions=frozenset({"add.rn.f32", "div.rn.f32", "mad.lo.s64", "setp.num.f32"}),
    )  # fmt: skip
    assert not faults(clean)
    for bad in ("fma.rn.f32", "fma.rn.f32x2", "add.f32", "add.rn.ftz.f32", "div.full.f32",
                "rcp.approx.ftz.f32", "cvt.rn.satfinite.e4m3x2.f32", "call.uni",
                "mul.rn.f64", "setp.lt.ftz.f32", "set.gt.ftz.f32.f32", "max.ftz.f32",
                "min.ftz.NaN.f32", "abs.ftz.f32", "neg.ftz.f32"):  # fmt: skip
        assert faults(replace(clean, instructions=frozenset({bad})))
    assert faults(replace(clean, spilled=8))
    assert faults(replace(clean, registers=200))
