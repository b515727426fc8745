"""The GPUs that a worker was given, and its refusal to start on any other.

    Ray's word         ids of this machine's GPUs, and the share of each
    what torch sees    must be these GPUs, in this order, told apart by UUID

A scheduler counts GPUs, and what keeps a process to those that it was given is a variable, which a
start-up file or another order of counting can undo without a sign: two runs would then train on one
GPU while another stands idle. A worker that shares a GPU keeps its tensors to its part of the
memory; what it needs beyond is out of memory for it alone.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeps.errors import GridlawError
from workers.gpus import gpus_of_this_machine
from workers.packing import tensor_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a worker may compute on.

    Attributes:
        ids: Of its GPUs, as Ray names them: by index on the bus or by UUID; none for a CPU.
        share: Of each; 1 unless it shares one.
    """

    ids: tuple[str, ...]
    share: float = 1.0

    def hide_others(self) -> None:
        """A worker without a GPU sees none; to be called before torch looks for them."""
        if not self.ids:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""

    def take(self) -> None:
        """Check what torch sees, and keep to the share of its memory.

        Raises:
            GridlawError: If it sees anything but the GPUs of the assignment.
        """
        import torch  # the process that reads an assignment over Ray must answer before torch loads

        count = torch.cuda.device_count()
        properties = [torch.cuda.get_device_properties(index) for index in range(count)]
        uuids = {gpu.index: gpu.uuid for gpu in gpus_of_this_machine()} if count else {}
        seen = [f"GPU-{device.uuid}" for device in properties]
        if (reason := disagreement(self.ids, seen, uuids)) is not None:
            raise GridlawError(reason)
        if self.share < 1:
            fraction = tensor_fraction(self.share, properties[0].total_memory)
            torch.cuda.set_per_process_memory_fraction(fraction)


def disagreement(ids: Sequence[str], seen: Sequence[str], uuids: Mapping[str, str]) -> str | None:
    """Why a worker must not start.

    Args:
        ids: Of its GPUs, as Ray names them.
        seen: UUIDs of the GPUs that torch sees, in its order.
        uuids: Of this machine's GPUs by index; one that is not listed, or a part of one by MIG,
            agrees with any.

    Returns:
        A sentence; None if it sees what it was given.
    """
    given = [uuids.get(name, name) for name in ids]
    agree = len(given) == len(seen) and all(
        name == uuid for name, uuid in zip(given, seen, strict=True) if name.startswith("GPU-")
    )
    if agree:
        return None
    return f"this worker was given {_listed(given)} and sees {_listed(seen)}; it does not start"


def _listed(names: Sequence[str]) -> str:
    match names:
        case []:
            return "no GPU"
        case _:
            return ", ".join(f"GPU {name}" if name.isdecimal() else name for name in names)
