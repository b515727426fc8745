"""Which implementation serves, and that nobody can tell by the bits."""

import logging
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernels import native, ops, reference
from kernels.formats import E2M1, INT4
from kernels.hadamard import Rotation
from kernels.operands import Operand, Rounding, Scale
from tests.kernels.drawn_cases import KINDS, assert_same, rows

KEY = 0xFEDCBA9876543210
TURNED = Rotation((1.0, -1.0) * 8, to_bf16=True)
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="no C compiler"
)


@pytest.fixture
def no_kernel_yet() -> Iterator[None]:
    caches = (native.kernel, native._kernel)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@needs_compiler
@pytest.mark.parametrize("axis", [0, 1])
def test_on_a_cpu_with_a_compiler_the_c_kernel_serves(axis: int) -> None:
    kernel = native.kernel()
    assert kernel is not None
    x = rows(16, 32, KINDS["spoilt"]).to(torch.bfloat16)
    operand = Operand(grid=E2M1, rounding=Rounding.SR, scale=Scale.E4M3, outer=16)
    expected = reference.fake_quantize(x, operand, KEY, rotation=TURNED, axis=axis)
    assert_same(ops.fake_quantize(x, operand, KEY, rotation=TURNED, axis=axis), expected)


@pytest.mark.parametrize("carrier", [torch.bfloat16, torch.float16])
def test_the_carrier_is_that_of_the_caller(carrier: torch.dtype) -> None:
    x = torch.randn(4, 20, generator=torch.Generator().manual_seed(1))
    assert torch.equal(
        ops.fake_quantize(x, Operand(), 0, carrier=carrier).values, x.to(carrier).float()
    )


def no_compiler(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("PATH", str(folder))
    patch.delenv("CC", raising=False)


def broken_compiler(patch: pytest.MonkeyPatch, folder: Path) -> None:
    script = folder / "cc"
    script.write_text("#!/bin/sh\necho internal error >&2\nexit 1\n")
    script.chmod(0o700)
    patch.setenv("CC", str(script))


def command_with_an_open_quote(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("CC", 'gcc "')


def nobody_with_a_home(patch: pytest.MonkeyPatch, folder: Path) -> None:
    def no_entry(user: int) -> None:
        raise KeyError(user)

    for name in ("XDG_CACHE_HOME", "HOME"):
        patch.delenv(name, raising=False)
    patch.setattr("pwd.getpwuid", no_entry)


def cache_that_is_a_file(patch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "file").touch()
    patch.setenv("XDG_CACHE_HOME", str(folder / "file"))


@pytest.mark.parametrize(
    ("obstacle", "sentence"),
    [
        (no_compiler, "none of cc, gcc, clang is on the path"),
        (broken_compiler, "failed: internal error"),
        (command_with_an_open_quote, "CC is not a command: No closing quotation"),
        pytest.param(nobody_with_a_home, "no folder for a cache", marks=needs_compiler),
        pytest.param(cache_that_is_a_file, "file", marks=needs_compiler),
    ],
)
def test_without_a_kernel_the_reference_serves_and_says_so_once(
    obstacle, sentence: str, no_kernel_yet: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    obstacle(monkeypatch, tmp_path)
    x = rows(11, 32, KINDS["spoilt"]).to(torch.bfloat16)
    operand = Operand(grid=INT4, rounding=Rounding.SR)
    expected = reference.fake_quantize(x, operand, KEY)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert_same(ops.fake_quantize(x, operand, KEY), expected)
    (record,) = caplog.records
    assert "quantizing in plain torch" in record.getMessage()
    assert sentence in record.getMessage()


def test_threads_that_are_first_at_once_say_so_once(
    no_kernel_yet: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    broken_compiler(monkeypatch, tmp_path)
    started, together = [], threading.Barrier(4)

    def first_use() -> None:
        together.wait(10)
        started.append(native.kernel())

    threads = [threading.Thread(target=first_use) for _ in range(4)]
    with caplog.at_level(logging.WARNING):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert started == [None] * 4
    assert len(caplog.records) == 1
