"""What must hold between the parts of a sweep: layers, budgets, and nothing twice.

Each check takes the values that the spec stands for and names the key that the user can change.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from kernels.presets import PRESETS
from kernels.recipes import Recipe
from sweeps.budget import LARGEST, Measure, format_tokens
from sweeps.counts import linear_layers
from sweeps.errors import Problem
from sweeps.horizons import Horizon
from sweeps.meaning import meaning
from sweeps.microbatches import microbatches
from sweeps.runspec import Evaluation, Resources, RunSpec
from sweeps.shapes import ModelShape
from sweeps.training import OptimizerKind, Schedule, Training

MIN_STEPS = 4
"""Fewest optimizer steps of a horizon: warm-up, a stable step, and a cooldown worth the name."""

MIN_EVAL_SEQUENCES = 2
"""Fewest held-out sequences: a standard error needs two."""

MAX_CELLS = 100_000


def check_distinct(
    keys: Sequence[str], values: Sequence[Hashable], texts: Sequence[str]
) -> Iterator[Problem]:
    """No two entries may be the same thing, nor different things of one name.

    Args:
        keys: Where each entry stands.
        values: What it means.
        texts: What it is called.
    """
    meant: dict[Hashable, str] = {}
    called: dict[str, str] = {}
    for key, value, text in zip(keys, values, texts, strict=True):
        if meant.setdefault(value, key) != key:
            message = f"is the same as {meant[value]}"
            yield Problem(key=key, value=text, message=message)
        elif called.setdefault(text, key) != key:
            message = f"names {called[text]} as well; give one of them another name"
            yield Problem(key=f"{key}.name", value=text, message=message)


def numbered(key: str, entries: Sequence[object]) -> list[str]:
    """`models[0]`, `models[1]`, ..."""
    return [f"{key}[{index}]" for index in range(len(entries))]


def check_reserved(recipes: Sequence[Recipe]) -> Iterator[Problem]:
    """A preset's name means the preset; results under it must not come from something else."""
    for index, recipe in enumerate(recipes):
        preset = PRESETS.get(recipe.name)
        if preset is not None and meaning(preset) != meaning(recipe):
            yield Problem(
                key=f"recipes[{index}].name",
                value=recipe.name,
                message="is the name of a preset that means something else",
            )


def check_batch(trainings: Sequence[Training]) -> Iterator[Problem]:
    """A batch and its parts hold whole sequences, and a batch whole parts."""
    batches = dict.fromkeys(training.batch_tokens for training in trainings)
    training = trainings[0]
    context, part = training.context, training.microbatch_tokens
    uneven = next((batch for batch in batches if batch % context), None)
    if part is not None and part % context:
        yield _not_multiple("train.microbatch", part, context, f"context = {context}")
    elif uneven is not None:
        yield _not_multiple("train.batch", uneven, context, f"context = {context}")
    elif part is not None:
        for batch in batches:
            if batch % part:
                yield _not_multiple("train.batch", batch, part, f"microbatch = {part}tok")


def _not_multiple(key: str, tokens: int, unit: int, unit_text: str) -> Problem:
    units = tokens // unit
    near = [f"{count * unit}tok" for count in (units, units + 1) if count]
    return Problem(
        key=key,
        value=f"{tokens}tok",
        message=f"not a multiple of {unit_text}, as {' and '.join(near)} would be",
    )


def check_resources(resources: Resources) -> Iterator[Problem]:
    """A run that takes several GPUs shares none of them."""
    if resources.pack and resources.gpus > 1:
        yield Problem(
            key="resources.pack",
            value="true",
            message=f"several runs share one GPU only where a run takes one, and gpus = "
            f"{resources.gpus}",
        )


def check_ranks(runs: Iterable[RunSpec]) -> Iterator[Problem]:
    """The GPUs of a run share out the parts of its steps evenly; the first run that cannot."""
    for run in runs:
        gpus, parts = run.resources.gpus, microbatches(run)
        if parts % gpus:
            yield Problem(
                key="resources.gpus",
                value=str(gpus),
                message=f"must divide the parts of a step, of which {run.label} has {parts}; "
                "train.microbatch says how many tokens each has",
            )
            return


def check_unread(training: Training, chosen: Collection[str]) -> Iterator[Problem]:
    """A key that neither schedule nor optimizer reads was meant for another one.

    Args:
        training: Of any model.
        chosen: Keys of `train` that are not at their default.
    """
    unread = (
        ("cooldown", training.schedule is Schedule.COSINE, "a cosine has no cooldown"),
        (
            "momentum",
            training.optimizer is OptimizerKind.ADAMW,
            "it is that of muon; what adamw has is beta1",
        ),
    )
    for key, is_unread, reason in unread:
        if is_unread and key in chosen:
            value = str(getattr(training, key))
            yield Problem(key=f"train.{key}", value=value, message=f"is not read: {reason}")


def check_evaluation(evaluation: Evaluation, context: int) -> Iterator[Problem]:
    """The held-out loss is a mean over whole sequences, and its error needs two of them."""
    least = MIN_EVAL_SEQUENCES * context
    if evaluation.tokens < least:
        yield Problem(
            key="eval.tokens",
            value=f"{evaluation.tokens}tok",
            message=f"needs at least two sequences of context = {context}, which is {least}tok",
        )


def check_globs(
    shapes: Sequence[ModelShape], globs: Mapping[str, Sequence[str]]
) -> Iterator[Problem]:
    """A glob that matches no layer of any model is a typing error.

    Args:
        shapes: The models.
        globs: By the key that they stand under.
    """
    names = {layer.name for shape in shapes for layer in linear_layers(shape)}
    distinct = {pattern for patterns in globs.values() for pattern in patterns}
    matching = {glob for glob in distinct if any(fnmatchcase(name, glob) for name in names)}
    for key, patterns in globs.items():
        for pattern in patterns:
            if pattern not in matching:
                yield Problem(
                    key=key,
                    value=pattern,
                    message="matches no layer; layers are called as in blocks.0.attention.query "
                    "and blocks.0.mlp.down",
                )


def check_exemptions(shapes: Sequence[ModelShape], recipes: Sequence[Recipe]) -> Iterator[Problem]:
    """A recipe quantizes a layer of every model, so that it is not BF16 under another name."""
    exempt: dict[int, str] = {}
    for shape in shapes:
        names = [layer.name for layer in linear_layers(shape)]
        for index, recipe in enumerate(recipes):
            quantizes = any(recipe.quantizes(name, shape.num_layers) for name in names)
            if recipe.is_quantized and not quantizes:
                exempt.setdefault(index, shape.name)
    for index, model in sorted(exempt.items()):
        yield Problem(
            key=f"recipes[{index}]",
            value=recipes[index].name,
            message=f"exempts every layer of model {model}, so it quantizes nothing",
        )


def check_budgets(horizons: Mapping[str, Sequence[Horizon]]) -> Iterator[Problem]:
    """A horizon is bounded, needs a few steps, and does not cool down inside the warm-up.

    Args:
        horizons: Of each budget in order, by the name of the model.
    """
    reported: set[int] = set()
    for model, of_model in horizons.items():
        for index, horizon in enumerate(of_model):
            message = _unfit(horizon)
            if message and index not in reported:
                reported.add(index)
                yield Problem(
                    key=f"budgets[{index}]",
                    value=horizon.budget.text,
                    message=f"is {format_tokens(horizon.tokens)} for model {model}, {message}",
                )


def check_size(models: int, recipes: int, budgets: int, seeds: int) -> Problem | None:
    """The product of the axes is bounded."""
    cells = models * recipes * budgets * seeds
    if cells <= MAX_CELLS:
        return None
    return Problem(
        key="sweep spec",
        value=f"{models} models x {recipes} recipes x {budgets} budgets x {seeds} seeds",
        message=f"makes {cells} cells; at most {MAX_CELLS} can be planned at once",
    )


def _unfit(horizon: Horizon) -> str:
    tokens, training = horizon.tokens, horizon.training
    if tokens > LARGEST[Measure.TOKENS]:
        return f"above the {format_tokens(LARGEST[Measure.TOKENS])} that a budget has at most"
    steps = tokens // training.batch_tokens
    if steps < MIN_STEPS:
        return f"{steps} of the {MIN_STEPS} optimizer steps that a budget needs at least"
    warmup = f"the warm-up of {format_tokens(training.warmup_tokens)}"
    trunk = training.branch_tokens(tokens)
    match training.schedule:
        case Schedule.WSD if trunk < training.warmup_tokens:
            return f"and its cooldown would start at {format_tokens(trunk)}, inside {warmup}"
        case Schedule.COSINE if tokens <= training.warmup_tokens:
            return f"no longer than {warmup}"
        case _:
            return ""
