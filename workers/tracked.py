"""What MLflow shows of a run: parameters, metrics by tokens, status. Values only, no MLflow.

    metric                           step      from
    train_loss …                     tokens    the trunk
    cooldown_<horizon>/train_loss …  tokens    the cooldown branch of a horizon
    val_loss, val_loss_bf16 …        tokens    the endpoint at a horizon

A mark remembers up to which tokens a path was sent. What a resumed run trains again lies below it
and is not sent twice. Values that are not finite are left out, since MLflow would show the largest
double for infinity; how a run diverged is told by its tags.

    state       status      a diverged run is a finished experiment with a result, so it is
    queued      SCHEDULED   FINISHED as well; the tag gridlaw.outcome tells the two apart
    running     RUNNING
    succeeded   FINISHED
    diverged    FINISHED
    failed      FAILED
    cancelled   KILLED
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.states import State
from orchestrator.summaries import RunSummary
from sweeps.metrics import Endpoint, StepMetrics
from sweeps.records import RunRecord

STATUS: Mapping[State, str] = {
    State.QUEUED: "SCHEDULED",
    State.RUNNING: "RUNNING",
    State.SUCCEEDED: "FINISHED",
    State.DIVERGED: "FINISHED",
    State.FAILED: "FAILED",
    State.CANCELLED: "KILLED",
}

LONGEST_VALUE = 6000
"""Characters of a parameter that MLflow keeps."""

Marks = dict[str, int]
"""Tokens up to which each path was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Metrics at one place of one path; `seconds` of training time came before it."""

    path: str
    tokens: int
    seconds: float
    metrics: Mapping[str, float]


def new_points(record: RunRecord, marks: Mapping[str, int]) -> Iterator[Point]:
    """What lies beyond the marks, in the order in which it was trained."""
    for point in _points(record):
        if point.tokens > marks.get(point.path, 0):
            yield point


def params(run: RunSummary) -> dict[str, str]:
    """The run's spec, flattened as in `training.learning_rate` and `recipe.fprop.left.block`."""
    told = {"run_id": run.run_id, "N": run.N, "flops_per_token": run.flops_per_token}
    return {
        key: value[:LONGEST_VALUE]
        for key, value in [*_flat(told, ""), *_flat(asdict(run.spec), "")]
    }


def tags(run: RunSummary) -> dict[str, str]:
    """What may change while the run goes on, and how it ended."""
    return {
        "gridlaw.run_id": run.run_id,
        "gridlaw.outcome": run.state.value,
        "gridlaw.detail": run.detail or "none",
        "gridlaw.attempt": str(run.attempt),
        "gridlaw.horizons": json.dumps(run.horizons),
    }


def _points(record: RunRecord) -> Iterator[Point]:
    seconds: dict[int | None, float] = {}
    for step in record.curve:
        seconds[step.horizon] = step.seconds
        yield _step(step)
    for endpoint in record.endpoints:
        yield _endpoint(endpoint, seconds.get(endpoint.tokens, 0.0))


def _step(step: StepMetrics) -> Point:
    path = "trunk" if step.horizon is None else f"cooldown_{step.horizon}"
    prefix = "" if step.horizon is None else f"{path}/"
    metrics = {
        "train_loss": step.loss,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm,
        "tokens_per_second": step.tokens_per_second,
    }
    return Point(
        path=path,
        tokens=step.tokens,
        seconds=step.seconds,
        metrics=_finite({prefix + name: value for name, value in metrics.items()}),
    )


def _endpoint(endpoint: Endpoint, seconds: float) -> Point:
    return Point(
        path=f"endpoint_{endpoint.tokens}",
        tokens=endpoint.tokens,
        seconds=seconds,
        metrics=_finite(
            {
                "val_loss": endpoint.loss,
                "val_loss_se": endpoint.loss_se,
                "val_loss_bf16": endpoint.loss_bf16,
                "val_bits_per_byte": endpoint.loss / (math.log(2) * endpoint.bytes_per_token),
                "final_train_loss": endpoint.train_loss,
            }
        ),
    )


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _flat(value: Any, key: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, item in value.items():
                yield from _flat(item, f"{key}.{name}" if key else name)
        case list() | tuple():
            yield key, json.dumps(value)
        case _:
            yield key, str(value)
