"""How much of a GPU a run is given: whole ones, or an equal part of one that it may share.

    share = R            of a run on R ranks (`resources.gpus`)
          = 1 / n        with `resources.pack`: n the largest of 8, 4, 2, 1 so that its tensors and
                         what a process takes beside them fit into memory / n of the smallest GPU
          = 1            else, and wherever the memory is not known

Parts are halves of halves, so that free ones add up to larger ones and are exact in the hundredths
of percent in which Ray counts. A part is memory alone: processes take turns at computing, so that
runs too small to keep a GPU busy gain, while the speed of a run that shares tells nothing.
"""

from sweeps.memory import estimate
from sweeps.runspec import RunSpec

PARTS = (8, 4, 2, 1)
"""Into how many a GPU may be divided, the most first."""

CONTEXT_BYTES = 2**30
"""What a process takes of a GPU beside its tensors: the CUDA context, libraries, compiled code."""


def share_of(spec: RunSpec, gpu_bytes: int | None) -> float:
    """GPUs of a run.

    Args:
        spec: The run.
        gpu_bytes: Memory of the smallest GPU that it may come to; None if it is not known.

    Raises:
        InputError: If the spec's microbatches do not divide its batch.
    """
    resources = spec.resources
    if resources.gpus > 1 or not resources.pack or gpu_bytes is None:
        return float(resources.gpus)
    needed = estimate(spec)
    fitting = (parts for parts in PARTS if needed.fits(gpu_bytes // parts - CONTEXT_BYTES))
    return 1 / next(fitting, 1)


def tensor_fraction(share: float, gpu_bytes: int) -> float:
    """Share of a GPU's memory that the tensors of a process with this part of it may fill."""
    return max(0.0, share - CONTEXT_BYTES / gpu_bytes)
