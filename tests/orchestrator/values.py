"""Values for the store's tests: real plans of small sweeps, and reports about their runs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from kernels.quality import LayerQuality, OperandQuality, ProductQuality, Quality, WeightMotion
from kernels.verdict import Check, Preflight
from orchestrator.executor import Ended, Report, Task
from orchestrator.states import Reason
from sweeps.metrics import Diagnosis, Endpoint, StepMetrics, TrainEvent
from sweeps.plan import Plan, expand
from sweeps.sources import CorpusKind, CorpusRef
from sweeps.spec import parse_spec

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=60)
BATCH = 1024

CORPUS = CorpusRef(
    name="stdlib",
    kind=CorpusKind.STDLIB,
    path="",
    fingerprint="f" * 64,
    num_bytes=1_000_000,
    num_documents=100,
)


def plan_of(
    *,
    name: str = "small",
    recipes: tuple[object, ...] = ("bf16", "ufp4"),
    budgets: tuple[str, ...] = ("40960tok", "81920tok"),
    seeds: tuple[int, ...] = (0,),
    **more: Any,
) -> Plan:
    """A plan of one model; one run for each recipe and seed, one horizon for each budget."""
    given: Mapping[str, Any] = {
        "name": name,
        "models": [{"name": "m", "layers": 1, "width": 32, "heads": 2, "mlp_width": 64}],
        "recipes": list(recipes),
        "budgets": list(budgets),
        "seeds": list(seeds),
        "train": {
            "context": 128,
            "batch": f"{BATCH}tok",
            "learning_rate": 1e-3,
            "warmup": "4096tok",
        },
        **more,
    }
    return expand(parse_spec(given), CORPUS)


def step(tokens: int, *, horizon: int | None = None, loss: float = 3.0) -> StepMetrics:
    """Metrics at so many tokens on the trunk, or on a branch."""
    return StepMetrics(
        horizon=horizon,
        step=tokens // BATCH,
        tokens=tokens,
        loss=loss,
        learning_rate=1e-3,
        gradient_norm=1.0,
        tokens_per_second=1000.0,
        seconds=tokens / 1000,
    )


def endpoint(tokens: int, *, loss: float = 2.5) -> Endpoint:
    """A measurement at so many tokens."""
    return Endpoint(
        tokens=tokens,
        loss=loss,
        loss_se=0.01,
        loss_bf16=loss - 0.01,
        train_loss=loss - 0.1,
        eval_tokens=4096,
        bytes_per_token=1.0,
        unigram_entropy=3.4,
    )


def quality(*, sqnr: float | None = 20.5, gain: float | None = 0.99) -> Quality:
    """An operand on a grid of four codes of each sign."""
    return Quality(
        sqnr=sqnr,
        gain=gain,
        utilisation=0.75,
        crest_factor=2.5,
        underflow=0.01,
        saturation=0.0,
        buckets=(0.25, 0.0, 1 / 3, 0.0),
    )


def diagnosis(tokens: int, *, horizon: int | None = None, sqnr: float | None = 20.5) -> Diagnosis:
    """What was seen of one layer at so many tokens."""
    layer = LayerQuality(
        layer="blocks.0.mlp.down",
        operands=(
            OperandQuality(
                gemm="fprop",
                operand="x",
                rotates=True,
                plain=quality(),
                rotated=quality(sqnr=sqnr),
            ),
        ),
        products=(ProductQuality(gemm="fprop", sqnr=None, gain=0.5),),
        motion=WeightMotion(flips=0.1, oscillations=0.05, mismatch=0.0),
    )
    still = LayerQuality(layer="blocks.1.mlp.down", operands=(), products=())
    return Diagnosis(horizon=horizon, step=tokens // BATCH, tokens=tokens, layers=(layer, still))


def preflight(*, failed: str | None = None, seconds: float = 0.25) -> Preflight:
    """What a preflight found; one check failed if it is named."""
    checks = (
        Check(name="division", passed=failed != "division", detail="32 quotients"),
        Check(name="rht", passed=failed != "rht", detail="within 1e-07"),
    )
    return Preflight(device="cpu: C kernel, AVX2", seconds=seconds, checks=checks)


def heard(
    task: Task, *events: TrainEvent, offset: int = 0, ended: Reason | None = None, detail: str = ""
) -> Report:
    """A report about a task's attempt."""
    return Report(
        key=task.key,
        offset=offset,
        events=events,
        ended=None if ended is None else Ended(reason=ended, detail=detail),
    )


def completed(task: Task, *, offset: int = 0) -> Report:
    """A report that measures every horizon of the task and ends it."""
    points = [endpoint(horizon) for horizon in task.horizons]
    return heard(task, *points, offset=offset, ended=Reason.COMPLETED)
