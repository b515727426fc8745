"""The two outcomes of looking for a partner: a gap, or the reason why there is none.

    gap      = L(recipe) - L(bf16)        nats per token, equal N, D and every other field
    relative = 100 gap / L(bf16)          percent of the baseline's loss

A positive gap means that BF16 is better.
"""

from dataclasses import dataclass
from enum import StrEnum


class Missing(StrEnum):
    """Why an endpoint asked of a run has no gap."""

    UNFINISHED = "unfinished"
    DIVERGED = "diverged"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ENDPOINT_MISSING = "endpoint missing"
    OVERSHOT = "over-shot"  # measured past the planned tokens, which is another D
    NO_BASELINE = "no baseline"
    BASELINE_UNFINISHED = "baseline unfinished"
    BASELINE_DIVERGED = "baseline diverged"
    BASELINE_FAILED = "baseline failed"
    BASELINE_CANCELLED = "baseline cancelled"
    BASELINE_ENDPOINT_MISSING = "baseline endpoint missing"
    BASELINE_OVERSHOT = "baseline over-shot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One endpoint of a run against the same endpoint of its baseline.

    Attributes:
        label: What tables call the run.
        model: Name of the model shape.
        N: Non-embedding parameters.
        recipe: Name of the recipe.
        seed: The `init` seed stream, as in the label.
        tokens: D of both endpoints.
        flops: C of the run up to this endpoint.
        cell: Identity of everything but recipe, seeds and tokens.
        run_id: The run.
        baseline_id: Its BF16 partner.
        loss: Validation loss of the run, nats per token.
        baseline_loss: Of the partner, nats per token.
    """

    label: str
    model: str
    N: int
    recipe: str
    seed: int
    tokens: int
    flops: float
    cell: str
    run_id: str
    baseline_id: str
    loss: float
    baseline_loss: float

    @property
    def gap(self) -> float:
        """L(recipe) - L(bf16), nats per token."""
        return self.loss - self.baseline_loss

    @property
    def relative(self) -> float:
        """The gap in percent of the baseline's loss."""
        return 100 * self.gap / self.baseline_loss

    @property
    def bf16_wins(self) -> bool:
        """Whether BF16 has the strictly lower loss."""
        return self.gap > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaired:
    """An endpoint asked of a quantized run that has no gap, and why."""

    label: str
    model: str
    N: int
    recipe: str
    seed: int
    tokens: int
    run_id: str
    reason: Missing
    detail: str = ""
