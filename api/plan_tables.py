"""What `gridlaw plan` prints for people: what a sweep takes, model by model and run by run.

Four tables: parameters by bucket, FLOPs and memory of each model, what each recipe can gain on it,
and the runs in launch order, after what the design can tell. Counts are exact, memory is an
estimate (`sweeps.memory`).
"""

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from api.schemas import PlanView
from api.terminal import MISSING, heading, percent, plain_table, seconds
from sweeps.budget import format_count, format_flops, format_tokens
from sweeps.wording import plural

Lines = Iterator[RenderableType]

GIB = 2**30


def plan_lines(plan: PlanView, slots: int) -> Lines:
    """What a sweep takes, before anything starts."""
    yield (
        f"Sweep {plan.sweep_id}: {plural(plan.cells, 'cell')}, {plural(plan.runs, 'run')}, "
        f"{plan.reused} reused; "
        f"{format_tokens(plan.tokens)} and {format_flops(plan.flops)} to train, "
        f"about {seconds(plan.eta_seconds)} with {slots} at a time"
    )
    corpus = plan.corpus
    yield (
        f"Corpus {corpus['name']}: {format_count(corpus['num_bytes'])} bytes in "
        f"{plural(corpus['num_documents'], 'document')}, fingerprint {corpus['fingerprint'][:12]}"
    )
    yield ""
    yield heading(
        "Models by parameters (N: all but embedding and head; active: what a token passes)"
    )
    yield _parameters(plan.models)
    yield ""
    yield heading("Models by FLOPs a training token, forward and backward, and by memory of a GPU")
    yield _costs(plan.models)
    if any(model["recipes"] for model in plan.models):
        yield ""
        yield heading(
            "Share of FLOPs in quantized GEMMs, and the most that it can speed training up (Amdahl)"
        )
        yield _gains(plan.models)
    if plan.design:
        yield ""
        yield heading("What the design can tell")
        yield from plan.design
    yield ""
    yield heading("Runs, in launch order")
    yield _runs(plan.planned_runs)


def warning_lines(plan: PlanView) -> Lines:
    """What is seldom meant, and what is padded, before anything starts."""
    for sentence in plan.warnings:
        yield f"Warning: {sentence}"


def _parameters(models: list[dict[str, Any]]) -> Table:
    buckets = ("attention", "mlp", "router", "norms", "embedding", "head")
    table = plain_table(left=("model",), right=("N", "active", *buckets))
    for model in models:
        counts = [model["N"], model["active_N"], *map(model["parameters"].get, buckets)]
        table.add_row(model["name"], *(f"{count:,}" for count in counts))
    return table


def _costs(models: list[dict[str, Any]]) -> Table:
    (device_bytes,) = {model["memory"]["device_bytes"] for model in models}
    least_column = f"{device_bytes // GIB}-GiB GPUs needed"
    table = plain_table(
        left=("model",),
        right=(
            *("FLOPs/token", "6 N active", "microbatch", "GPUs", "GiB each", "checkpointed"),
            least_column,
        ),
    )
    for model in models:
        memory = model["memory"]
        least = memory["least_gpus"]
        table.add_row(
            model["name"],
            f"{model['flops_per_token']:,}",
            f"{model['six_n_flops_per_token']:,}",
            f"{memory['microbatch_tokens']}tok",
            str(memory["gpus"]),
            _gib(memory["total_bytes"]),
            _gib(memory["checkpointed_bytes"]),
            MISSING if least is None else str(least),
        )
    return table


def _gains(models: list[dict[str, Any]]) -> Table:
    table = plain_table(left=("model", "recipe"), right=("quantized", "GEMMs faster by", "bound"))
    for model in models:
        for gain in model["recipes"]:
            speedups = gain["gemm_speedups"]
            table.add_row(
                model["name"],
                gain["recipe"],
                percent(gain["quantized_share"]),
                " ".join(f"{factor:g}x" for factor in dict.fromkeys(speedups.values())) or MISSING,
                f"{gain['speedup_bound']:.2f}x",
            )
    return table


def _runs(runs: list[dict[str, Any]]) -> Table:
    table = plain_table(left=("run",), right=("batch", "rate", "tokens", "FLOPs", "horizons"))
    for run in runs:
        table.add_row(
            run["label"],
            f"{run['batch_tokens']}tok",
            f"{run['learning_rate']:g}",
            format_tokens(run["tokens"]),
            format_flops(run["flops"]),
            " ".join(format_tokens(horizon) for horizon in run["horizons"]),
        )
    return table


def _gib(size: int) -> str:
    """`0.0012`, `3.4`, `151`: two digits that count, or all before the point."""
    gib = size / GIB
    return f"{gib:.2g}" if gib < 1 else f"{gib:.1f}" if gib < 100 else f"{gib:,.0f}"
