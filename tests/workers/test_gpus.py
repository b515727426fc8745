"""What the driver's own tool says, played by a script of its name."""

import os
from pathlib import Path

import pytest

from workers.gpus import Gpu, gpus_of_this_machine


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_every_gpu_of_the_machine_is_listed_whatever_this_process_may_see(tmp_path, monkeypatch):
    lines = "0, GPU-5a2c, 143771\\n1, GPU-91bb, 81559\\n"
    install(tmp_path, monkeypatch, f"printf '{lines}'")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus_of_this_machine() == (
        Gpu(index="0", uuid="GPU-5a2c", num_bytes=143771 * 2**20),
        Gpu(index="1", uuid="GPU-91bb", num_bytes=81559 * 2**20),
    )


def test_a_gpu_that_tells_no_memory_is_left_out(tmp_path, monkeypatch):
    lines = "0, GPU-5a2c, [Unknown Error]\\n1, GPU-91bb, 81559\\n"
    install(tmp_path, monkeypatch, f"printf '{lines}'")
    assert [gpu.index for gpu in gpus_of_this_machine()] == ["1"]


@pytest.mark.parametrize("script", ["exit 9", "echo No devices were found; exit 6", "true"])
def test_a_tool_that_fails_or_finds_nothing_lists_none(script, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, script)
    assert gpus_of_this_machine() == ()


def test_a_machine_without_the_tool_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus_of_this_machine() == ()
