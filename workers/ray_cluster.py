"""The Ray cluster that runs are carried out on: joining it, and what it has.

    unit    GPU where the cluster has any, else CPU: what runs are counted in

Without an address a cluster of this machine is started.
"""

import logging
import os
from typing import Any

import ray
from ray import exceptions as failures
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.errors import GridlawError, InputError
from workers import worker_process
from workers.gpus import gpus_of_this_machine

logger = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 100_000_000
"""Only small messages pass through Ray; its default is a third of the memory."""

LISTING_SECONDS = 60.0
"""How long the nodes may take to say what GPUs they have."""


def join(address: str | None, slots: int, namespace: str, temp_dir: str | None) -> None:
    """Connect this process to a cluster, for the actors of one namespace.

    Args:
        address: Of a running cluster; None starts one.
        slots: CPUs of a cluster that is started, whose workers share the cores.
        namespace: Of the actors.
        temp_dir: Folder of a cluster that is started; None for Ray's own.

    Raises:
        InputError: If no cluster answers at the address.
        GridlawError: If no cluster can be started on this machine.
    """
    threads = max(1, worker_process.cores() // slots) if address is None else 1
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {
        "namespace": namespace,
        "runtime_env": {"env_vars": worker_process.variables(threads)},
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    try:
        if address is not None:
            ray.init(address=address, **quiet)
        else:
            ray.init(
                address="local",
                num_cpus=slots,
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=temp_dir,
                **quiet,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0].strip()
        if address is not None:
            raise InputError(f"ray_address = {address}: {line}") from error
        raise GridlawError(f"no Ray cluster starts on this machine: {line}") from error


def size(unit: str) -> float:
    """How many of a unit the cluster has."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get(unit, 0.0)


def room(unit: str) -> float:
    """How many of a unit nobody holds now."""
    resources: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    return resources.get(unit, 0.0)


def smallest_gpu() -> int | None:
    """Bytes of the cluster's smallest GPU; None if a node that has GPUs does not say."""
    listing = ray.remote(gpus_of_this_machine)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]  # type: ignore[no-untyped-call]
    answers = [
        listing.options(
            num_cpus=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote()
        for node in nodes
    ]
    try:
        listed = ray.get(answers, timeout=LISTING_SECONDS)
    except failures.RayError:
        logger.exception("the cluster's nodes do not say what GPUs they have")
        return None
    if not all(listed):
        return None
    return min((gpu.num_bytes for gpus in listed for gpu in gpus), default=None)
