"""What a benchmark ran on: the processor, and the versions that decide how fast it is.

The name is that of the GPU, or of the CPU model with the widest vectors that torch uses on it.
"""

import os
import platform
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from kernels.preflight import described
from sweeps.wording import plural

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "benchmarks/results"
LOAD = os.getloadavg()[0]
"""Of the minute before this module was read, to which no benchmark has added yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where and by what.

    Attributes:
        device: `cpu` or `cuda`.
        name: Model of the processor.
        kernels: Which implementation served: `cpu: C kernel, AVX512`, `cuda: NVIDIA H200`.
        cores: Logical cores of the CPU.
        python: Version.
        torch: Version.
        triton: Version, or None where it is not installed.
        compiler: First line of what the C compiler says of itself, or None without one.
        commit: Of the checkout, with `+` where sources differ from it; None outside of one.
        date: UTC, to the second.
        load: A sentence where the machine had other work when the benchmarks were started, or None.
    """

    device: str
    name: str
    kernels: str
    cores: int
    python: str
    torch: str
    triton: str | None
    compiler: str | None
    commit: str | None
    date: str
    load: str | None


def machine(device: torch.device) -> Machine:
    """This one, now."""
    return Machine(
        device=device.type,
        name=_name(device),
        kernels=described(device),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        torch=torch.__version__,
        triton=_installed("triton"),
        compiler=_compiler(),
        commit=_commit(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        load=load_sentence(LOAD, os.cpu_count() or 1),
    )


def load_sentence(load: float, cores: int) -> str | None:
    """What a reader should know of other work; None if it took at most half of the cores."""
    if load <= 0.5 * cores:
        return None
    return (
        f"The load average was {load:.1f} on {plural(cores, 'core')} at the start: "
        "the machine had other work, and figures of several threads say little."
    )


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_cpu_model()}, {torch.backends.cpu.get_cpu_capability()}"


def _cpu_model() -> str:
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.is_file() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _compiler() -> str | None:
    chosen = shlex.split(os.environ.get("CC", "")) or ["cc"]
    return _first_line(*chosen, "--version") if shutil.which(chosen[0]) else None


def _commit() -> str | None:
    commit = _first_line("git", "rev-parse", "--short=12", "HEAD") if shutil.which("git") else None
    changed = commit and _first_line(
        "git", "status", "--porcelain", "--untracked-files=no", "--", ".", f":!{RESULTS}"
    )
    return f"{commit}+" if changed else commit


def _first_line(*command: str) -> str | None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return lines[0] if done.returncode == 0 and lines else None
