"""The scheduler as a child process: `python -m workers`, which alone may load torch and Ray.

The child gets its own process group, so that Ctrl-C reaches this process only, which then asks the
child once to stop: it checkpoints what is running and ends. It does the same when this process is
gone. What the child logs is in `scheduler.log` of the home. What it says on standard error comes
through a pipe and is copied there, so that its last sentence is heard when the disk is full too.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO

from api.worker_side import command, environment
from orchestrator.scheduler_lock import only_scheduler
from orchestrator.settings import Settings
from sweeps.errors import GridlawError, StorageError

LAST_WORDS_SECONDS = 2.0
"""How long an ended child's pipe may stay open: its own children may have kept it."""
MARGIN_SECONDS = 15.0
"""Beyond the scheduler's own grace time: it stores what it heard and stops its executor."""


class SchedulerProcess:
    """A running scheduler, its log and its last words."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: IO[bytes], log: Path) -> None:
        self._process = process
        self._words = ""
        self._listener = Thread(target=self._listen, args=(pipe,), daemon=True)
        self._listener.start()
        self.log = log

    def is_running(self, timeout: float) -> bool:
        """Wait for it to end, at most so many seconds; whether it still runs."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return True
        return False

    def stop(self, grace_seconds: float) -> None:
        """Let it checkpoint what runs and end; if late, or interrupted again, it is killed."""
        if not self.is_running(0):
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            if self.is_running(grace_seconds):
                self._kill()
        except KeyboardInterrupt:
            self._kill()
            raise

    def check(self) -> None:
        """Say what happened to it if it did not end well.

        Raises:
            GridlawError: With its own sentence and the place of its log.
        """
        code = self._process.returncode
        if not code:
            return
        self._listener.join(LAST_WORDS_SECONDS)
        if code < 0:
            how = f"was killed by signal {-code}"
        elif self._words:
            how = f"ended: {self._words}"
        else:
            how = f"ended with exit code {code} and said nothing"
        raise GridlawError(f"the scheduler {how}; its log is {self.log}")

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self._words = line.decode(errors="replace").strip() or self._words
                with suppress(OSError), self.log.open("ab") as file:
                    file.write(line)


@contextmanager
def scheduler(settings: Settings, *arguments: str) -> Iterator[SchedulerProcess]:
    """A scheduler of this home for the length of the block; it is stopped at the end.

    Args:
        settings: Handed on to the child.
        arguments: Of `python -m workers`, besides the home.

    Raises:
        ConflictError: If this home has a scheduler already.
        StorageError: If the home cannot be written to.
    """
    with only_scheduler(settings.layout):
        pass  # a clear sentence now rather than in the child's log
    log = settings.home / "scheduler.log"
    try:
        with log.open("ab") as file:
            process = subprocess.Popen(
                [
                    *command("workers"),
                    "--home",
                    str(settings.home),
                    "--parent",
                    str(os.getpid()),
                    *arguments,
                ],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
    except OSError as error:
        raise StorageError(f"cannot start the scheduler: {error}") from error
    assert process.stderr is not None
    child = SchedulerProcess(process, process.stderr, log)
    try:
        yield child
    finally:
        child.stop(settings.stop_grace_seconds + MARGIN_SECONDS)
