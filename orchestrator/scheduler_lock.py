"""One scheduler for each home.

The lock is the operating system's and ends with its process, so a killed scheduler blocks nobody;
the process number beside it is only there to tell a person who holds it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from orchestrator.settings import Home
from sweeps.errors import ConflictError, StorageError


@contextmanager
def only_scheduler(home: Home) -> Iterator[None]:
    """Be the home's scheduler for the length of the block.

    Raises:
        ConflictError: If another process, or another thread of this one, is.
        StorageError: If the home cannot be written to.
    """
    lock = FileLock(home.scheduler_lock, blocking=False, thread_local=False)
    try:
        home.path.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        home.scheduler_pid.write_text(f"{os.getpid()}\n")
    except Timeout as error:
        raise ConflictError(
            f"another scheduler (process {_holder(home)}) is at work on {home.path}; "
            "stop it first or use another home"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot write to the home {home.path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _holder(home: Home) -> str:
    try:
        return home.scheduler_pid.read_text().strip() or "unknown"
    except OSError:
        return "unknown"
