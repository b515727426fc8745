"""Dynamic loss scaling: the rule by which the loss is multiplied before backward.

    gradient not finite       the step is skipped, factor *= backoff
    `interval` steps without  factor *= growth

Source: Mixed Precision Training (arXiv 1710.03740) leaves the rule open; these constants became
usual later.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LossScaling:
    """The rule's constants.

    Attributes:
        initial: The factor of the first step.
        growth: Above 1.
        backoff: Between 0 and 1.
        interval: Steps.

    Raises:
        ValueError: If the factor could not move both ways.
    """

    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        rules = {
            f"initial must be from 2**-24 to 2**127, got {self.initial}": (
                2.0**-24 <= self.initial <= 2.0**127
            ),
            f"growth must be above 1, got {self.growth}": self.growth > 1,
            f"backoff must lie between 0 and 1, got {self.backoff}": 0 < self.backoff < 1,
            f"interval must be at least 1, got {self.interval}": self.interval >= 1,
        }
        if broken := next((sentence for sentence, holds in rules.items() if not holds), None):
            raise ValueError(f"loss scaling: {broken}")
