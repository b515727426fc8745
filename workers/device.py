"""The device that everything here computes on, and the memory that it has for a training."""

import os
import sys
from pathlib import Path

import torch

_ROOT = Path("/")


def device_at_hand() -> torch.device:
    """The GPU that this process sees first, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def memory_at_hand(device: torch.device) -> int | None:
    """Bytes that the tensors of this process may take: of a GPU its part of all there are.

    Of a CPU what the machine has free now, within the limit of the container; None if the system
    does not tell.
    """
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        return int(total * torch.cuda.get_per_process_memory_fraction())
    return ram_at_hand(_ROOT)


def ram_at_hand(root: Path) -> int | None:
    """Free bytes of a Linux machine with `proc` and `sys` below a root; of others all they have."""
    meminfo = root / "proc/meminfo"
    if not meminfo.is_file():
        return _physical()
    return min(_numbers(meminfo)["MemAvailable:"] * 1024, *_free_in_groups(root))


def _free_in_groups(root: Path) -> list[int]:
    """What the control groups around this process leave it, of either version of the kernel's."""
    free = [sys.maxsize]
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers == "memory":
            top, words = root / "sys/fs/cgroup/memory", ("limit_in_bytes", "usage_in_bytes")
        elif not controllers:
            top, words = root / "sys/fs/cgroup", ("max", "current")
        else:
            continue
        for part in Path(name).parts:
            top /= part.strip("/")
            limit, used = (top / f"memory.{word}" for word in words)
            if limit.is_file() and (most := limit.read_text().strip()) != "max":
                free.append(max(0, int(most) - int(used.read_text()) + _cached(top)))
    return free


def _cached(group: Path) -> int:
    """Bytes of files that the kernel keeps for a group and gives up when memory is short."""
    return _numbers(group / "memory.stat").get("inactive_file", 0)


def _numbers(table: Path) -> dict[str, int]:
    """First numbers of lines by their first words."""
    rows = (line.split() for line in table.read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
