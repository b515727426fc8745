"""Training: optimizer, schedule, batch and health of a run, as plain values.

Under warm-up–stable–decay (WSD) a horizon of D tokens leaves the trunk at D - cooldown tokens and
decays over the rest, so that one trunk serves all horizons. Under `cosine` a run has one horizon,
which is part of what it is. Standard library only: this also runs on a bare GPU node.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from sweeps.identity import COSMETIC, LATER


class Schedule(StrEnum):
    """How the learning rate moves after the warm-up."""

    WSD = "wsd"
    COSINE = "cosine"


class OptimizerKind(StrEnum):
    """`adamw` for all; `muon` for the matrices of the blocks, AdamW for the rest."""

    ADAMW = "adamw"
    MUON = "muon"


class Order(StrEnum):
    """What is shuffled in each epoch.

    `windows`: the documents stay in the order of the corpus, windows over them are shuffled.
    `documents`: the documents are shuffled and packed end to end, then the windows are.
    """

    WINDOWS = "windows"
    DOCUMENTS = "documents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """When a run has diverged although its numbers are finite.

    Attributes:
        loss_bound: Training loss of one step, nats per token, above which it has; None for none.
        spike: Nats per token by which the loss must exceed its lowest mean over `spike_steps`
            steps, at each of as many later steps in a row; None for no such look.
        spike_steps: Steps of that mean and of that row.
    """

    loss_bound: float | None = None
    spike: float | None = None
    spike_steps: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Optimizer and schedule.

    Attributes:
        context: Tokens in a sequence.
        batch_tokens: Tokens in an optimizer step, a multiple of the context.
        learning_rate: Peak, held through the stable phase.
        warmup_tokens: Linear warm-up, a multiple of `batch_tokens`.
        cooldown: Share of a horizon over which the rate falls linearly; of WSD only.
        weight_decay: Decoupled, on matrices but the embedding.
        beta1: First-moment decay of AdamW.
        beta2: Second-moment decay of AdamW.
        gradient_clip: Largest global gradient norm.
        schedule: How the rate moves.
        horizon: Of `cosine`: the one token budget; None for WSD.
        final_rate: Rate at a horizon as a share of the peak.
        optimizer: What moves the matrices.
        momentum: Of Muon.
        microbatch_tokens: Tokens of the equal parts whose gradients a step adds up, a multiple of
            the context and a divisor of the batch; None for the largest part of at most 32768.
            Blocks along the tokens and random draws depend on it, and it is the least that one of
            several GPUs takes.
        order: What is shuffled.
        max_epochs: Passes over the corpus above which a run is refused; changes no number.
    """

    context: int
    batch_tokens: int
    learning_rate: float
    warmup_tokens: int
    cooldown: float = 0.2
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    gradient_clip: float = 1.0
    schedule: Schedule = field(default=Schedule.WSD, metadata=LATER)
    horizon: int | None = field(default=None, metadata=LATER)
    final_rate: float = field(default=0.0, metadata=LATER)
    optimizer: OptimizerKind = field(default=OptimizerKind.ADAMW, metadata=LATER)
    momentum: float = field(default=0.95, metadata=LATER)
    microbatch_tokens: int | None = field(default=None, metadata=LATER)
    order: Order = field(default=Order.WINDOWS, metadata=LATER)
    max_epochs: int = field(default=4, metadata=COSMETIC)

    def branch_tokens(self, horizon: int) -> int:
        """Tokens at which the cooldown of a horizon leaves the trunk, on a step boundary.

        A cosine has no trunk of its own: its branch begins at 0.
        """
        if self.schedule is Schedule.COSINE:
            return 0
        cooldown_steps = max(1, round(horizon * self.cooldown / self.batch_tokens))
        return max(0, horizon - cooldown_steps * self.batch_tokens)
