"""The scheduler's process: `python -m workers`.

    settings → store → executor → loop;  beside the loop: the MLflow mirror, the reports

    --sweep ID   carries one sweep out and ends when it is over
    --serve      carries out whatever is submitted, until told to end

SIGINT, SIGTERM or SIGHUP, or the end of the parent process, let what runs checkpoint and go back
into the queue; a second signal ends at once. Says nothing but one sentence on an error; everything
else is in `scheduler.log` of the home. Exit code 0, also where runs diverged or failed, which is in
the store; 1 if the scheduler itself could not go on, 2 if it was called wrongly.
"""

import argparse
import hashlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from orchestrator.clock import utc_now
from orchestrator.executor import Executor
from orchestrator.loop import Loop
from orchestrator.scheduler_lock import only_scheduler
from orchestrator.settings import ExecutorKind, Settings, load_settings
from orchestrator.store import Store
from sweeps.errors import GridlawError, InputError, StorageError
from workers.mirror import Mirror
from workers.reports import Reports

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FLUSH_SECONDS = 20.0
"""How long the end may wait for MLflow; what it lacks then follows with the next scheduler."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scheduler; returns the exit code."""
    given = _parser().parse_args(arguments)
    try:
        settings = load_settings(home=given.home, executor=given.executor)
        _log_to(settings.home / "scheduler.log")
        _schedule(settings, given.sweep, given.parent)
    except GridlawError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, InputError) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workers", description="The scheduler.")
    parser.add_argument("--home", type=Path, help="folder that holds everything")
    parser.add_argument("--executor", choices=[kind.value for kind in ExecutorKind])
    parser.add_argument("--parent", type=int, help="end when this parent process is gone")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--sweep", help="carry out this sweep and end")
    what.add_argument("--serve", action="store_true", help="carry out all sweeps until told to end")
    return parser


def _log_to(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.captureWarnings(True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _schedule(settings: Settings, sweep: str | None, parent: int | None) -> None:
    with only_scheduler(settings.layout):
        pass  # a clear sentence before an executor is started
    stop = threading.Event()
    _stop_on_signals(stop)
    store = Store.open(settings)
    reports = Reports(store, settings.layout.reports, utc_now)
    sweep_id = None if sweep is None else store.sweep(sweep).sweep_id
    mirror = _mirror(settings, store, sweep_id)
    mirror.start()
    try:
        with _executor(settings) as executor:
            _stop_on_signals(stop)  # Ray has put its own handler in place
            loop = Loop(store, executor, utc_now, settings)
            loop.run_until(sweep_id, stop, _between_turns(reports, stop, sweep_id, parent))
        if sweep_id is not None and store.sweep(sweep_id).is_over:
            reports.write(sweep_id)
    finally:
        reports.close()
        mirror.close(FLUSH_SECONDS)
        store.close()


def _between_turns(
    reports: Reports, stop: threading.Event, sweep_id: str | None, parent: int | None
) -> Callable[[], None]:
    def on_tick() -> None:
        if parent is not None and os.getppid() != parent:
            stop.set()
        if sweep_id is None:
            reports.look()

    return on_tick


def _stop_on_signals(stop: threading.Event) -> None:
    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in STOP_SIGNALS:
        signal.signal(number, on_signal)


def _mirror(settings: Settings, store: Store, sweep_id: str | None) -> Mirror:
    return Mirror(
        store,
        url=settings.mlflow_url,
        folder=settings.layout.mlflow,
        reports=settings.layout.reports,
        sweep=sweep_id,
    )


@contextmanager
def _executor(settings: Settings) -> Iterator[Executor]:
    """Each kind loads its own libraries only: Ray, or torch."""
    cache = settings.layout.cache
    match settings.executor:
        case ExecutorKind.RAY:
            from workers.ray_executor import RayExecutor

            store = hashlib.sha256(settings.database_url.encode()).hexdigest()[:12]
            ray = RayExecutor(
                settings.ray_address,
                settings.slots,
                cache,
                namespace=f"gridlaw-{store}",
                gpu_bytes=settings.gpu_memory_bytes,
                accelerate=settings.accelerate,
            )
            try:
                yield ray
            finally:
                ray.shutdown()
        case ExecutorKind.LOCAL:
            from workers.local_executor import LocalExecutor

            local = LocalExecutor(cache=cache, slots=settings.slots, accelerate=settings.accelerate)
            try:
                yield local
            finally:
                local.shutdown(settings.stop_grace_seconds)


if __name__ == "__main__":
    sys.exit(main())
