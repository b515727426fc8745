"""Fake quantization by the C kernel, with the bits of `kernels.reference`.

    measure     the largest magnitude of each block, after the transform; only where a scale depends
                on more than a lane: on blocks of several rows, or on the whole tensor
    quantize    everything else, in one pass over the operand

The kernel runs without the GIL, in as many threads as torch has here. Where there is no compiler,
or it fails, one log line says so and the plain-torch reference serves.
"""

import logging
import os
import subprocess
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock

import torch
from torch import Tensor

from kernels import compiled
from kernels.hadamard import Rotation
from kernels.job import Job, job_of, template_of
from kernels.lanes import Cut, cut, share
from kernels.operands import Operand, Scale
from kernels.recipes import Precision
from kernels.reference import FakeQuantized
from kernels.rounding import round_significand
from kernels.scales import tensor_scale
from kernels.threads import spread

_SHARE = 1 << 17  # elements for which a thread pays
_first = Lock()
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kernel:
    """The compiled kernel."""

    library: CDLL

    def fake_quantize(
        self,
        x: Tensor,
        operand: Operand,
        key: int,
        *,
        rotation: Rotation | None = None,
        axis: int = 1,
        carrier: torch.dtype = torch.bfloat16,
        precision: Precision = Precision.FP32,
    ) -> FakeQuantized:
        """What `kernels.reference.fake_quantize` returns, for a matrix on the CPU.

        Raises:
            ValueError: If x is not a matrix, or an empty one.
        """
        if x.ndim != 2 or not x.numel():
            raise ValueError(f"a matrix with elements is quantized, got shape {tuple(x.shape)}")
        # An address leads to numbers whose signs a view may yet have to turn.
        x = x.detach().resolve_neg()
        if operand.grid is None and rotation is None:
            return FakeQuantized(_carried(x.contiguous(), carrier, precision), None)
        rht, to_bf16 = (0, False) if rotation is None else (len(rotation.signs), rotation.to_bf16)
        # What has no grid is rounded to the carrier first.
        kept = Precision.FP32 if operand.grid is None else precision
        rows, columns = x.shape
        lanes, template = _prepared(rows, columns, axis, operand, rht, to_bf16, kept)
        x = lanes.fill(x if x.dtype is torch.bfloat16 else x.to(torch.float32))
        job = job_of(template, key, rotation)
        job.x, job.bf16 = x.data_ptr(), x.dtype is torch.bfloat16
        maxima, factor = self._measure(job, lanes, operand, (x, template))
        if maxima is not None:
            job.amax = maxima.data_ptr()
        y = torch.empty(x.shape, dtype=torch.float32, device=x.device)
        job.y = y.data_ptr()
        _spread(self.library.quantize, job, x.numel(), (x, y, maxima, template))
        y = lanes.trim(y)
        if operand.grid is None:
            y = _carried(y, carrier, precision)
        return FakeQuantized(y, factor)

    def _measure(
        self, job: Job, lanes: Cut, operand: Operand, read: tuple[Tensor, Job]
    ) -> tuple[Tensor | None, Tensor | None]:
        """The maxima that a lane does not know by itself, and the operand's factor."""
        if operand.grid is None:
            return None, None
        per_tensor = operand.scale is Scale.E4M3 and operand.outer is None
        factor = None
        if operand.scale.is_power_of_two and operand.headroom != 1:
            factor = torch.tensor(operand.headroom, dtype=torch.float32, device="cpu")
        if operand.block.across == 1 and not per_tensor:
            return None, factor
        maxima = torch.empty(lanes.maxima, dtype=torch.float32, device="cpu")
        job.amax = maxima.data_ptr()
        _spread(self.library.measure, job, lanes.rows * lanes.filled, (maxima, *read))
        if per_tensor:
            scale = tensor_scale(maxima.amax(), operand)
            job.tensor_scale, factor = scale.item(), 1 / scale
        return share(maxima, operand.block), factor


@lru_cache(maxsize=4096)
def _prepared(
    rows: int,
    columns: int,
    axis: int,
    operand: Operand,
    rht: int,
    to_bf16: bool,
    precision: Precision,
) -> tuple[Cut, Job]:
    """A matrix in lanes and the template of its job: longer work than a small quantization."""
    lanes = cut((rows, columns), operand, rht, axis)
    return lanes, template_of(lanes, operand, rht, to_bf16, precision)


def _carried(x: Tensor, carrier: torch.dtype, precision: Precision) -> Tensor:
    return round_significand(x.to(carrier).to(torch.float32), precision.dropped_bits)


def _spread(
    function: Callable[..., int], job: Job, elements: int, kept: tuple[object, ...]
) -> None:
    """Has the tiles of a job done by as many threads as are worth it."""
    if not spread(function, job, elements // _SHARE, kept):
        raise MemoryError(f"a tile of {job.span} elements a lane does not fit into memory")


@cache
def kernel() -> Kernel | None:
    """The kernel for this machine, or None where it cannot be compiled; says so in the log once."""
    with _first:
        return _kernel()


@cache
def _kernel() -> Kernel | None:
    try:
        return Kernel(compiled.built_and_loaded())
    except (OSError, subprocess.SubprocessError) as error:
        _log.warning("no C kernel, quantizing in plain torch, several times slower: %s", error)
        return None


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads, of which one may hold the lock.
    os.register_at_fork(
        before=_first.acquire, after_in_parent=_first.release, after_in_child=_first.release
    )
