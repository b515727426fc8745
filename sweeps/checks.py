"""What must hold between the parts of a sweep: shapes, layers, budgets, and nothing twice.

Each check takes the values that the spec stands for and names the key that the user can change.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from kernels.presets import PRESETS
from kernels.recipes import Recipe
from sweeps.budget import LARGEST, Budget, Measure, format_tokens, resolve
from sweeps.corpus import Document, split
from sweeps.counts import flops_per_token, linear_layers, non_embedding_parameters
from sweeps.errors import Problem
from sweeps.meaning import meaning
from sweeps.runspec import Evaluation
from sweeps.shapes import ModelShape
from sweeps.training import Training

MIN_STEPS = 4
"""Fewest optimizer steps of a horizon: warm-up, a stable step, and a cooldown worth the name."""

MIN_EVAL_SEQUENCES = 2
"""Fewest held-out sequences: a standard error needs two."""

MAX_CELLS = 100_000


def check_shapes(shapes: Sequence[ModelShape]) -> Iterator[Problem]:
    """Heads must divide the width, and rotary embeddings need an even head width."""
    for index, shape in enumerate(shapes):
        if shape.width % shape.num_heads:
            yield Problem(
                key=f"models[{index}].width",
                value=str(shape.width),
                message=f"not divisible by heads = {shape.num_heads}",
            )
        elif shape.head_width % 2:
            yield Problem(
                key=f"models[{index}].heads",
                value=str(shape.num_heads),
                message=f"gives heads of width {shape.head_width}; rotary embeddings need it even",
            )


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


def check_batch(training: Training) -> Iterator[Problem]:
    """A batch holds whole sequences."""
    sequences, rest = divmod(training.batch_tokens, training.context)
    if rest:
        near = [count * training.context for count in (sequences, sequences + 1) if count]
        yield Problem(
            key="train.batch",
            value=f"{training.batch_tokens}tok",
            message=f"not a multiple of context = {training.context}; near it are "
            + " and ".join(f"{tokens}tok" for tokens in near),
        )


def check_evaluation(evaluation: Evaluation, context: int) -> Iterator[Problem]:
    """The held-out loss is a mean over whole sequences, and its error needs two of them."""
    least = MIN_EVAL_SEQUENCES * context
    if evaluation.tokens < least:
        yield Problem(
            key="eval.tokens",
            value=f"{evaluation.tokens}tok",
            message=f"needs at least two sequences of context = {context}, which is {least}tok",
        )


def check_corpus(
    documents: Sequence[Document], evaluation: Evaluation, training: Training
) -> Iterator[Problem]:
    """Each side of the split must hold what is asked of it.

    A document has at most a token for each byte and a separator; byte tokens are exactly as many.

    Raises:
        InputError: If the split leaves a side empty.
    """
    train, held_out = (
        sum(len(document.text) + 1 for document in side)
        for side in split(documents, evaluation.held_out)
    )
    if train <= training.batch_tokens:
        yield Problem(
            key="train.batch",
            value=f"{training.batch_tokens}tok",
            message=f"the corpus has at most {train} training tokens, fewer than one batch and its "
            "last target",
        )
    context = training.context
    asked, there = evaluation.tokens // context, (held_out - 1) // context
    if asked > there:
        yield Problem(
            key="eval.tokens",
            value=f"{evaluation.tokens}tok",
            message=f"the documents that held_out = {evaluation.held_out} leaves for validation "
            f"have at most {there * context} tokens in whole sequences",
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


def check_budgets(
    budgets: Sequence[Budget],
    shapes: Sequence[ModelShape],
    trainings: Sequence[Training],
    vocab_size: int,
) -> Iterator[Problem]:
    """A horizon is bounded, needs a few steps, and does not cool down inside the warm-up."""
    for index, budget in enumerate(budgets):
        for shape, training in zip(shapes, trainings, strict=True):
            horizon = resolve(
                budget,
                N=non_embedding_parameters(shape),
                flops_per_token=flops_per_token(
                    shape, vocab_size=vocab_size, context=training.context
                ),
                batch_tokens=training.batch_tokens,
            )
            message = _unfit(horizon, training)
            if message:
                yield Problem(
                    key=f"budgets[{index}]",
                    value=budget.text,
                    message=f"is {format_tokens(horizon)} for model {shape.name}, {message}",
                )
                break


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


def _unfit(horizon: int, training: Training) -> str:
    if horizon > LARGEST[Measure.TOKENS]:
        return f"above the {format_tokens(LARGEST[Measure.TOKENS])} that a budget has at most"
    steps = horizon // training.batch_tokens
    if steps < MIN_STEPS:
        return f"{steps} of the {MIN_STEPS} optimizer steps that a budget needs at least"
    trunk = training.branch_tokens(horizon)
    if trunk < training.warmup_tokens:
        return (
            f"and its cooldown would start at {format_tokens(trunk)}, inside the warm-up of "
            f"{format_tokens(training.warmup_tokens)}"
        )
    return ""
