"""A GPU that gives the same bits for the same step in every process, as resuming needs.

Many GPU kernels add in the order in which threads happen to finish. PyTorch's strict deterministic
mode takes others, of cuBLAS too, and refuses an operation that has none. Under it causal attention
of 16 bits is the flash kernel with its deterministic backward: the one of cuDNN is left out, since
it has none. Source: PyTorch's notes on reproducibility.
"""

import os

import torch


def repeat_bits(device: torch.device) -> None:
    """Has this process compute so; a CPU does by itself. To be called before the first product."""
    if device.type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # What is read before it is written would be our error, and filling costs a pass each.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
