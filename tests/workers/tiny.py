"""A corpus and a run small enough to train in a second, and the events of a training."""

import json
from collections.abc import Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.presets import PRESETS
from kernels.verdict import Preflight
from sweeps.metrics import Endpoint, StepMetrics, TrainEvent
from sweeps.runspec import Evaluation, RunSpec
from sweeps.shapes import ModelShape
from sweeps.sources import TokenizerRef
from sweeps.training import Training
from tests.corpora import pinned_text
from workers.data.dataset import Dataset, open_dataset
from workers.train import train

BATCH = 256
NEVER = 1e9
SHAPE = ModelShape(name="tiny", num_layers=1, width=16, num_heads=1, mlp_width=32)


def write_corpus(folder: Path) -> Path:
    """Some of the standard library's own text, cut into many documents."""
    for path in sorted(Path(json.__file__).parent.glob("*.py")):
        text = path.read_text()
        for start in range(0, len(text), 1000):
            (folder / f"{path.stem}-{start:06d}.txt").write_text(text[start : start + 1000])
    return folder


def tiny_spec(corpus: Path, recipe: str = "bf16", **training: Any) -> RunSpec:
    return RunSpec(
        model=SHAPE,
        recipe=PRESETS[recipe],
        corpus=pinned_text(corpus),
        tokenizer=TokenizerRef(),
        training=replace(
            Training(context=32, batch_tokens=BATCH, learning_rate=0.01, warmup_tokens=4 * BATCH),
            **training,
        ),
        evaluation=Evaluation(held_out=0.2, tokens=512),
    )


def open_tiny(spec: RunSpec, cache: Path) -> Dataset:
    return open_dataset(spec.corpus, spec.tokenizer, spec.training, spec.evaluation, cache)


def start(
    spec: RunSpec,
    steps: list[int],
    folder: Path,
    *,
    attempt: int = 1,
    report_every_seconds: float = NEVER,
    checkpoint_every_seconds: float = NEVER,
) -> Generator[TrainEvent, None, None]:
    """A training to horizons given in steps, by default without clocks."""
    return train(
        spec,
        [count * spec.training.batch_tokens for count in steps],
        folder,
        cache=folder.parent / "cache",
        attempt=attempt,
        report_every_seconds=report_every_seconds,
        checkpoint_every_seconds=checkpoint_every_seconds,
    )


def run(spec: RunSpec, steps: list[int], folder: Path, attempt: int = 1) -> list[TrainEvent]:
    """All its events after the preflight."""
    return after_preflight(start(spec, steps, folder, attempt=attempt))


def after_preflight(events: Iterable[TrainEvent]) -> list[TrainEvent]:
    return [event for event in events if not isinstance(event, Preflight)]


def endpoints(events: list[TrainEvent]) -> list[Endpoint]:
    return [event for event in events if isinstance(event, Endpoint)]


def curve(events: list[TrainEvent]) -> dict[tuple[int | None, int], StepMetrics]:
    """Reports by position without clocks and memory; of two at one position the later counts."""
    return {
        (event.horizon, event.step): replace(
            event, tokens_per_second=0.0, seconds=0.0, mfu=None, memory_bytes=None
        )
        for event in events
        if isinstance(event, StepMetrics)
    }
