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

_SUMMED = 2.0**100  # largest maximum beside which 1.5 * 2**23 steps are a finite number
_NUMBERS = tuple(field.name for field in fields(Arithmetic))


class Job(Structure):
    """The struct of this name in job.h, which says what the fields are.

    Attributes:
        kept: What its addresses lead to, for as long as a thread may work on it.
    """

    kept: tuple[object, ...] = ()
    _fields_ = (
        *((name, c_void_p) for name in ("x", "y", "amax")),
        *((name, c_int64) for name in ("groups", "lanes", "group", "along", "across", "lane_runs")),
        ("next", c_int64),
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


def template_of(
    cut: Cut, operand: Operand, rht: int, to_bf16: bool, precision: Precision = Precision.FP32
) -> Job:
    """The job of an operand, but for what differs from one call to the next: see `job_of`.

    Args:
        cut: Its matrix in lanes.
        operand: The rule.
        rht: Elements of a transform, or 0.
        to_bf16: Whether what is transformed is rounded to BF16.
        precision: What the values are rounded to in the end.
    """
    job = Job(span=cut.span, block=cut.block, outer=cut.outer)
    _lay_out(job, cut)
    numbers = arithmetic_of(operand, rht, to_bf16, precision)
    for name in _NUMBERS:
        setattr(job, name, getattr(numbers, name))
    if numbers.maximum > _SUMMED:
        job.rule = TO_TABLE
    if job.rule == TO_TABLE and operand.grid is not None:
        job.thresholds, job.neighbours, job.values, job.half = _tables(operand.grid)
    return job


def job_of(template: Job, key: int, rotation: Rotation | None) -> Job:
    """One call's job, but for where its tensors are and what is measured first.

    Its tables are those of the template, which has to live as long.
    """
    job = Job.from_buffer_copy(template)
    job.key = key
    if rotation is not None:
        job.signs = _array(rotation.signs)
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
