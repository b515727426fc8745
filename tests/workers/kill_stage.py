"""Trains in processes that are killed, until one comes through:

    python -m tests.workers.kill_stage CORPUS FOLDER KILLS CASE...

    FOLDER/CASE/alone     a run that is left alone
    FOLDER/CASE/hunted    the same run, each of whose first KILLS processes is to be killed
        told-n.jsonl      what attempt n told, line by line
        run               the run's own folder

A hunted process gets its SIGKILL at a random moment: a while after some line, or at some call of
fsync, which is in the middle of writing a checkpoint. What fsync is asked for is left out: a killed
process, unlike a power cut, takes nothing from what the kernel holds. Processes are forks of this
one, which has one thread and does what they have in common.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch

from kernels.preflight import preflight_once
from kernels.presets import PRESETS
from sweeps.runspec import RunSpec
from sweeps.shapes import Experts
from sweeps.training import OptimizerKind
from tests.workers.tiny import BATCH, SHAPE, start, tiny_spec

STEPS = [10, 20]
LINES = 5
"""Events before which a process is to be killed; a whole run tells 26."""

FSYNCS = 24
"""Calls before which it is to be killed; a checkpoint makes four."""

MIXTURE = replace(
    SHAPE,
    name="mixture",
    num_layers=2,
    experts=Experts(count=4, active=2, width=16, shared_width=16, dense_layers=1),
)


def spec_of(corpus: Path, case: str) -> RunSpec:
    """The run of a case such as `ufp4 muon moe`; its steps add up two microbatches."""
    recipe, optimizer, family = case.split()
    spec = tiny_spec(corpus, optimizer=OptimizerKind(optimizer), microbatch_tokens=BATCH // 2)
    shape = {"dense": SHAPE, "moe": MIXTURE}[family]
    return replace(spec, recipe=PRESETS[recipe], model=shape)


def main(corpus: str, folder: str, kills: str, *cases: str) -> None:
    """As above."""
    torch.set_num_threads(1)
    preflight_once(torch.device("cpu"))
    for case in cases:
        spec = spec_of(Path(corpus), case)
        for name, count in (("alone", 0), ("hunted", int(kills))):
            home = Path(folder) / case / name
            home.mkdir(parents=True)
            moments = (random.Random(f"{case} {kill}") for kill in range(count))
            attempt = 1
            while not comes_through(spec, home, attempt, next(moments, None)):
                attempt += 1


def comes_through(spec: RunSpec, home: Path, attempt: int, moment: random.Random | None) -> bool:
    """One attempt, which is killed if there is a moment for it and it lasts as long."""
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    in_fsync = moment is not None and moment.random() < 0.5
    told = home / f"told-{attempt}.jsonl"
    if not (pid := os.fork()):
        os.fsync = fsync_killing(moment.randrange(1, FSYNCS) if moment and in_fsync else 0)  # type: ignore[assignment]
        train_all(spec, home, attempt, told)
        os._exit(0)
    if moment is not None and not in_fsync:
        kill_after(pid, told, moment.randrange(LINES), moment.uniform(0.0, 0.01))
    _, status = os.waitpid(pid, 0)
    if status not in {0, signal.SIGKILL}:
        raise SystemExit(f"{home}: attempt {attempt} ended with status {status}")
    return status == 0


def train_all(spec: RunSpec, home: Path, attempt: int, told: Path) -> None:
    """An attempt, which writes a checkpoint after every step."""
    events = start(spec, STEPS, home / "run", attempt=attempt, checkpoint_every_seconds=0.0)
    with told.open("w") as file:
        for event in events:
            print(json.dumps([type(event).__name__, asdict(event)]), file=file, flush=True)


def fsync_killing(call: int) -> Callable[[int], None]:
    """An fsync that does nothing but kill its process at one of its calls, counted from 1."""
    calls = 0

    def fsync(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)

    return fsync


def kill_after(pid: int, told: Path, lines: int, seconds: float) -> None:
    """Kill a process some time after it has told so much, unless it ends before."""
    while not told.exists() or told.read_bytes().count(b"\n") < lines:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
