"""What the process of a worker is given before torch loads: threads, a path, an order, a log."""

import os
import tempfile
from pathlib import Path

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)

LONGEST_TEMP_DIR = 36
"""Ray puts sockets 66 characters below its folder, and their paths end at 103 bytes."""


def variables(threads: int) -> dict[str, str]:
    """Environment of a worker: slots do not fight for cores, GPUs are counted as the driver does.

    Args:
        threads: Of each worker.
    """
    checkout = Path(__file__).resolve().parent.parent
    return {
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONPATH": f"{checkout}{os.pathsep}${{PYTHONPATH}}",  # expanded on the node
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def socket_folder() -> tempfile.TemporaryDirectory[str] | None:
    """A folder for Ray's sockets and logs that goes when the cluster does; None: Ray's own."""
    if len(tempfile.gettempdir()) + len("/gridlaw-12345678") > LONGEST_TEMP_DIR:
        return None
    return tempfile.TemporaryDirectory(prefix="gridlaw-", ignore_cleanup_errors=True)


def print_to(path: Path) -> None:
    """Send what this process prints, C libraries included, to a file.

    Raises:
        OSError: If it cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
