"""Whether a run fits into the memory of its device, by `sweeps.memory`, before it starts.

    all activations fit              blocks keep them for backward
    they do not, but their inputs    each block keeps its input alone and runs twice: slower, and
                                     the same to the bit
    not even these                   the run is refused

Processes of one run on a CPU share the memory of the machine.
"""

import logging

import torch

from sweeps.errors import InputError
from sweeps.memory import Memory, estimate, least_gpus
from sweeps.runspec import RunSpec
from workers.device import memory_at_hand

GIB = 2**30

log = logging.getLogger(__name__)


def needs_checkpoints(spec: RunSpec, device: torch.device) -> bool:
    """Whether blocks must run twice for a run to fit.

    Raises:
        InputError: If it does not fit even so.
    """
    there = memory_at_hand(device)
    if there is None:
        return False
    if device.type == "cpu":
        there //= spec.resources.gpus
    if estimate(spec).fits(there):
        return False
    lean = estimate(spec, checkpoints=True)
    if lean.fits(there):
        log.info(
            "activations of %s do not fit into %s: blocks run twice",
            spec.model.name,
            _gib(there),
        )
        return True
    raise InputError(_sentence(spec, device, lean, there))


def _sentence(spec: RunSpec, device: torch.device, needed: Memory, there: int) -> str:
    states = needed.weights + needed.gradients + needed.optimizer
    where = "a GPU has" if device.type == "cuda" else "each process of the run has on this machine"
    sentence = (
        f"model {spec.model.name}: training takes about {_gib(needed.total_bytes)}, of them "
        f"{_gib(states)} for weights, gradients and moments, and {where} {_gib(there)}; "
    )
    gpus = least_gpus(spec, there, checkpoints=True) if device.type == "cuda" else None
    if gpus is not None:
        return sentence + f"it would fit with resources.gpus = {gpus}"
    return sentence + "take a smaller model or a smaller train.microbatch"


def _gib(size: int) -> str:
    """`2,330 GiB`, `19.4 GiB`, `0.012 GiB`."""
    return f"{size / GIB:,.0f} GiB" if size >= 100 * GIB else f"{size / GIB:.3g} GiB"
