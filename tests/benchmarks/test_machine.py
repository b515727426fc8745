"""A result names the machine and the checkout that it comes from."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from benchmarks.machine import ROOT, load_sentence, machine

CPU = torch.device("cpu")


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="no other word on the processor")
def test_a_cpu_is_named_by_its_model_and_its_widest_vectors() -> None:
    listed = subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout
    fields = dict(line.split(":", 1) for line in listed.splitlines() if ":" in line)
    model, vectors = machine(CPU).name.rsplit(", ", 1)
    assert model == fields["Model name"].strip()
    assert vectors == torch.backends.cpu.get_cpu_capability()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
def test_the_commit_is_that_of_the_checkout_and_marked_if_a_source_differs() -> None:
    found = machine(CPU).commit
    assert found is not None
    assert git("rev-parse", "HEAD").startswith(found.rstrip("+"))
    differing = [
        path for path in git("diff", "--name-only", "HEAD").split()
        if not path.startswith("benchmarks/results/")
    ]  # fmt: skip
    assert found.endswith("+") == bool(differing)


def test_a_load_above_half_of_the_cores_is_a_sentence_and_one_below_is_none() -> None:
    assert load_sentence(2.0, 4) is None
    said = load_sentence(2.1, 4)
    assert said is not None
    assert said.startswith("The load average was 2.1 on 4 cores at the start")


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert machine(CPU).compiler is None


def test_the_compiler_says_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "mycc"
    compiler.write_text("#!/bin/sh\necho mycc 1.2.3\necho more\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert machine(CPU).compiler == "mycc 1.2.3"
