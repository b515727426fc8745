"""What the C kernel is asked to do: an operand's cut, transform, scale and rounding in numbers."""

from ctypes import POINTER, Array, Structure, c_float, c_int32, c_int64, c_uint64, c_void_p
from functools import lru_cache
from math import inf, log2, sqrt

from kernels.formats import Grid
from kernels.hadamard import Rotation
from kernels.lanes import Cut, up_to
from kernels.operands import Operand, Rounding, Scale
from kernels.philox import RUN
from kernels.rounding import Floating, Uniform, rule_of, table_of

_KEEP, _TO_INTEGERS, _TO_FLOATS, _TO_TABLE = range(4)
_ROUNDINGS = {Rounding.RTNE: 0, Rounding.SR: 1, Rounding.EDEN: 2}
_SCALES = {
    Scale.FP32: 0,
    Scale.FP32_5BIT: 1,
    Scale.E8M0_FLOOR: 2,
    Scale.E8M0_CEIL: 2,
    Scale.E8M0_EVEN: 2,
    Scale.E8M0_RCEIL: 2,
    Scale.E4M3: 3,
}
_MANTISSA_BITS = 23
_BIAS = 127


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
        *((name, c_int32) for name in ("exponent", "carry")),
        *((name, c_float) for name in ("norm", "maximum", "offset", "headroom", "unit")),
        *((name, c_float) for name in ("target", "alternate_target")),
        *((name, c_float) for name in ("numerator", "tensor_scale")),
    )


def job_of(cut: Cut, operand: Operand, key: int, rotation: Rotation | None) -> Job:
    """The job of an operand, but for where its tensors are and what is measured first."""
    job = Job(key=key, span=cut.span, block=cut.block, outer=cut.outer)
    _lay_out(job, cut)
    if rotation is not None:
        size = len(rotation.signs)
        job.signs, job.rht, job.norm = _array(rotation.signs), size, 1 / sqrt(size)
        job.to_bf16 = rotation.to_bf16
    if operand.grid is None:
        job.rule = _KEEP
    else:
        _scale_by(job, operand, operand.grid)
        _round_by(job, operand, operand.grid)
    return job


def _lay_out(job: Job, cut: Cut) -> None:
    job.groups, job.lanes = cut.groups, cut.lanes
    if cut.one_group:
        job.group, job.along, job.across, job.lane_runs = 0, 1, cut.span, cut.span // RUN
    else:
        job.along, job.across = (1, cut.filled) if cut.axis == 1 else (cut.rows, 1)
        job.group, job.lane_runs = cut.span * job.along, up_to(cut.length, RUN) // RUN


def _scale_by(job: Job, operand: Operand, grid: Grid) -> None:
    job.scale = _SCALES[operand.scale]
    job.maximum, job.headroom = grid.maximum, operand.headroom
    if operand.scale.is_power_of_two:
        is_rceil = operand.scale is Scale.E8M0_RCEIL
        job.unit, job.exponent = (grid.maximum, 0) if is_rceil else (1.0, grid.exponent)
        job.carry = _carry(operand.scale, grid)
        return
    is_e4m3 = operand.scale is Scale.E4M3
    job.target = 1 / operand.target if is_e4m3 else operand.target
    job.numerator = operand.scale_maximum * operand.target
    if operand.alternate is not None:
        target = operand.alternate / operand.headroom
        job.alternate, job.alternate_target = True, 1 / target if is_e4m3 else target


def _carry(scale: Scale, grid: Grid) -> int:
    """The least fraction of amax, in units of 2**-23, that rounds its power of two up."""
    whole = 1 << _MANTISSA_BITS
    match scale:
        case Scale.E8M0_FLOOR:
            return whole
        case Scale.E8M0_EVEN:
            return whole - (whole >> grid.mantissa_bits + 1)
        case _:
            return 1


def _round_by(job: Job, operand: Operand, grid: Grid) -> None:
    job.rounding, job.random_bits = _ROUNDINGS[operand.rounding], operand.random_bits
    job.offset = 2.0**-operand.random_bits * (0.5 if operand.half_offset else 1.0)
    match rule_of(grid):
        case Uniform(step=1.0):
            job.rule = _TO_INTEGERS
        case Uniform(step=step) if step < 2.0**100:
            # One step throughout is that of the subnormals, with all magnitudes among them.
            job.rule, job.mantissa_bits = _TO_FLOATS, len(grid.magnitudes).bit_length()
            job.least_exponent = int(log2(step)) + job.mantissa_bits + _BIAS
        case Floating() as rule:
            job.rule, job.mantissa_bits = _TO_FLOATS, rule.mantissa_bits
            job.least_exponent = rule.least_exponent + _BIAS
        case _:
            job.rule = _TO_TABLE
            job.thresholds, job.neighbours, job.values, job.half = _tables(grid)


@lru_cache
def _tables(grid: Grid) -> tuple[Array[c_float], Array[c_float], Array[c_float], int]:
    """Where RTNE and SR reach the next code, and the values of codes, padded for a bisection."""
    table = table_of(grid)
    codes = len(table.magnitudes)
    size = 1 << (codes - 1).bit_length()
    endless = (inf,) * (size - codes)
    return (
        _array(table.thresholds + endless),
        _array(table.magnitudes[1:] + endless),
        _array(table.magnitudes + table.magnitudes[-1:] * (size + 1 - codes)),
        size // 2,
    )


@lru_cache(maxsize=4096)
def _array(numbers: tuple[float, ...]) -> Array[c_float]:
    return (c_float * len(numbers))(*numbers)
