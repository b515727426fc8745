"""Records as a finished sweep would leave them: losses from a known law, curves that end on them.

    L(N, D) = 1.1 + 25 / N^0.35 + 420 / D^0.42, times a factor for each recipe, plus seed noise

Sizes, budgets and losses are those of byte-level models of some ten thousand parameters.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sin

from kernels.presets import PRESETS
from kernels.recipes import BF16_RECIPE, Recipe
from sweeps.metrics import Endpoint, StepMetrics
from sweeps.records import Outcome, RunRecord
from sweeps.runspec import Evaluation, RunSpec, Seeds
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusKind, CorpusRef, TokenizerRef
from sweeps.training import Training

SIZES = {"tiny": (2, 32, 26_000), "small": (3, 64, 98_304), "medium": (4, 96, 294_912)}
PENALTY = {"bf16": 1.0, "ufp4": 1.012, "e2m1-ref": 1.021, "e4m3": 1.001}
BUDGETS = (1_048_576, 2_097_152)
QUANTIZED = (PRESETS["e2m1-ref"], PRESETS["ufp4"])
ENTROPY = 3.2071

CORPUS = CorpusRef(
    name="stdlib",
    kind=CorpusKind.STDLIB,
    path="",
    fingerprint="9f2c4e1ab0d35c77" * 4,
    num_bytes=31_457_280,
    num_documents=1_714,
)
TRAINING = Training(context=128, batch_tokens=8192, learning_rate=0.004, warmup_tokens=81_920)


def law(size: int, tokens: int, recipe: str, seed: int = 0) -> float:
    """The loss that a record ends on; the noise is a fixed function of the arguments."""
    wobble = ((size * 7 + tokens * 3 + seed * 101 + len(recipe) * 13) % 17 - 8) / 8 * 0.004
    smooth: float = 1.1 + 25 / size**0.35 + 420 / tokens**0.42
    return smooth * PENALTY.get(recipe, 1.03) + wobble


def spec(
    recipe: Recipe = BF16_RECIPE, *, model: str = "small", seed: int = 0, title: str = ""
) -> RunSpec:
    """A spec of one of the sizes; `title` replaces the model's name."""
    layers, width, _ = SIZES[model]
    return RunSpec(
        model=ModelShape(
            name=title or model,
            num_layers=layers,
            width=width,
            num_heads=2,
            mlp_width=3 * width,
        ),
        recipe=recipe,
        corpus=CORPUS,
        tokenizer=TokenizerRef(),
        training=TRAINING,
        evaluation=Evaluation(held_out=0.05, tokens=131_072),
        seeds=Seeds(init=seed, data=seed, sr=seed, rht=seed),
    )


def finished(
    recipe: Recipe = BF16_RECIPE,
    *,
    model: str = "small",
    seed: int = 0,
    budgets: Sequence[int] = BUDGETS,
    title: str = "",
) -> RunRecord:
    """A run that reached all of its horizons."""
    asked = spec(recipe, model=model, seed=seed, title=title)
    size = SIZES[model][2]
    ends = [law(size, D, recipe.name, seed) for D in budgets]
    trunk = [
        _point(asked, None, steps * TRAINING.batch_tokens, _stable(size, steps, recipe.name, seed))
        for steps in range(4, asked.branch_tokens(budgets[-1]) // TRAINING.batch_tokens + 1, 4)
    ]
    branches = [
        point
        for D, end in zip(budgets, ends, strict=True)
        for point in _cooldown(asked, D, trunk, end)
    ]
    return RunRecord(
        spec=asked,
        N=size,
        flops_per_token=6.0 * size + 12.0 * SIZES[model][0] * SIZES[model][1] * 128,
        horizons=tuple(budgets),
        outcome=Outcome.SUCCEEDED,
        endpoints=tuple(_endpoint(D, end) for D, end in zip(budgets, ends, strict=True)),
        curve=(*trunk, *branches),
    )


def diverged(recipe: Recipe, *, model: str = "small", seed: int = 0) -> RunRecord:
    """A run that stopped on its trunk with a NaN."""
    whole = finished(recipe, model=model, seed=seed)
    return replace(
        whole,
        outcome=Outcome.DIVERGED,
        detail="loss is nan at step 61 of the trunk",
        endpoints=(),
        curve=whole.curve[:12],
    )


def sweep(
    recipes: Sequence[Recipe] = QUANTIZED,
    *,
    models: Sequence[str] = tuple(SIZES),
    seeds: Sequence[int] = (0,),
    budgets: Sequence[int] = BUDGETS,
) -> tuple[RunRecord, ...]:
    """Every cell finished, baselines among them."""
    return tuple(
        finished(recipe, model=model, seed=seed, budgets=budgets)
        for model in models
        for seed in seeds
        for recipe in (BF16_RECIPE, *recipes)
    )


def _endpoint(tokens: int, loss: float) -> Endpoint:
    return Endpoint(
        tokens=tokens,
        loss=loss,
        loss_se=0.0061,
        loss_bf16=loss - 0.002,
        train_loss=loss - 0.03,
        eval_tokens=131_072,
        bytes_per_token=1.0,
        unigram_entropy=ENTROPY,
    )


def _stable(size: int, steps: int, recipe: str, seed: int) -> float:
    tokens = steps * TRAINING.batch_tokens
    smooth: float = 1.1 + 25 / size**0.35 + 470 / (tokens + 40_000) ** 0.42
    return smooth * PENALTY.get(recipe, 1.03) * (1.03 + 0.012 * sin(1.7 * steps + seed))


def _cooldown(
    asked: RunSpec, horizon: int, trunk: list[StepMetrics], end: float
) -> list[StepMetrics]:
    first = asked.branch_tokens(horizon)
    start = [point.loss for point in trunk if point.tokens <= first][-1]
    batch = TRAINING.batch_tokens
    return [
        _point(asked, horizon, tokens, start + (end - start) * (tokens - first) / (horizon - first))
        for tokens in range(first + 2 * batch, horizon + 1, 2 * batch)
    ]


def _point(asked: RunSpec, horizon: int | None, tokens: int, loss: float) -> StepMetrics:
    return StepMetrics(
        horizon=horizon,
        step=tokens // asked.training.batch_tokens,
        tokens=tokens,
        loss=loss,
        learning_rate=asked.training.learning_rate,
        gradient_norm=0.7,
        tokens_per_second=90_000.0,
        seconds=tokens / 90_000,
    )
