"""A preflight passes where the numerics hold, and fails by the right check where one is broken.

What is broken is broken for real: the processor's own flush to zero, the C kernel compiled with
-ffast-math or from patched sources, torch operations and generators replaced by wrong ones.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import kernels.preflight
from kernels import compiled, native, philox, reference, rounding
from kernels.checks import draws, quantizers, transform
from kernels.checks.bits import equal_bits
from kernels.formats import GRIDS
from kernels.hadamard import rotate
from kernels.operands import Operand, Rounding, Scale
from kernels.preflight import CHECKS, preflight, preflight_once
from kernels.recipes import RHT_SIZES
from kernels.verdict import Check

CPU = torch.device("cpu")
SR = ("sr mean", "sr streams")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def plain(monkeypatch):
    """No C kernel: the reference itself is what quantizes."""
    monkeypatch.setattr(native, "kernel", lambda: None)


def failing(*names: str) -> set[str]:
    """Which of these checks fail, all of them if none is named."""
    checks = dict(CHECKS)
    return {name for name in names or checks if not checks[name](CPU).passed}


def kernel_of(
    folder: Path, *flags: str, patch: tuple[str, str, str] | None = None
) -> native.Kernel:
    """The C kernel from its sources, some text in one of them replaced, built in haste."""
    for source in (*compiled.SOURCE.parent.glob("*.h"), compiled.SOURCE):
        shutil.copy(source, folder)
    if patch is not None:
        file, right, wrong = patch
        text = (folder / file).read_text()
        assert text.count(right) == 1, f"{file} has changed; patch another line"
        (folder / file).write_text(text.replace(right, wrong))
    options = [flag for flag in compiled.FLAGS if not flag.startswith("-O")]
    library = folder / "broken.so"
    command = ["cc", *options, *flags, "-o", str(library), str(folder / compiled.SOURCE.name)]
    subprocess.run(command, check=True, capture_output=True)
    return native.Kernel(compiled.load(library))


def test_a_sound_machine_passes_every_check_and_says_what_it_is():
    found = preflight(CPU)
    assert [check.name for check in found.checks] == [name for name, _ in CHECKS]
    assert found.passed, found.failure
    assert found.failure is None
    assert re.fullmatch(r"cpu: (C kernel|plain torch), \w+", found.device)
    assert 0 < found.seconds < 60


def test_each_detail_is_a_sentence_with_the_numbers_seen():
    for _, check in CHECKS:
        found = check(CPU)
        assert re.search(r"\d", found.detail), found
        assert "\n" not in found.detail


@pytest.mark.usefixtures("plain")
def test_plain_torch_passes_too_and_is_named():
    found = preflight(CPU)
    assert found.passed, found.failure
    assert found.device.startswith("cpu: plain torch")


def test_a_device_that_passed_is_not_checked_again_by_the_same_process(monkeypatch):
    monkeypatch.setattr(transform, "rotate", lambda x, _rotation: x)
    monkeypatch.setattr(kernels.preflight, "_passed", {})
    assert not preflight_once(CPU).passed
    monkeypatch.setattr(transform, "rotate", rotate)
    found = preflight_once(CPU)
    assert found.passed, found.failure
    assert preflight_once(torch.device("cpu")) is found


def test_flushing_subnormals_is_seen():
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormals")
    try:
        found = preflight(CPU)
    finally:
        torch.set_flush_denormal(False)
    assert not found.passed
    broken = {check.name for check in found.checks if not check.passed}
    assert "subnormals" in broken
    assert found.failure is not None
    assert found.failure.startswith(
        f"the preflight of {found.device} failed: subnormals: 65,504 of"
    )
    assert "00000001" in found.failure


@needs_cc
@pytest.mark.slow
def test_a_kernel_built_with_fast_math_is_seen(tmp_path, monkeypatch):
    try:
        broken = kernel_of(tmp_path, "-O1", "-ffast-math")
        monkeypatch.setattr(native, "kernel", lambda: broken)
        found = preflight(CPU)  # in which a check may also raise: a smallest number is zero now
        broken_checks = {check.name for check in found.checks if not check.passed}
        assert "grids and scales" in broken_checks
    finally:
        torch.set_flush_denormal(False)  # which loading such a library may have switched on


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "right", "wrong", "check"),
    [
        ("draws.h", "even = first + ", "even = (first & 255) + ", "sr streams"),
        ("draws.h", "key_1 = (uint32_t)(key >> 32)", "key_1 = key_0 = 7", "sr streams"),
        ("draws.h", "round < 10", "round < 1", "sr streams"),
        (
            "quantize.c",
            "*a + *b, difference = *a - *b",
            "*a + *b, difference = *b - *a",
            "grids and scales",
        ),
        ("scales.h", "s = amax / target;", "s = amax * (1 / target);", "grids and scales"),
        ("scales.h", "ints(1 << 22)", "ints(0)", "grids and scales"),
        ("scales.h", "(Words)s + 0x7FFFFu", "(Words)s + 0", "known values"),
    ],
    ids=[
        "forgets the tile",
        "forgets the key",
        "one round",
        "butterfly",
        "reciprocal",
        "subnormal scale",
        "five bits",
    ],
)
def test_a_kernel_with_one_wrong_line_is_seen(tmp_path, monkeypatch, file, right, wrong, check):
    broken = kernel_of(tmp_path, "-O0", patch=(file, right, wrong))
    monkeypatch.setattr(native, "kernel", lambda: broken)
    assert failing(check) == {check}


@pytest.mark.parametrize(
    ("wrong", "checks"),
    [
        (lambda run, place: (run * 16 + place) % 256 / 256 + 2.0**-9, {"sr streams"}),
        (lambda run, place: torch.full_like(run + place, 0.5, dtype=torch.float32), {*SR}),
        (lambda run, place: (run * 0.381966 + place * 0.618034) % 1.0, {"sr streams"}),
    ],
    ids=["a counter", "a constant", "a low-discrepancy sequence"],
)
@pytest.mark.usefixtures("plain")
def test_draws_that_are_no_random_numbers_are_seen(monkeypatch, wrong, checks):
    def uniforms(runs: Tensor, key: int, *, bits: int, half_offset: bool) -> Tensor:
        place = torch.arange(16).view(16, 1)
        draws: Tensor = wrong(runs.unsqueeze(-2).expand(*runs.shape[:-1], 16, -1), place)
        return draws.float()

    monkeypatch.setattr(reference, "uniforms", uniforms)
    assert failing(*SR) >= checks


@pytest.mark.parametrize(
    "distort",
    [
        lambda runs, key: (runs % 256, key),
        lambda runs, key: (runs, key * 0),
        lambda runs, key: (runs + key, 0),
    ],
    ids=["forgets the tile", "forgets the key", "adds the key to the counter"],
)
@pytest.mark.usefixtures("plain")
def test_streams_that_are_not_distinct_are_seen(monkeypatch, distort):
    right = philox.uniforms

    def uniforms(runs: Tensor, key: int, *, bits: int, half_offset: bool) -> Tensor:
        runs, key = distort(runs, key % 4096)
        return right(runs, key, bits=bits, half_offset=half_offset)

    monkeypatch.setattr(reference, "uniforms", uniforms)
    assert failing("sr streams")


@pytest.mark.parametrize("shift", [-0.02, 0.02])
@pytest.mark.usefixtures("plain")
def test_a_bias_of_two_percent_is_seen(monkeypatch, shift):
    right = philox.uniforms
    monkeypatch.setattr(reference, "uniforms", lambda *given, **how: right(*given, **how) + shift)
    assert failing(*SR) == {"sr mean"}


@pytest.mark.usefixtures("plain")
def test_draws_that_change_from_call_to_call_are_seen(monkeypatch):
    def uniforms(runs: Tensor, *_given: int, **_how: int) -> Tensor:
        return torch.rand(*runs.shape[:-1], 16, runs.shape[-1])

    monkeypatch.setattr(reference, "uniforms", uniforms)
    found = draws.streams(CPU)
    assert not found.passed
    assert "the same key gave other draws" in found.detail


def test_words_that_are_not_the_published_ones_are_seen(monkeypatch):
    right = philox.philox4x32
    monkeypatch.setattr(draws, "philox4x32", lambda counter, key: right(counter, key) ^ 1)
    found = draws.generator(CPU)
    assert not found.passed
    assert "gave 6627e8d4" in found.detail


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda x: x * 1.00001, "is not orthogonal"),
        (lambda x: x.flip(-1), "differs from signs and Hadamard's matrix"),
        (lambda x: x.to(torch.bfloat16).float(), "the RHT of"),
        (lambda x: x if x.shape[-1] < 128 else x * torch.nan, "the RHT of 64"),
        (torch.zeros_like, "the RHT of"),
    ],
    ids=["norm", "order", "bf16", "nan", "zero"],
)
def test_a_transform_that_is_not_the_rht_is_seen(monkeypatch, wrong, complaint):
    monkeypatch.setattr(transform, "rotate", lambda x, rotation: wrong(rotate(x, rotation)))
    found = transform.transforms(CPU)
    assert not found.passed
    assert complaint in found.detail


def broken_to(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Conversion to BF16 that cuts off."""

    def to(self: Tensor, *given: object, **how: object) -> Tensor:
        if given[:1] == (torch.bfloat16,):
            cut = self.clone().view(torch.int32) & -0x10000
            return right(cut.view(torch.float32), *given, **how)
        return right(self, *given, **how)

    return to


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "check"),
    [
        (
            torch.Tensor,
            "__truediv__",
            lambda right: lambda a, b: a * right(torch.ones(()), b),
            "division",
        ),
        (torch.Tensor, "to", broken_to, "bf16 rounding"),
        (
            torch,
            "mm",
            lambda right: lambda a, b: right(a.bfloat16().float(), b.bfloat16().float()),
            "fp32 products",
        ),
        (
            torch,
            "mm",
            lambda right: lambda a, b: right(a.bfloat16().float(), b.bfloat16().float()),
            "narrow products",
        ),
        (
            torch,
            "mm",
            lambda right: lambda a, b: right(a, b).bfloat16().float(),
            "narrow products",
        ),
    ],
    ids=["reciprocal", "cut off", "bf16 products", "bf16 for tf32", "bf16 sums"],
)
def test_arithmetic_that_rounds_otherwise_is_seen(monkeypatch, owner, name, wrong, check):
    monkeypatch.setattr(owner, name, wrong(getattr(owner, name)))
    found = dict(CHECKS)[check](CPU)
    monkeypatch.undo()
    assert not found.passed, found


@pytest.mark.usefixtures("plain")
def test_a_reference_that_is_wrong_itself_is_seen_by_what_is_known(monkeypatch):
    right = rounding.round_nearest_
    monkeypatch.setattr(
        reference, "round_nearest_", lambda q, spare, grid: right(q.mul_(1 + 2.0**-20), spare, grid)
    )
    assert failing("known values", "grids and scales") == {"known values"}


def test_a_check_that_raises_has_failed(monkeypatch, caplog):
    def rotate_nothing(*_given: object) -> Tensor:
        raise RuntimeError("no such instruction\nat all")

    monkeypatch.setattr(transform, "rotate", rotate_nothing)
    (found,) = [check for check in preflight(CPU).checks if not check.passed]
    assert (found.name, found.detail) == ("rht", "raised RuntimeError: no such instruction")
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("got", [(1.0, 2.0000002), (1.0, torch.inf), (-0.0, 2.0)])
def test_one_bit_is_enough(got):
    right = torch.tensor((1.0, 2.0)) if got[0] else torch.tensor((0.0, 2.0))
    found = equal_bits("name", "numbers", torch.tensor(got), right)
    assert not found.passed
    assert found.detail.startswith("1 of 2 numbers are wrong; the first is ")


def test_nan_equals_nan_whatever_its_bits():
    nans = torch.tensor((0x7FC00000, 0x7F800001, -1), dtype=torch.int32).view(torch.float32)
    assert equal_bits("name", "numbers", nans, nans.flip(0)).passed


def test_every_grid_scale_rounding_and_transform_is_among_the_variants():
    operands = [variant.operand for variant in quantizers._variants()]
    pairs = {(operand.grid, operand.scale) for operand in operands}
    beyond = (GRIDS["bf16"], Scale.E4M3)  # 448 times its maximum is no FP32 number
    assert pairs >= {(grid, scale) for grid in GRIDS.values() for scale in Scale} - {beyond}
    assert {operand.rounding for operand in operands} == set(Rounding)
    drawn = [operand for operand in operands if operand.rounding is Rounding.SR]
    assert {operand.grid for operand in drawn} == set(GRIDS.values())
    assert {operand.scale for operand in drawn} == set(Scale)
    assert {operand.random_bits for operand in drawn} == {8, 16, 24}
    sizes = {len(v.rotation.signs) for v in quantizers._variants() if v.rotation}
    assert sizes == set(RHT_SIZES)


def test_no_variant_has_an_empty_answer():
    for variant in quantizers._variants():
        *values, _factor = variant.quantized(reference.fake_quantize, CPU).tolist()
        told = [abs(value) for value in values if value and abs(value) < torch.inf]
        assert len(told) > 0.15 * len(values), variant.label
        assert len(set(told)) > 5, variant.label


def test_known_values_cover_every_scale():
    assert {known.scale for known in quantizers.KNOWN} == set(Scale)
    assert all(Operand(grid=known.grid, scale=known.scale) for known in quantizers.KNOWN)


def test_the_failure_is_that_of_the_first_check_that_failed():
    found = preflight(CPU)
    wrong = (Check(name="a", passed=False, detail="1"), Check(name="b", passed=False, detail="2"))
    assert type(found)(device="cpu", seconds=1.0, checks=(*found.checks, *wrong)).failure == (
        "the preflight of cpu failed: a: 1"
    )
