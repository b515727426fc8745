"""Tokens a second and MFU of every model of the ladder that fits: whole training steps.

    MFU = FLOPs of a step, counted exactly (`sweeps.counts`) / (seconds of a step * peak)

    peak    CPU   the best rate of a square BF16 product by torch, in the same run and threads
            GPU   what its maker states for dense BF16 (`workers.utilization`)

A step is forward, backward and optimizer, as `workers.trainee` takes it; data are drawn at random.
Counted are the products of the model as if in BF16: what a recipe does beside them lowers its MFU.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from benchmarks.machine import machine
from benchmarks.models import largest, quickstart, recipes_on, trainees
from benchmarks.results import SPREAD_LEGEND, Column, Result, Row, Setting, Table, spread_fields
from benchmarks.timing import Comparison, compare, cpu_threads
from kernels.recipes import Recipe
from sweeps.counts import flops_per_token, non_embedding_parameters
from sweeps.errors import InputError
from sweeps.families.ladder import PRESETS
from sweeps.runspec import RunSpec
from sweeps.wording import plural
from workers.fitting import needs_checkpoints
from workers.utilization import peak_flops

LEGEND = {
    "preset": "name of the model",
    "N": "parameters beside embedding and head",
    "flops": "of a step, counted exactly",
    "tokens": "of a step",
    "context": "tokens of a sequence",
    "threads": "CPU threads, null on a GPU",
    "recipe": "of the blocks; a width that is no multiple of its blocks is padded",
    "tokens_per_second": "tokens of a step over the median of its seconds",
    "mfu": "FLOPs of a step over the median of its seconds and the peak",
    "peak": "FLOPs a second that mfu is taken over",
    "seconds": "of one step",
    "ratio": "time over that of the bf16 step of the same round",
    **SPREAD_LEGEND,
}
COLUMNS = (
    Column("preset", "model"),
    Column("recipe", "recipe"),
    Column("N", "N", ",d"),
    Column("tokens_per_second", "tokens/s", ",d"),
    Column("mfu", "MFU", ".3f"),
    Column("ratio.median", "x bf16", ".3f"),
    Column("ratio.interval.0", "95 % low", ".3f"),
    Column("ratio.interval.1", "95 % high", ".3f"),
    Column("ratio.rounds", "rounds", "d"),
)
READING = (
    "MFU: exact FLOPs of a step, as if all were BF16, over its time and the peak. x bf16: time of "
    "a step over that of the bf16 step of the same round, median and 95 % interval."
)
PRODUCT = "product"
"""Of the callables that are timed, the one that is no step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What suits a device.

    Attributes:
        context: Tokens of a sequence.
        batch_tokens: Tokens of a step.
        side: Of the square product.
        step_seconds: Longest step that a model may be expected to take in BF16.
        seconds: That the rounds of a model may take together, about.
    """

    context: int
    batch_tokens: int
    side: int
    step_seconds: float
    seconds: float


def run(setting: Setting) -> Result:
    """Every model that fits, in each number of threads."""
    is_gpu = setting.device.type == "cuda"
    threads = (None,) if is_gpu else setting.threads
    return Result(
        benchmark="train",
        machine=machine(setting.device),
        quick=setting.quick,
        tables=tuple(_table(setting, scale_of(setting), count) for count in threads),
        reading=READING,
        legend=LEGEND,
    )


def scale_of(setting: Setting) -> Scale:
    """Sizes for a GPU, or for a core or two."""
    if setting.device.type == "cuda":
        scale = Scale(context=1024, batch_tokens=32_768, side=4096, step_seconds=2.0, seconds=20.0)
    else:
        scale = Scale(context=128, batch_tokens=2048, side=512, step_seconds=1.5, seconds=20.0)
    return replace(scale, step_seconds=0.02, seconds=0.5) if setting.quick else scale


def runs(scale: Scale, device: torch.device, peak: float) -> Iterator[RunSpec]:
    """A BF16 run of each preset that fits into the memory and, at a third of the peak, the time."""
    base = largest(quickstart())
    training = replace(
        base.training,
        context=scale.context,
        batch_tokens=scale.batch_tokens,
        warmup_tokens=scale.batch_tokens,
        microbatch_tokens=None,
    )
    for shape in PRESETS.values():
        spec = replace(base, model=shape, training=training)
        if 3 * flops_of(spec) <= peak * scale.step_seconds and _fits(spec, device):
            yield spec


def flops_of(spec: RunSpec) -> int:
    """Of a step."""
    training, vocabulary = spec.training, spec.tokenizer.vocab_size
    of_token = flops_per_token(spec.model, vocab_size=vocabulary, context=training.context)
    return of_token * training.batch_tokens


def _fits(spec: RunSpec, device: torch.device) -> bool:
    try:
        return not needs_checkpoints(spec, device)
    except InputError:
        return False


def _table(setting: Setting, scale: Scale, threads: int | None) -> Table:
    recipes = recipes_on(setting.device)
    if setting.quick:
        recipes = {name: recipes[name] for name in ("bf16", "ufp4")}
    rows: list[Row] = []
    with cpu_threads(threads):
        product, flops = _product(scale.side, setting.device)
        alone = compare(
            {PRODUCT: product}, baseline=PRODUCT, rounds=9, min_seconds=0.0, device=setting.device
        )
        rate = flops / min(alone.by_round[PRODUCT])
        for spec in runs(scale, setting.device, rate):
            steps = {name: each.step for name, each in trainees(spec, recipes).items()}
            expected = 3 * flops_of(spec) / rate * 2 * len(steps)
            comparison = compare(
                {**steps, PRODUCT: product},
                baseline="bf16",
                rounds=max(3, min(21, round(scale.seconds / expected))),
                min_seconds=0.0,
                device=setting.device,
            )
            peak = peak_flops(setting.device) if setting.device.type == "cuda" else None
            peak = peak or flops / min(comparison.by_round[PRODUCT])
            rows += _rows(spec, recipes, threads, peak, comparison)
    where = "" if threads is None else f", {plural(threads, 'thread')}"
    title = f"Training steps of {scale.batch_tokens} tokens, context {scale.context}{where}"
    return Table(title=title, columns=COLUMNS, rows=tuple(rows))


def _product(side: int, device: torch.device) -> tuple[Callable[[], object], int]:
    """A square BF16 product by torch, and its FLOPs."""
    x, y = torch.randn(2, side, side, device=device).to(torch.bfloat16)
    return lambda: torch.mm(x, y), 2 * side**3


def _rows(
    spec: RunSpec,
    recipes: dict[str, Recipe],
    threads: int | None,
    peak: float,
    comparison: Comparison,
) -> Iterator[Row]:
    flops, tokens = flops_of(spec), spec.training.batch_tokens
    for name, recipe in recipes.items():
        seconds = comparison.seconds(name)
        yield {
            "preset": spec.model.name,
            "N": non_embedding_parameters(spec.model),
            "flops": flops,
            "tokens": tokens,
            "context": spec.training.context,
            "threads": threads,
            "recipe": recipe.name,
            "tokens_per_second": round(tokens / seconds.median),
            "mfu": float(f"{flops / (seconds.median * peak):.4g}"),
            "peak": float(f"{peak:.4g}"),
            "seconds": spread_fields(seconds),
            "ratio": spread_fields(comparison.ratio(name)),
        }
