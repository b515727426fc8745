"""How well a training uses its device: the peak that MFU is taken over, and the memory held.

    MFU = FLOPs of the model a token x tokens a second / peak         (arXiv 2204.02311, appendix B)

FLOPs are those of `sweeps.counts`: forward and backward, the square of attention whole, nothing
that is recomputed. The peak of a GPU is what its maker states for dense BF16 products with FP32
sums, without sparsity and whatever the recipe, so that recipes are seen on one scale. That of a CPU
is measured once in each process, as the best rate of a square BF16 product on the threads that the
process has then.

Sources: NVIDIA's data sheets of the H100, H200, A100, A40, A30, A10, L40S and L4; the architecture
papers of Blackwell (B200, GB200), Ada (RTX 4090, RTX 6000 Ada) and Ampere GA102 (RTX 3090, A6000);
AMD's data sheets of the Instinct MI300X and MI250X (of which torch sees each half as a device).
"""

import resource
import sys
import time
from functools import cache

import torch

PEAKS: tuple[tuple[str, float], ...] = (
    ("GB200", 2500e12),
    ("B200", 2250e12),
    ("GH200", 989.4e12),
    ("H200 NVL", 835.5e12),
    ("H200", 989.4e12),
    ("H100 PCIe", 756.5e12),
    ("H100 NVL", 835.5e12),
    ("H100", 989.4e12),
    ("A100", 312e12),
    ("RTX A6000", 154.8e12),
    ("A40", 149.7e12),
    ("A30", 165e12),
    ("A10", 125e12),
    ("L40S", 362e12),
    ("L4", 121e12),
    ("RTX 6000 Ada", 364.2e12),
    ("RTX 4090", 165.2e12),
    ("RTX 3090", 71e12),
    ("MI300X", 1307.4e12),
    ("MI250X", 191.5e12),
)
"""Words of a GPU's name and its dense BF16 FLOPs a second; the first that fits counts."""

_SIDE = 512
_TRIALS = 8
_ENOUGH_SECONDS = 0.05


def peak_flops(device: torch.device) -> float | None:
    """Dense BF16 FLOPs a second of a device; None if nothing is known of it."""
    if device.type == "cuda":
        return stated_peak(torch.cuda.get_device_name(device))
    return measured_peak()


def stated_peak(name: str) -> float | None:
    """What the maker says of a GPU, by the name that torch gives it; None for an unlisted one."""
    words = set(name.replace("-", " ").split())
    return next((peak for known, peak in PEAKS if words.issuperset(known.split())), None)


@cache
def measured_peak() -> float:
    """BF16 FLOPs a second of this CPU, on the threads that were set when this was asked first."""
    x, y = torch.randn(2, _SIDE, _SIDE, generator=torch.Generator().manual_seed(0)).bfloat16()
    best, spent = float("inf"), 0.0
    for _ in range(_TRIALS):
        started = time.perf_counter()
        torch.mm(x, y)
        seconds = time.perf_counter() - started
        best, spent = min(best, seconds), spent + seconds
        if spent > _ENOUGH_SECONDS:  # a processor without BF16 units takes long
            break
    return 2 * _SIDE**3 / best


def memory_held(device: torch.device) -> int:
    """Most bytes that this process has held so far, of a GPU its own."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024
