"""What the C kernel is asked to do: an operand's cut, transform, scale and rounding in numbers."""

from ctypes import POINTER, Array, Structure, c_float, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import fields
from functools import lru_cache

from kernels.arithmetic import TO_TABLE, Arithmetic, arithmetic_of, table
from kernels.formats import Grid
from kernels.hadamard import Rotation
from kernels.lanes import Cut, up_to
from kernels.operands import Operand
from kernels.philox import RUN
from kernels.recipes import Precision

_NUMBERS = tuple(field.name for field in fields(Arithmetic))


class Job(Structure):
    """The struct of this name in job.h, which says what the fields are."""

    _fields_ = (
        *((name, c_void_p) for name in ("x", "y", "amax")),
        *((name, c_int64) for name in ("groups", "lanes", "group", "along", "across", "lane_runs")),
        ("key", c_uint64),
        *((name, POINTER(c_float)) for name in ("signs", "thresholds", "neighbours", "values")),
        *((name, c_int32) for name in ("bf16", "span", "block", "outer", "rht", "to_bf16")),
        *((name, c_int32) for name in ("rule", "rounding", "scale", "random_bits", "alternate")),
        *((name, c_int32) for name in ("least_exponent", "mantissa_bits", "half")),
        *((name, c_int32) for name in ("exponent", "carry", "dropped_bits")),
        *((name, c_float) for name in ("norm", "maximum", "offset", "headroom", "unit")),
        *((name, c_float) for name in ("target", "alternate_target")),
        *((name, c_float) for name in ("numerator", "tensor_scale")),
    )


def job_of(
    cut: Cut,
    operand: Operand,
    key: int,
    rotation: Rotation | None,
    precision: Precision = Precision.FP32,
) -> Job:
    """The job of an operand, but for where its tensors are and what is measured first."""
    job = Job(key=key, span=cut.span, block=cut.block, outer=cut.outer)
    _lay_out(job, cut)
    size, to_bf16 = (0, False) if rotation is None else (len(rotation.signs), rotation.to_bf16)
    numbers = arithmetic_of(operand, size, to_bf16, precision)
    for name in _NUMBERS:
        setattr(job, name, getattr(numbers, name))
    if rotation is not None:
        job.signs = _array(rotation.signs)
    if numbers.rule == TO_TABLE and operand.grid is not None:
        job.thresholds, job.neighbours, job.values, job.half = _tables(operand.grid)
    return job


def _lay_out(job: Job, cut: Cut) -> None:
    job.groups, job.lanes = cut.groups, cut.lanes
    if cut.one_group:
        job.group, job.along, job.across, job.lane_runs = 0, 1, cut.span, cut.span // RUN
    else:
        job.along, job.across = (1, cut.filled) if cut.axis == 1 else (cut.rows, 1)
        job.group, job.lane_runs = cut.span * job.along, up_to(cut.length, RUN) // RUN


@lru_cache
def _tables(grid: Grid) -> tuple[Array[c_float], Array[c_float], Array[c_float], int]:
    thresholds, neighbours, values, half = table(grid)
    return _array(thresholds), _array(neighbours), _array(values), half


@lru_cache(maxsize=4096)
def _array(numbers: tuple[float, ...]) -> Array[c_float]:
    return (c_float * len(numbers))(*numbers)
