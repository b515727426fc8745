"""The GPUs of this machine as the driver lists them, whatever this process is allowed to see.

nvidia-smi, one line each      0, GPU-5a2c…, 143771      index on the bus, UUID, MiB
"""

import subprocess
from dataclasses import dataclass

QUERY = (
    "nvidia-smi",
    "--query-gpu=index,uuid,memory.total",
    "--format=csv,noheader,nounits",
)
SECONDS = 30.0
"""How long the driver may take to answer; one that wakes its GPUs takes some seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One of them.

    Attributes:
        index: By the order on the bus, as in `CUDA_VISIBLE_DEVICES` under `PCI_BUS_ID`.
        uuid: Begins with `GPU-`.
        num_bytes: Memory in all.
    """

    index: str
    uuid: str
    num_bytes: int


def gpus_of_this_machine() -> tuple[Gpu, ...]:
    """All of them; none where there is no driver or it gives no answer."""
    try:
        answer = subprocess.run(
            QUERY, check=True, capture_output=True, text=True, timeout=SECONDS
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(gpu for line in answer.splitlines() if (gpu := _read(line)) is not None)


def _read(line: str) -> Gpu | None:
    """A line; None if it tells no memory, as that of a GPU that has fallen off the bus."""
    words = [word.strip() for word in line.split(",")]
    if len(words) != 3 or not words[2].isdecimal():
        return None
    return Gpu(index=words[0], uuid=words[1], num_bytes=int(words[2]) * 2**20)
