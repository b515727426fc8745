"""What a training run reports while it goes: values that `train()` yields.

Losses are in nats per token. Tokens count from the start of training along the path that the
number belongs to: the trunk (`horizon` is None) or the cooldown branch of one horizon. A value may
be non-finite only in `Diverged`. Neither torch nor pydantic: this also runs on a bare GPU node.
"""

from dataclasses import dataclass

from kernels.quality import LayerQuality
from kernels.verdict import Preflight


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """Means over the optimizer steps since the last report.

    Attributes:
        horizon: Token budget of the cooldown branch, None on the trunk.
        step: Optimizer steps done along this path.
        tokens: Training tokens seen along this path.
        loss: Training loss, nats per token.
        learning_rate: Of the last step.
        gradient_norm: Global, before clipping, of steps that loss scaling did not skip; 0 if it
            skipped all.
        tokens_per_second: Since the last report.
        seconds: Training time of the whole run so far, over all attempts.
        update_ratio: Norm of the last step's change of all matrices over their own norm; None
            where it was not taken.
        mfu: Model FLOPs utilization since the last report: exact FLOPs of the model a second
            (`sweeps.counts`, attention whole, nothing recomputed) over the device's dense BF16
            peak, of a CPU over its measured BF16 GEMM rate; None where no peak is known.
        memory_bytes: Most memory that the process held so far, of a GPU its own; None if unknown.
        imbalance: Load of the busiest expert over the mean load, the worst block, in the last step;
            None for a dense model.
    """

    horizon: int | None
    step: int
    tokens: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float
    seconds: float
    update_ratio: float | None = None
    mfu: float | None = None
    memory_bytes: int | None = None
    imbalance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The measurement at exactly the planned token count; only these enter gaps and fits.

    Attributes:
        tokens: D, equal to the horizon.
        loss: Validation loss through the recipe's own forward pass, nats per token.
        loss_se: Its standard error over validation sequences.
        loss_bf16: The same weights through a BF16 forward pass.
        train_loss: Mean training loss over the last 5 % of tokens.
        eval_tokens: Validation tokens read.
        bytes_per_token: Of the validation text; bits per byte = loss / (ln 2 * bytes_per_token).
            None where the corpus holds ids whose bytes nobody told.
        unigram_entropy: Of the training tokens, nats per token: what a model without context
            could reach, so that a reader sees how much was learnt.
    """

    tokens: int
    loss: float
    loss_se: float
    loss_bf16: float
    train_loss: float
    eval_tokens: int
    bytes_per_token: float | None
    unigram_entropy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Diverged:
    """The run's result is that it does not train.

    Attributes:
        horizon: Token budget of the cooldown branch, None on the trunk.
        step: At which that was decided.
        tokens: Training tokens seen by then.
        detail: What happened, in a sentence.
        is_finite: Whether the numbers were finite and the loss left its `sweeps.training.Health`.
    """

    horizon: int | None
    step: int
    tokens: int
    detail: str
    is_finite: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the recipe does to the chosen layers at one step, in the order of the model."""

    horizon: int | None
    step: int
    tokens: int
    layers: tuple[LayerQuality, ...]


TrainEvent = StepMetrics | Endpoint | Diverged | Diagnosis | Preflight
