"""Several processes on one machine that run the same function as the ranks of a training."""

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

T = TypeVar("T")


def on_ranks(size: int, function: Callable[..., T], folder: Path, *args: Any) -> list[T]:
    """What a function returns on each rank.

    Args:
        size: Ranks.
        function: At the top of a module; called after torch's process group has begun.
        folder: An empty one.
        args: Of the function.
    """
    folder.mkdir(parents=True)
    spawn(_rank, (size, function, folder, args), nprocs=size)  # type: ignore[no-untyped-call]
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(size)]


def _rank(
    rank: int, size: int, function: Callable[..., T], folder: Path, args: Sequence[Any]
) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    returned = function(*args)
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(returned))
    distributed.barrier()
    distributed.destroy_process_group()
