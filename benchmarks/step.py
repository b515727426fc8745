"""Training steps under a recipe against the same steps in BF16: forward, backward, optimizer.

    quickstart    the largest model of examples/quickstart.yaml, as its plan has it
    wide          the same sweep with a model 512 wide
    stack         on a GPU alone: blocks of 1e9 parameters under torch.compile (`benchmarks.stack`)

Every recipe trains a model of its own, a step of each in turn, as `workers.trainee` does it. On a
GPU the time of a step holds the host's, which launches it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from benchmarks.machine import machine
from benchmarks.models import largest, quickstart, recipes_on, trainees, wide
from benchmarks.results import SPREAD_LEGEND, Column, Result, Row, Setting, Table, spread_fields
from benchmarks.stack import SHAPE, TRAINING, bytes_needed, stack_trainee
from benchmarks.timing import Comparison, compare, cpu_threads
from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE, Precision, Recipe
from sweeps.counts import non_embedding_parameters
from sweeps.shapes import ModelShape
from sweeps.training import Training
from sweeps.wording import plural

LEGEND = {
    "model": "layers x width h heads",
    "N": "parameters beside embedding and head",
    "tokens": "of a step",
    "context": "tokens of a sequence",
    "threads": "CPU threads, null on a GPU",
    "recipe": "of the blocks; a width that is no multiple of its blocks is padded",
    "gemm": "what the products of quantized GEMMs are computed from",
    "seconds": "of one step",
    "milliseconds": "of one step, the median over the rounds",
    "ratio": "time over that of the bf16 step of the same round",
    **SPREAD_LEGEND,
}
COLUMNS = (
    Column("recipe", "recipe"),
    Column("gemm", "gemm"),
    Column("milliseconds", "ms/step", ".4g"),
    Column("ratio.median", "x bf16", ".3f"),
    Column("ratio.interval.0", "95 % low", ".3f"),
    Column("ratio.interval.1", "95 % high", ".3f"),
    Column("ratio.rounds", "rounds", "d"),
)
READING = (
    "x bf16: time of a step over that of the bf16 step of the same round, the median over the "
    "rounds and a 95 % interval of it. A step is forward, backward and optimizer."
)


def run(setting: Setting) -> Result:
    """Every model on the device."""
    found = machine(setting.device)
    tables = tuple(_trained(setting))
    if setting.device.type == "cuda":
        tables += (_stack(setting),)
    return Result(
        benchmark="step",
        machine=found,
        quick=setting.quick,
        tables=tables,
        reading=READING,
        legend=LEGEND,
    )


def _trained(setting: Setting) -> Iterator[Table]:
    """The example's models, in each number of threads."""
    recipes = recipes_on(setting.device)
    if setting.quick:
        recipes = {name: recipes[name] for name in ("bf16", "ufp4")}
    for title, spec, rounds in (
        ("The quickstart's largest model", quickstart(), 21),
        ("A model 512 wide", wide(), 9),
    ):
        run = largest(spec)
        if setting.quick:
            run = replace(run, training=replace(run.training, batch_tokens=run.training.context))
        for threads in (None,) if setting.device.type == "cuda" else setting.threads:
            with cpu_threads(threads):
                steps = {name: each.step for name, each in trainees(run, recipes).items()}
                comparison = _compared(steps, 3 if setting.quick else rounds, setting.device)
            yield _table(title, run.model, run.training, threads, recipes, comparison)


def _stack(setting: Setting) -> Table:
    """The large stack, if the GPU has room for it."""
    recipes = {"bf16": BF16_RECIPE}
    recipes |= {f"ufp4 {gemm}": replace(PRESETS["ufp4"], gemm=gemm) for gemm in Precision}
    title = "Blocks of 1e9 parameters under torch.compile"
    free, _ = torch.cuda.mem_get_info(setting.device)
    if free < bytes_needed(len(recipes)):
        note = f"Not run: takes {bytes_needed(len(recipes)) / 1e9:.0f} GB of memory."
        return Table(title=title, columns=COLUMNS, rows=(), note=note)
    steps = {
        name: stack_trainee(SHAPE, TRAINING, recipe, setting.device, compiled=True).step
        for name, recipe in recipes.items()
    }
    comparison = _compared(steps, 3 if setting.quick else 11, setting.device)
    return _table(title, SHAPE, TRAINING, None, recipes, comparison)


def _compared(
    steps: Mapping[str, Callable[[], object]], rounds: int, device: torch.device
) -> Comparison:
    return compare(steps, baseline="bf16", rounds=rounds, min_seconds=0.0, device=device)


def _table(
    title: str,
    shape: ModelShape,
    training: Training,
    threads: int | None,
    recipes: Mapping[str, Recipe],
    comparison: Comparison,
) -> Table:
    parameters = non_embedding_parameters(shape)

    def row(name: str, recipe: Recipe) -> Row:
        seconds = comparison.seconds(name)
        return {
            "model": shape.name,
            "N": parameters,
            "tokens": training.batch_tokens,
            "context": training.context,
            "threads": threads,
            "recipe": recipe.name,
            "gemm": recipe.gemm.value if recipe.is_quantized else None,
            "milliseconds": float(f"{1e3 * seconds.median:.4g}"),
            "seconds": spread_fields(seconds),
            "ratio": spread_fields(comparison.ratio(name)),
        }

    where = "" if threads is None else f", {plural(threads, 'thread')}"
    return Table(
        title=f"{title}: {shape.name}, N {parameters:,}, {training.batch_tokens} tokens{where}",
        columns=COLUMNS,
        rows=tuple(row(name, recipe) for name, recipe in recipes.items()),
    )
