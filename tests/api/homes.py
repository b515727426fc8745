"""Homes for the front doors' tests: a small sweep file, and a home in which it is over.

The finished home went through the real service, store and loop; only the training was laid down by
the executor of the loop's own tests: bf16 and ufp4 measure losses that fall with N and D, and e4m3
diverges.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import yaml

from orchestrator.executor import Ended, Task
from orchestrator.loop import Loop
from orchestrator.service import Service, lay_out
from orchestrator.settings import Settings, load_settings
from orchestrator.states import Reason
from sweeps.counts import non_embedding_parameters
from sweeps.metrics import Diverged, TrainEvent
from sweeps.spec import load_spec
from tests.orchestrator.stepping_executor import Script, SteppingExecutor
from tests.orchestrator.values import endpoint, preflight, step

BATCH = 256
TRAIN = {"context": 32, "batch": f"{BATCH}tok", "warmup": "1024tok", "learning_rate": 0.001}


def mapping(**changes: Any) -> dict[str, Any]:
    """A valid spec over the folder `texts` beside its file, with some keys changed."""
    return {
        "name": "tiny",
        "models": [{"layers": 1, "width": 16, "heads": 1}, {"layers": 1, "width": 32, "heads": 2}],
        "recipes": ["bf16", "ufp4", "e4m3"],
        "budgets": ["8192tok", "16384tok"],
        "corpus": "texts",
        "train": TRAIN,
        "eval": {"held_out": 0.2, "tokens": "1024tok"},
    } | changes


def write_spec(folder: Path, **changes: Any) -> Path:
    """The sweep file and its texts in a folder."""
    texts = folder / "texts"
    texts.mkdir(exist_ok=True)
    for index in range(24):
        lines = [f"{index} {line} all that is gold does not glitter" for line in range(40)]
        (texts / f"{index}.txt").write_text("\n".join(lines))
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(mapping(**changes), sort_keys=False))
    return path


def settings_of(home: Path) -> Settings:
    """Settings that do not depend on the environment."""
    return load_settings(
        {}, home=home, slots=2, tick_seconds=0.001, stop_grace_seconds=20, min_free_bytes=0
    )


def loss(task: Task, horizon: int) -> float:
    """What a run measures: falls with N and D, and ufp4 costs 0.05 nats."""
    size = non_embedding_parameters(task.spec.model)
    gap = 0.05 if task.spec.recipe.name == "ufp4" else 0.0
    return 1.5 + 4 / math.pow(size, 0.25) + 9 / math.pow(horizon, 0.25) + gap


def measures(task: Task) -> Iterator[TrainEvent | Ended]:
    """A preflight, one step, then every horizon; e4m3 diverges instead."""
    yield preflight()
    yield step(BATCH, loss=4.0)
    if task.spec.recipe.name == "e4m3":
        yield Diverged(horizon=None, step=2, tokens=2 * BATCH, detail="loss is nan at step 2")
        yield Ended(reason=Reason.NON_FINITE, detail="loss is nan at step 2")
        return
    for horizon in task.horizons:
        yield endpoint(horizon, loss=loss(task, horizon))
    yield Ended(reason=Reason.COMPLETED)


def fails(_task: Task) -> Iterator[TrainEvent | Ended]:
    """The accident that nobody foresaw."""
    yield Ended(reason=Reason.TRAINING_ERROR, detail="the tokenizer cache is gone")


def finish(home: Path, spec_file: Path, script: Script = measures) -> str:
    """Carry the sweep of a file out in a home; its id."""
    settings = settings_of(home)
    service = Service.open(settings)
    sweep_id = service.submit(lay_out(load_spec(spec_file))).sweep_id
    executor = SteppingExecutor()
    executor.scripts = defaultdict(lambda: script)
    Loop(service.store, executor, service.clock, settings).run_until(sweep_id, Event())
    service.store.close()
    return sweep_id
