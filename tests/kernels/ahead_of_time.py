"""Compiles the Triton kernels for GPUs that are not there, as `kernels.gpu` would launch them.

The launcher runs on tensors without data, and the driver that Triton is given compiles what it is
handed and launches nothing: signatures, constants and options are those of a real launch.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.driver import driver

from kernels import gpu, quantize_triton, weigh_triton
from kernels.arithmetic import Arithmetic
from kernels.passes import pass_of
from kernels.request import Request

_WARP = 32
_FLOATS = tuple(field.name for field in fields(Arithmetic) if field.type is float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What the launcher is asked for.

    Attributes:
        requests: One, or one for each axis of the same matrix.
        shape: Of the matrix.
        dtype: Of its elements.
    """

    requests: tuple[Request, ...]
    shape: tuple[int, int] = (4096, 4096)
    dtype: torch.dtype = torch.bfloat16

    def key(self) -> tuple[object, ...]:
        """Equal for launches whose kernels differ in the values of constants alone."""
        return self.dtype, *(self._key(request) for request in self.requests)

    def run(self) -> None:
        """Ask the launcher."""
        x = torch.empty(self.shape, dtype=self.dtype, device="meta")
        if len(self.requests) == 1:
            gpu.fulfil(x, *self.requests)
        else:
            gpu.fulfil_both(x, *self.requests)

    def _key(self, request: Request) -> tuple[object, ...]:
        plan = pass_of(request, self.shape[1 - request.axis], self.shape[request.axis])
        # A product with 1 is left out; else it does not matter to the code what a number is.
        same: dict[str, Any] = {name: getattr(plan.numbers, name) == 1 for name in _FLOATS}
        same |= dict.fromkeys(("least_exponent", "mantissa_bits", "exponent", "carry"), 0)
        numbers = replace(plan.numbers, **same)
        return replace(plan, numbers=numbers), request.precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A kernel as a GPU would load it.

    Attributes:
        name: Of the kernel.
        warps: That a program runs in.
        registers: Of a thread.
        spilled: Bytes of a thread's memory.
        instructions: Of its PTX, without operands.
    """

    name: str
    warps: int
    registers: int
    spilled: int
    instructions: frozenset[str]


def compiled(capability: int, launch: Launch) -> list[Compiled]:
    """The kernels of a launch, for a GPU of a compute capability as in 90."""
    with compiling(capability) as kernels:
        launch.run()
    return kernels


@contextmanager
def compiling(capability: int) -> Iterator[list[Compiled]]:
    """Has Triton compile for a GPU and launch nothing; a list of what it compiled meanwhile."""
    kernels: list[Compiled] = []

    def listen(*, metadata: dict[str, Any], metadata_group: dict[str, str], **_: object) -> None:
        files = {Path(path).suffix: Path(path) for path in metadata_group.values()}
        kernels.append(_read(metadata, files[".cubin"], files[".ptx"].read_text()))

    before = driver._active
    driver.set_active(_NoGpu(capability))
    try:
        with triton.knobs.compilation.scope():
            triton.knobs.compilation.listener = listen
            yield kernels
    finally:
        for kernel in (quantize_triton.quantize, quantize_triton.measure, weigh_triton.weigh):
            kernel.device_caches.pop(capability, None)
        driver._active = before


class _NoGpu(DriverBase):  # type: ignore[misc]
    """A device whose number is its compute capability."""

    def __init__(self, capability: int) -> None:
        self._capability = capability
        self.utils = self

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError

    def get_active_torch_device(self) -> torch.device:
        return torch.device("meta")

    def get_benchmarker(self) -> Any:
        raise NotImplementedError

    def get_current_device(self) -> int:
        return self._capability

    def get_current_stream(self, _device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._capability, _WARP)

    def get_device_properties(self, _device: int) -> dict[str, int]:
        return {"max_shared_mem": 1 << 17}

    def launcher_cls(self, _source: object, _metadata: object) -> Any:
        return lambda *_: None

    def load_binary(self, *_: object) -> tuple[None, None, int, int, int]:
        """No module, so that none is unloaded; no function; registers, spills and most threads."""
        return None, None, 0, 0, 1024


def _read(metadata: dict[str, Any], binary: Path, ptx: str) -> Compiled:
    tool = triton.knobs.nvidia.cuobjdump.path
    command = [tool, "--dump-resource-usage", str(binary)]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def used(what: str) -> int:
        found = re.search(rf"\b{what}:(\d+)", usage)
        assert found is not None, usage
        return int(found[1])

    return Compiled(
        name=metadata["name"],
        warps=metadata["num_warps"],
        registers=used("REG"),
        spilled=used("STACK") + used("LOCAL"),
        instructions=frozenset(
            re.findall(r"^\s+(?:@!?%p\d+\s+)?([a-z]\w*(?:\.\w+)*)\s", ptx, re.M)
        ),
    )
