"""What is measured of fake quantization: grids with and without RHT and SR, then other scales.

A case is a quantizer, which runs along each axis of a tensor x:

    row     an operand along axis 1           reads x, writes a tensor
    col     an operand along axis 0           reads x, writes a tensor
    both    an operand along each axis        reads x, writes two tensors

A section is cases on one x in one number of threads, a table of the report.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import torch
from torch import Tensor

from benchmarks.results import Setting
from kernels import draws, ops
from kernels.blocks import ROW, TENSOR, Block
from kernels.formats import E2M1, E4M3, GRIDS, INT8
from kernels.hadamard import rotation
from kernels.operands import Operand, Rounding, Scale
from kernels.recipes import Precision, Rht
from kernels.reference import FakeQuantized
from kernels.request import Request

AXES = {"row": 1, "col": 1, "both": 2}
"""Each with the number of tensors that it writes."""
RHT_SIZE, KEY = 16, 0x9E3779B97F4A7C15

BY_GRID = {name: Operand(grid=grid) for name, grid in GRIDS.items() if grid.name == name}
"""Every grid under an FP32 scale of 1x16; of two names for the same one the last."""

BY_SCALE = {
    "e8m0 1x32": Operand(grid=E4M3, block=Block(along=32), scale=Scale.E8M0_RCEIL),
    "e4m3 1x16": Operand(grid=E2M1, scale=Scale.E4M3),
    "e4m3 16x16": Operand(grid=E2M1, scale=Scale.E4M3, block=Block(along=16, across=16)),
    "fp32 128x128": Operand(grid=E4M3, block=Block(along=128, across=128)),
    "fp32 row": Operand(grid=INT8, block=ROW),
    "fp32 tensor": Operand(grid=E4M3, block=TENSOR),
}
"""Other scales and blocks, each on a grid that it is used with. Where a scale depends on several
rows or on the whole tensor, the kernels read x once more before they round it."""

NARROW = ("e2m1", "int4")
"""Grids that are also measured in a quick run, on a larger tensor, and where BF16 is written."""
QUICK_SCALES = ("e4m3 16x16", "fp32 row")
CUDA_GRIDS, CUDA_SCALES = ("int4", "e2m1", "e4m3"), ("e8m0 1x32", "e4m3 1x16")
"""A selection, since each kernel takes seconds to compile for a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One quantizer.

    Attributes:
        name: Its grid, or its scale and block.
        operand: The same with its rounding.
        rht: Elements of the transform before it, or None.
    """

    name: str
    operand: Operand
    rht: int | None

    @property
    def way(self) -> str:
        """Transform and rounding in words."""
        rounding = self.operand.rounding.value
        return rounding if self.rht is None else f"rht {rounding}"

    def call(
        self, axis: str, x: Tensor, precision: Precision
    ) -> Callable[[], FakeQuantized | tuple[FakeQuantized, FakeQuantized]]:
        """Fake-quantizes x along an axis, or along both."""
        along_rows = self._request(1, precision, x.device)
        along_columns = self._request(0, precision, x.device)
        match axis:
            case "row":
                return partial(ops.fulfil, x, along_rows)
            case "col":
                return partial(ops.fulfil, x, along_columns)
            case _:
                return partial(ops.fulfil_both, x, along_rows, along_columns)

    def _request(self, axis: int, precision: Precision, device: torch.device) -> Request:
        """On a GPU with its draws in the GPU's memory, as a layer has them."""
        signs = None
        if self.rht is not None:
            gemm = ("wgrad", "fprop")[axis]
            signs = rotation(
                Rht(size=self.rht), seed=0, layer="layer", gemm=gemm, step=0, microbatch=0
            )
        key = KEY + axis
        return Request(
            operand=self.operand,
            key=key,
            rotation=signs,
            axis=axis,
            precision=precision,
            draws=draws.on_device(key, signs, device) if device.type == "cuda" else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Cases on one tensor.

    Attributes:
        title: What the cases have in common.
        cases: In order; those of one name are timed in the same rounds.
        shape: Of x.
        device: Where x lies.
        threads: CPU threads, or None on a GPU.
        precision: What the values are rounded to in the end.
    """

    title: str
    cases: tuple[Case, ...]
    shape: tuple[int, int]
    device: torch.device
    threads: int | None
    precision: Precision

    @property
    def written(self) -> torch.dtype:
        """Type of the values: only a GPU stores what is rounded to BF16 as BF16."""
        is_short = self.device.type == "cuda" and self.precision is Precision.BF16
        return torch.bfloat16 if is_short else torch.float32

    @property
    def elements(self) -> int:
        """Of x."""
        return self.shape[0] * self.shape[1]

    def bytes_moved(self, axis: str) -> int:
        """X in BF16 once, and what is written."""
        return self.elements * (2 + AXES[axis] * self.written.itemsize)


def sections(setting: Setting) -> Iterator[Section]:
    """Grids, then other scales unless grids are named; on a GPU also a tensor that is larger.

    On a GPU the narrow grids also write BF16, but not in a quick run.
    """
    is_cuda = setting.device.type == "cuda"
    grids, scales = _selected(setting)
    narrow = _some(grids, NARROW)
    shape, large = ((8192, 4096), (32768, 8192)) if is_cuda else ((2048, 512), None)
    if setting.quick:
        shape, large = (128, 256), None
    for precision, threads in product(
        (Precision.BF16, Precision.FP32) if is_cuda and not setting.quick else (Precision.FP32,),
        (None,) if is_cuda else setting.threads,
    ):
        is_short = precision is Precision.BF16
        title = "Grids under an FP32 scale of 1x16"
        for heading, operands, size in (
            (title, narrow if is_short else grids, shape),
            ("Other scales and blocks", {} if is_short else scales, shape),
            (title, narrow, large),
        ):
            if operands and size is not None:
                yield Section(
                    title=heading,
                    cases=_cases(operands),
                    shape=size,
                    device=setting.device,
                    threads=threads,
                    precision=precision,
                )


def _selected(setting: Setting) -> tuple[dict[str, Operand], dict[str, Operand]]:
    """Grids and scales."""
    if setting.grids:
        return {name: Operand(grid=GRIDS[name]) for name in setting.grids}, {}
    if setting.device.type == "cuda":
        if setting.quick:
            return _some(BY_GRID, NARROW), {}
        return _some(BY_GRID, CUDA_GRIDS), _some(BY_SCALE, CUDA_SCALES)
    if setting.quick:
        return _some(BY_GRID, NARROW), _some(BY_SCALE, QUICK_SCALES)
    return BY_GRID, BY_SCALE


def _some(operands: dict[str, Operand], names: tuple[str, ...]) -> dict[str, Operand]:
    """Those of the names that there are."""
    return {name: operands[name] for name in names if name in operands}


def _cases(operands: dict[str, Operand]) -> tuple[Case, ...]:
    return tuple(
        Case(name=name, operand=replace(operand, rounding=rounding), rht=rht)
        for name, operand in operands.items()
        for rht, rounding in product((None, RHT_SIZE), (Rounding.RTNE, Rounding.SR))
    )
