"""Preflight: whether a device computes what docs/numerics.md says, before anything trains on it.

    arithmetic      subnormals, division, BF16 rounding, products of BF16, TF32 and FP32
    draws           the generator, SR unbiased, its streams distinct
    transform       each RHT orthogonal, inverted and cancelling
    quantizers      known values; every grid and scale equal to the reference, bit for bit

A check that raises has failed. All together take about half a second of one core, with the C kernel
or without.
"""

import logging
import time
from collections.abc import Callable

import torch

from kernels import native
from kernels.checks import arithmetic, draws, quantizers, transform
from kernels.verdict import Check, Preflight

CHECKS: tuple[tuple[str, Callable[[torch.device], Check]], ...] = (
    ("subnormals", arithmetic.subnormals),
    ("division", arithmetic.division),
    ("bf16 rounding", arithmetic.bf16_rounding),
    ("narrow products", arithmetic.narrow_products),
    ("fp32 products", arithmetic.fp32_products),
    ("generator", draws.generator),
    ("sr mean", draws.mean),
    ("sr streams", draws.streams),
    ("rht", transform.transforms),
    ("known values", quantizers.known_values),
    ("grids and scales", quantizers.grids_and_scales),
)
"""Each check by its name, in the order in which they run."""

_passed: dict[torch.device, Preflight] = {}
logger = logging.getLogger(__name__)


@torch.no_grad()
def preflight(device: torch.device) -> Preflight:
    """Run every check on a device."""
    started = time.perf_counter()
    checks = tuple(_run(name, check, device) for name, check in CHECKS)
    return Preflight(device=described(device), seconds=time.perf_counter() - started, checks=checks)


def preflight_once(device: torch.device) -> Preflight:
    """The preflight that this device passed in this process, or else a new one."""
    found = _passed.get(device) or preflight(device)
    if found.passed:
        _passed[device] = found
    return found


def described(device: torch.device) -> str:
    """`cuda: NVIDIA H200`, `cpu: C kernel, AVX2` or `cpu: plain torch, AVX2`."""
    match device.type:
        case "cuda":
            return f"cuda: {torch.cuda.get_device_name(device)}"
        case "cpu":
            kernel = "plain torch" if native.kernel() is None else "C kernel"
            return f"cpu: {kernel}, {torch.backends.cpu.get_cpu_capability()}"
        case other:
            return other


def _run(name: str, check: Callable[[torch.device], Check], device: torch.device) -> Check:
    try:
        return check(device)
    except Exception as error:
        logger.exception("preflight: %s", name)
        first = next(iter(str(error).splitlines()), "no message")
        return Check(name=name, passed=False, detail=f"raised {type(error).__name__}: {first}")
