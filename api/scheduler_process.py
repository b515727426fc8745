"""The scheduler as a child process: `python -m workers`, which alone may load torch and Ray.

The child gets its own process group, so that Ctrl-C reaches this process only, which then asks the
child once to stop: it checkpoints what is running and ends. It does the same when this process is
gone. What the child says is appended to `scheduler.log` in the home.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.scheduler_lock import only_scheduler
from orchestrator.settings import Settings
from sweeps.errors import GridlawError, StorageError

COMMAND = (sys.executable, "-P", "-m", "workers")
SOURCE = Path(__file__).resolve().parents[1]
TAIL_LINES = 15
MARGIN_SECONDS = 15.0
"""Beyond the scheduler's own grace time: it stores what it heard and stops its executor."""


class SchedulerProcess:
    """A running scheduler and the part of the log that it writes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, log_start: int) -> None:
        self._process = process
        self._log_start = log_start
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
            GridlawError: With the end of its log.
        """
        code = self._process.returncode
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise GridlawError(f"the scheduler {how}; {self.log} ends with:\n{self._tail()}")

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _tail(self) -> str:
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-TAIL_LINES:]) or "    (nothing)"


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
            start = file.tell()
            process = subprocess.Popen(
                [*COMMAND, "--home", str(settings.home), "--parent", str(os.getpid()), *arguments],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
    except OSError as error:
        raise StorageError(f"cannot start the scheduler: {error}") from error
    child = SchedulerProcess(process, log, start)
    try:
        yield child
    finally:
        child.stop(settings.stop_grace_seconds + MARGIN_SECONDS)


def _environment() -> dict[str, str]:
    # The working directory is a person's own: it must not be where the child looks for modules.
    paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
