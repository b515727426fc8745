"""What can be asked of the numerics process about a run; values that front doors share with it.

    RunQuestion    what a recipe does to the numbers in a run's checkpoint    RunQuality
    PtqQuestion    what casting a trained BF16 model costs                    PtqAnswer

PTQ is post-training quantization: the weights of a BF16 endpoint, cast by a recipe's fprop as they
are. Its cost stands beside the gap of training with the recipe:

    cost = L(cast) - L(bf16)    paired over the sequences of the held-out set, nats per token
    se   = standard deviation of the sequences' differences / sqrt(sequences)
"""

from dataclasses import dataclass
from typing import Literal

from kernels.quality import LayerQuality
from kernels.recipes import Recipe
from sweeps.runspec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """A run and where its files are.

    Attributes:
        spec: The run.
        folder: Its own, with its checkpoints.
        cache: Of tokenised corpora.
    """

    spec: RunSpec
    folder: str
    cache: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion:
    """The quality of a run's layers at its newest checkpoint.

    Attributes:
        run: Which.
        recipe: What the tensors are quantized by; the step itself follows the run's own recipe.
        layers: Globs on the names of linear layers.
        verb: Which question this is.
    """

    run: RunPlace
    recipe: Recipe
    layers: tuple[str, ...] = ("*",)
    verb: Literal["run"] = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuality:
    """The layers in the order of the model.

    Attributes:
        horizon: Token budget of the cooldown branch that the checkpoint is of, None on the trunk.
        step: Optimizer steps behind the checkpoint.
        tokens: Training tokens behind it.
        measured_step: The step, counted from 1, in which the layers were measured.
        layers: Their quality in it, and their weights' motion up to it.
    """

    horizon: int | None
    step: int
    tokens: int
    measured_step: int
    layers: tuple[LayerQuality, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PtqQuestion:
    """The cost of casting the endpoints of a BF16 run.

    Attributes:
        run: Which.
        horizons: Its measured token budgets.
        recipes: What the endpoints are cast by.
        weights_only: Whether activations stay as they are.
        trained: For some of the recipes the run that was trained with it and is like this one in
            everything else.
        verb: Which question this is.
    """

    run: RunPlace
    horizons: tuple[int, ...]
    recipes: tuple[Recipe, ...]
    weights_only: bool = False
    trained: tuple[RunPlace, ...] = ()
    verb: Literal["ptq"] = "ptq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of two losses, paired over sequences, nats per token, with its standard error."""

    mean: float
    se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CastEndpoint:
    """One endpoint under one recipe, all losses read anew.

    Attributes:
        tokens: D.
        recipe: Name of the recipe.
        loss_bf16: Of the endpoint as it was trained.
        loss: Of the endpoint when it is cast; None if it is no finite number.
        cost: `loss` less `loss_bf16`, likewise.
        trained: Loss of the run trained with the recipe less `loss_bf16`; None where there is no
            such run or it has not kept the weights of this endpoint.
    """

    tokens: int
    recipe: str
    loss_bf16: float
    loss: float | None
    cost: Difference | None
    trained: Difference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PtqAnswer:
    """Horizon by horizon, each with the recipes in the order in which they were asked.

    Attributes:
        sequences: Of the held-out set.
        eval_tokens: In them.
        weights_only: Whether activations stayed as they are.
        endpoints: What was found.
    """

    sequences: int
    eval_tokens: int
    weights_only: bool
    endpoints: tuple[CastEndpoint, ...]
