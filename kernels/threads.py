"""Work of a C kernel that several threads share: each takes the next part until none is left.

The kernels run without the GIL. Threads are Python's, not OpenMP's, of which a process should load
one runtime alone, and torch has it.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref
from functools import cache
from threading import Lock
from typing import Any

import torch


def spread(function: Callable[..., int], job: Any, most: int, kept: tuple[object, ...]) -> bool:
    """Has a job done by as many threads as torch has, but at most as many as are worth it.

    A thread that comes too late is not waited for: torch's own may still spin on its processor.

    Args:
        function: Of a job's address; takes parts until none is left, and returns 0 unless memory
            is out.
        job: A structure with `next`, the part that the next thread takes, and `kept`, for as long
            as a thread may work on it.
        most: Threads that are worth it.
        kept: What the job's addresses lead to.

    Returns:
        Whether every thread had the memory that it needed.
    """
    job.next, job.kept = 0, kept
    threads = torch.get_num_threads()
    others = min(threads, most) - 1
    if others < 1:
        failed = function(byref(job))
        job.kept = ()
        return not failed
    failures: list[int] = []
    turns: list[Lock] = []
    try:
        try:
            for _ in range(others):
                # Before the request, which may stay in the queue although it fails.
                turns.append(Lock())
                pool(threads - 1).submit(_take_part, turns[-1], function, job, failures)
        except RuntimeError:
            # No thread can start, or the interpreter is about to end.
            pool.cache_clear()
        failures.append(function(byref(job)))
    finally:
        # A second interrupt may end even this, and then the job itself keeps its tensors.
        for turn in turns:
            turn.acquire()
    job.kept = ()
    return not any(failures)


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The other threads, started as they are needed."""
    return ThreadPoolExecutor(threads, thread_name_prefix="kernel")


def _take_part(turn: Lock, function: Callable[..., int], job: Any, failures: list[int]) -> None:
    """What another thread does, unless the caller has taken its turn."""
    if turn.acquire(blocking=False):
        try:
            failures.append(function(byref(job)))
        finally:
            turn.release()


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=pool.cache_clear)
