"""What MLflow shows of a run: parameters, metrics by tokens, status. Values only, no MLflow.

    metric                           step      from
    train_loss …                     tokens    the trunk
    cooldown_<horizon>/train_loss …  tokens    the cooldown branch of a horizon
    val_loss, val_loss_bf16 …        tokens    the endpoint at a horizon
    numerics/<layer>/…               tokens    a diagnosis of the trunk; of a branch, under
                                               cooldown_<horizon>/. Numbers of `kernels.quality`:
        <gemm>/<operand>/sqnr, gain …          as the GEMM multiplies it
        <gemm>/sqnr, gain                      of the product; its gain is η
        weight/flips …                         over the two steps before
    numerics/underflow/<x, w, dy>    tokens    the same, the mean over layers and GEMMs

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from kernels.blocks import Block
from kernels.formats import Grid
from kernels.operands import Operand
from kernels.quality import LayerQuality
from kernels.verdict import Preflight
from orchestrator.states import State
from orchestrator.summaries import RunSummary
from sweeps.metrics import Diagnosis, Endpoint, StepMetrics
from sweeps.plain import plain
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


def new_points(
    record: RunRecord, marks: Mapping[str, int], diagnoses: Sequence[Diagnosis] = ()
) -> Iterator[Point]:
    """What lies beyond the marks, path by path in the order in which it was trained.

    Args:
        record: The run as its sweep sees it.
        marks: How far each path was sent.
        diagnoses: Of the run; those on paths that the sweep does not ask for are left out.
    """
    for point in _points(record):
        if point.tokens > marks.get(point.path, 0):
            yield point
    for diagnosis in _asked(record, diagnoses):
        if diagnosis.tokens > marks.get(_diagnosed_path(diagnosis), 0):
            yield _diagnosed(record, diagnosis)


def params(run: RunSummary) -> dict[str, str]:
    """The run's spec, flattened as in `training.learning_rate` and `recipe.fprop.left.block`.

    Grids stand there by name and blocks as `1x16`; an operand without a grid is `carrier`.
    """
    told = {"run_id": run.run_id, "N": run.N, "flops_per_token": run.flops_per_token}
    return {key: value[:LONGEST_VALUE] for key, value in [*_flat(told, ""), *_flat(run.spec, "")]}


def tags(run: RunSummary) -> dict[str, str]:
    """What may change while the run goes on, and how it ended."""
    return {
        "gridlaw.run_id": run.run_id,
        "gridlaw.outcome": run.state.value,
        "gridlaw.detail": run.detail or "none",
        "gridlaw.attempt": str(run.attempt),
        "gridlaw.preflight": _preflight(run.preflight),
        "gridlaw.horizons": json.dumps(run.horizons),
    }


def _preflight(found: Preflight | None) -> str:
    if found is None:
        return "none"
    failed = [check.name for check in found.checks if not check.passed]
    return f"{found.device}: {'failed ' + ', '.join(failed) if failed else 'passed'}"


def _points(record: RunRecord) -> Iterator[Point]:
    seconds: dict[int | None, float] = {}
    for step in record.curve:
        seconds[step.horizon] = step.seconds
        yield _step(step)
    for endpoint in record.endpoints:
        yield _endpoint(endpoint, seconds.get(endpoint.tokens, 0.0))


def _step(step: StepMetrics) -> Point:
    prefix = _prefix(step.horizon)
    metrics = {
        "train_loss": step.loss,
        "learning_rate": step.learning_rate,
        "gradient_norm": step.gradient_norm,
        "tokens_per_second": step.tokens_per_second,
        "update_ratio": step.update_ratio,
        "mfu": step.mfu,
        "memory_bytes": step.memory_bytes,
        "expert_imbalance": step.imbalance,
    }
    return Point(
        path=_path(step.horizon),
        tokens=step.tokens,
        seconds=step.seconds,
        metrics=_finite(
            {prefix + name: value for name, value in metrics.items() if value is not None}
        ),
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
                "final_train_loss": endpoint.train_loss,
            }
            | _bits_per_byte(endpoint)
        ),
    )


def _bits_per_byte(endpoint: Endpoint) -> dict[str, float]:
    """Nothing where the corpus holds ids whose bytes nobody told."""
    if endpoint.bytes_per_token is None:
        return {}
    return {"val_bits_per_byte": endpoint.loss / (math.log(2) * endpoint.bytes_per_token)}


def _asked(record: RunRecord, diagnoses: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    trunk_end = max(map(record.spec.branch_tokens, record.horizons))
    for one in diagnoses:
        if one.horizon in record.horizons or (one.horizon is None and one.tokens <= trunk_end):
            yield one


def _diagnosed(record: RunRecord, diagnosis: Diagnosis) -> Point:
    before = (
        step.seconds
        for step in record.curve
        if step.horizon == diagnosis.horizon and step.tokens <= diagnosis.tokens
    )
    prefix = _prefix(diagnosis.horizon)
    return Point(
        path=_diagnosed_path(diagnosis),
        tokens=diagnosis.tokens,
        seconds=max(before, default=0.0),
        metrics=_finite(
            {
                f"{prefix}numerics/{layer.layer}/{name}": value
                for layer in diagnosis.layers
                for name, value in _layer(layer)
                if value is not None
            }
            | {
                f"{prefix}numerics/underflow/{operand}": value
                for operand, value in _underflow(diagnosis.layers)
            }
        ),
    )


def _diagnosed_path(diagnosis: Diagnosis) -> str:
    return f"numerics_{_path(diagnosis.horizon)}"


def _underflow(layers: Sequence[LayerQuality]) -> Iterator[tuple[str, float]]:
    """Share of elements that became zero by class of operand, the mean over layers and GEMMs."""
    for operand in ("x", "w", "dy"):
        shares = [
            one.used.underflow
            for layer in layers
            for one in layer.operands
            if one.operand == operand and one.used.underflow is not None
        ]
        if shares:
            yield operand, math.fsum(shares) / len(shares)


def _layer(layer: LayerQuality) -> Iterator[tuple[str, float | None]]:
    """Numbers of a layer; SQNR of operands also without the RHT and with it."""
    for one in layer.operands:
        place, used = f"{one.gemm}/{one.operand}", one.used
        yield f"{place}/sqnr", used.sqnr
        yield f"{place}/sqnr_plain", one.plain.sqnr
        yield f"{place}/sqnr_rht", one.rotated.sqnr
        yield f"{place}/gain", used.gain
        yield f"{place}/utilisation", used.utilisation
        yield f"{place}/crest_factor", used.crest_factor
        yield f"{place}/underflow", used.underflow
        yield f"{place}/saturation", used.saturation
    for product in layer.products:
        yield f"{product.gemm}/sqnr", product.sqnr
        yield f"{product.gemm}/gain", product.gain
    if layer.motion is not None:
        for name, value in asdict(layer.motion).items():
            yield f"weight/{name}", value


def _path(horizon: int | None) -> str:
    return "trunk" if horizon is None else f"cooldown_{horizon}"


def _prefix(horizon: int | None) -> str:
    """What the metrics of a path begin with."""
    return "" if horizon is None else f"{_path(horizon)}/"


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _flat(value: Any, key: str) -> Iterator[tuple[str, str]]:
    match value:
        case Grid():
            yield key, value.name
        case Block():
            yield key, str(value)
        case Operand(grid=None):
            yield key, "carrier"
        case dict():
            for name, item in value.items():
                yield from _flat(item, f"{key}.{name}" if key else name)
        case list() | tuple():
            yield key, json.dumps(plain(value))
        case _ if is_dataclass(value):
            yield from _flat({one.name: getattr(value, one.name) for one in fields(value)}, key)
        case _:
            yield key, str(value)
