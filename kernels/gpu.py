"""Fake quantization by the Triton kernels, with the bits of `kernels.reference`.

    measure     joins the maxima that no tile knows, where a pass asks for it (`kernels.passes`)
    weigh       decides scales that depend on sums over such blocks
    quantize    everything else, of one operand or of two of the same matrix, in one launch

What selects the draws is read from the device's memory (`draws` of a `Request`), so that a CUDA
graph can hold all of it. Two copies wait for the device: that of key and signs where a request has
no `draws`, and that of a long table at its first use, so call once before a graph is captured.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from kernels import arithmetic
from kernels.draws import on_device
from kernels.formats import Grid
from kernels.passes import IN_TILE, WEIGHED, Pass, pass_of, power_of_two, rotation_of
from kernels.philox import RUN
from kernels.quantize_triton import measure, quantize
from kernels.recipes import Precision
from kernels.reference import FakeQuantized
from kernels.request import Request
from kernels.rounding import round_significand
from kernels.weigh_triton import weigh

LANES = 128
"""Of a tile along rows, where its blocks ask for no more: one for each thread."""
_WIDEST = 512  # columns of a tile
_WARP = 32
_MOST_WARPS = 16
_LINES = 128  # of which a program weighs a block each
_MOST_PROGRAMS = 2**16 - 1  # of CUDA, along axis 1 of a launch
_TYPES = (torch.float32, torch.bfloat16, torch.float16)

Data = tuple[Tensor | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """An operand on its way: what a kernel is compiled for, and where its data lie."""

    plan: Pass
    y: Tensor
    draws: Tensor | None
    maxima: Tensor | None
    above: Tensor | None
    factor: Tensor | None
    table: Tensor | None
    runs: int

    @property
    def arguments(self) -> tuple[Data, Tensor | None, int]:
        """What kernels take of it."""
        data = self.y, self.maxima, self.above, self.factor, self.table
        return data, self.draws, self.runs


@torch.no_grad()
def fulfil(x: Tensor, request: Request) -> FakeQuantized:
    """What `kernels.reference.fake_quantize` returns, for a matrix on a GPU.

    Values are BF16 where that is the precision.

    Raises:
        ValueError: If x is not a matrix, an empty one, or larger than a launch can cover.
    """
    x = _matrix(x)
    if request.operand.grid is None and request.rotation is None:
        return FakeQuantized(_carried(x, request), None)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        if _turns_first(x, request):
            return fulfil(_turned(x, request), replace(request, rotation=None))
        return _done(x, (request,))[0]


@torch.no_grad()
def fulfil_both(
    x: Tensor, along_rows: Request, along_columns: Request
) -> tuple[FakeQuantized, FakeQuantized]:
    """A matrix for a GEMM that contracts axis 1 and for one that contracts axis 0.

    One launch serves both where they can share a tile.
    """
    x = _matrix(x)
    if not _share_a_tile(x, along_rows, along_columns):
        return fulfil(x, along_rows), fulfil(x, along_columns)
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]
        first, second = _done(x, (along_rows, along_columns))
    return first, second


def _share_a_tile(x: Tensor, along_rows: Request, along_columns: Request) -> bool:
    for request in (along_rows, along_columns):
        is_plain = request.operand.grid is None and request.rotation is None
        if is_plain or _turns_first(x, request):
            return False
    # A long transform down columns asks for a narrow tile.
    return not _crosses_lanes(pass_of(along_columns, *_lines(x, 0)))


def _matrix(x: Tensor) -> Tensor:
    if x.ndim != 2 or not x.numel():
        raise ValueError(f"a matrix with elements is quantized, got shape {tuple(x.shape)}")
    return (x if x.dtype in _TYPES else x.to(torch.float32)).contiguous()


def _carried(x: Tensor, request: Request) -> Tensor:
    """An operand that is rounded to the carrier and nothing else."""
    x = x.to(request.carrier)
    if request.precision is Precision.BF16:
        return x.to(torch.bfloat16)
    return round_significand(x.to(torch.float32), request.precision.dropped_bits)


def _lines(x: Tensor, axis: int) -> tuple[int, int]:
    """How many lines an operand has, and how many elements each."""
    return x.shape[1 - axis], x.shape[axis]


def _turns_first(x: Tensor, request: Request) -> bool:
    """Whether sums over blocks that cut across transforms ask for the whole transform before."""
    if request.rotation is None or request.operand.grid is None:
        return False
    return pass_of(request, *_lines(x, request.axis)).blocks == WEIGHED


def _turned(x: Tensor, request: Request) -> Tensor:
    """The transform of a matrix, FP32."""
    task = _task(x, request, rotation_of(request), torch.float32)
    _launch(quantize, x, (task,))
    return task.y


def _done(x: Tensor, requests: tuple[Request, ...]) -> list[FakeQuantized]:
    tasks = []
    for request in requests:
        plan = pass_of(request, *_lines(x, request.axis))
        is_bf16 = request.precision is Precision.BF16
        tasks.append(_task(x, request, plan, torch.bfloat16 if is_bf16 else torch.float32))
    if any(task.plan.is_measured for task in tasks):
        _launch(measure, x, tasks)
    tasks = [_weighed(x, task) if task.plan.blocks == WEIGHED else task for task in tasks]
    _launch(quantize, x, tasks)
    return [FakeQuantized(task.y, task.factor) for task in tasks]


def _task(x: Tensor, request: Request, plan: Pass, dtype: torch.dtype) -> _Task:
    lines, length = _lines(x, plan.axis)
    length += -length % (plan.numbers.rht or 1)
    runs = -(-length // RUN)
    grid, draws = request.operand.grid, request.draws if plan.is_drawn else None
    if draws is None and plan.is_drawn:
        draws = on_device(request.key, request.rotation, x.device)
    y = x.new_empty((lines, length) if plan.axis == 1 else (length, lines), dtype=dtype)
    maxima = above = factor = None
    if plan.blocks != IN_TILE:
        maxima = x.new_zeros(_blocks(lines, runs, plan.across, plan.runs), dtype=torch.int32)
    if plan.above != IN_TILE:
        across = 1 if plan.outer else 0
        above = x.new_zeros(_blocks(lines, runs, across, plan.outer), dtype=torch.int32)
        factor = None if plan.has_outer else x.new_empty((), dtype=torch.float32)
    elif plan.numbers.scale == arithmetic.E8M0 and plan.numbers.headroom != 1:
        factor = x.new_full((), plan.numbers.headroom, dtype=torch.float32)
    return _Task(
        plan=plan,
        y=y,
        draws=draws,
        maxima=maxima,
        above=above,
        factor=factor,
        table=_table(grid, x.device) if plan.half and grid is not None else None,
        runs=runs,
    )


def _blocks(lines: int, runs: int, across: int, along: int) -> int:
    """How many blocks of a size there are, 0 standing for a whole axis."""
    return -(-lines // (across or lines)) * -(-runs // (along or runs))


def _weighed(x: Tensor, task: _Task) -> _Task:
    """The task with scales in the place of the maxima that they were decided from."""
    assert task.maxima is not None
    scales = x.new_empty(task.maxima.numel(), 2, dtype=torch.float32)
    lines, _ = _lines(x, task.plan.axis)
    places = -(-task.runs // (task.plan.runs or task.runs))
    weigh[_programs(x, -(-lines // _LINES), places)](
        x,
        *x.shape,
        *task.arguments,
        scales,
        PASS=task.plan,
        LANES=_LINES,
        num_warps=_LINES // _WARP,
        enable_fp_fusion=False,
    )
    return replace(task, maxima=scales)


def _launch(kernel: Any, x: Tensor, tasks: list[_Task] | tuple[_Task, ...]) -> None:
    height = max(x.shape[0], *(task.y.shape[0] for task in tasks))
    width = max(x.shape[1], *(task.y.shape[1] for task in tasks))
    rows, columns, warps = _tile([task.plan for task in tasks], height, width)
    second = tasks[1] if len(tasks) > 1 else None
    kernel[_programs(x, -(-height // rows), -(-width // columns))](
        x,
        *x.shape,
        *tasks[0].arguments,
        *((None, None, 0) if second is None else second.arguments),
        FIRST=tasks[0].plan,
        SECOND=None if second is None else second.plan,
        R=rows,
        C=columns,
        num_warps=warps,
        enable_fp_fusion=False,
    )


def _programs(x: Tensor, along_0: int, along_1: int) -> tuple[int, int]:
    """The programs of a launch, if it can have so many."""
    if along_1 > _MOST_PROGRAMS:
        raise ValueError(
            f"a matrix of shape {tuple(x.shape)} takes {along_1} programs along axis 1 of a "
            f"launch, and a GPU has at most {_MOST_PROGRAMS}: split it"
        )
    return along_0, along_1


def _tile(plans: list[Pass], height: int, width: int) -> tuple[int, int, int]:
    """Rows and columns of a tile, and the warps that share it."""
    least_rows = max(plan.tile[0] for plan in plans)
    least_columns = max(plan.tile[1] for plan in plans)
    # A thread holds a run of a row, or runs of two columns, so that it reads two numbers at a time,
    # where it has the registers.
    a_thread = 2 if any(plan.axis == 0 and not _fills_registers(plan) for plan in plans) else 1
    # A transform down columns that crosses lanes asks for few warps, which exchange more slowly.
    elements = RUN * LANES * (1 if _crosses_lanes(plans[-1]) else a_thread)
    columns = max(least_columns, min(power_of_two(width), _WIDEST, elements // least_rows))
    rows = max(least_rows, min(power_of_two(height), elements // columns))
    warps = rows * columns // (RUN * _WARP * a_thread)
    return rows, columns, min(max(warps, 1), _MOST_WARPS)


def _fills_registers(plan: Pass) -> bool:
    """Whether a run of one column is as much as a thread can hold, as the compiler shows."""
    a = plan.numbers
    draws_under_e4m3 = a.scale == arithmetic.E4M3 and a.rounding == arithmetic.SR
    is_long = draws_under_e4m3 and not plan.has_outer
    return is_long or a.alternate or a.rounding == arithmetic.EDEN


def _crosses_lanes(plan: Pass) -> bool:
    """Whether a transform down columns is longer than a lane."""
    return plan.axis == 0 and plan.numbers.rht > RUN


@lru_cache
def _table(grid: Grid, device: torch.device) -> Tensor:
    """Of a grid without arithmetic: keys of RTNE, keys of SR and magnitudes, one after another."""
    thresholds, neighbours, magnitudes, _ = arithmetic.table(grid)
    return torch.tensor(thresholds + neighbours + magnitudes, dtype=torch.float32, device=device)
