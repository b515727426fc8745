"""What a plan says of each model: its parameters, its FLOPs, what recipes can gain, its memory.

Memory is that of the run of the model which takes most, on each of the ranks that `resources` gives
it; beside it the same where blocks keep their input alone and run twice, and the fewest GPUs of
DEVICE_BYTES that could hold it so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from kernels.recipes import Recipe
from sweeps.counts import (
    active_non_embedding_parameters,
    active_parameters,
    count_parameters,
    flops_per_token,
    non_embedding_parameters,
    six_n_flops_per_token,
)
from sweeps.memory import estimate, least_gpus
from sweeps.microbatches import microbatch_sequences
from sweeps.quantized_work import speedup
from sweeps.runspec import RunSpec
from sweeps.shapes import ModelShape

DEVICE_BYTES = 80 * 2**30
"""Of the GPU that a plan counts in: an H100 of 80 GiB."""


def model_facts(
    shape: ModelShape, recipes: Iterable[Recipe], runs: Sequence[RunSpec]
) -> dict[str, Any]:
    """All of it as plain values.

    Args:
        shape: The model.
        recipes: What it is trained under.
        runs: Its runs, at least one.
    """
    vocab_size, context = runs[0].tokenizer.vocab_size, runs[0].training.context
    return {
        **asdict(shape),
        "head_width": shape.head_width,
        "N": non_embedding_parameters(shape),
        "active_N": active_non_embedding_parameters(shape),
        "parameters": asdict(count_parameters(shape, vocab_size)),
        "active_parameters": asdict(active_parameters(shape, vocab_size)),
        "flops_per_token": flops_per_token(shape, vocab_size=vocab_size, context=context),
        "six_n_flops_per_token": six_n_flops_per_token(shape),
        "recipes": [
            _gain(shape, recipe, vocab_size=vocab_size, context=context)
            for recipe in recipes
            if recipe.is_quantized
        ],
        "memory": _memory(runs),
    }


def _gain(shape: ModelShape, recipe: Recipe, *, vocab_size: int, context: int) -> dict[str, Any]:
    gain = speedup(shape, recipe, vocab_size=vocab_size, context=context)
    return {
        "recipe": recipe.name,
        "quantized_share": gain.share,
        "gemm_speedups": gain.factors,
        "speedup_bound": gain.bound,
    }


def _memory(runs: Iterable[RunSpec]) -> dict[str, Any]:
    """Of the largest; runs that differ in seeds alone take the same."""
    kinds = {(run.recipe, run.training): run for run in runs}.values()
    needed, largest = max(
        ((estimate(run), run) for run in kinds), key=lambda pair: pair[0].total_bytes
    )
    return {
        **asdict(needed),
        "total_bytes": needed.total_bytes,
        "checkpointed_bytes": estimate(largest, checkpoints=True).total_bytes,
        "gpus": largest.resources.gpus,
        "microbatch_tokens": microbatch_sequences(largest) * largest.training.context,
        "device_bytes": DEVICE_BYTES,
        "least_gpus": least_gpus(largest, DEVICE_BYTES, checkpoints=True),
    }
