"""RunRecord: a run as data for pairing, fitting and drawing: its spec, what came of it, its curve.

N   non-embedding parameters        D   training tokens       L   validation loss, nats per token
C   training FLOPs along the path to an endpoint, D x FLOPs per token (forward and backward)
"""

from dataclasses import dataclass
from enum import StrEnum

from kernels.verdict import Preflight
from sweeps.metrics import Endpoint, StepMetrics
from sweeps.runspec import RunSpec


class Outcome(StrEnum):
    """What a reader of results needs to know of a run's state."""

    WAITING = "waiting"  # queued or running
    SUCCEEDED = "succeeded"
    DIVERGED = "diverged"  # a result
    FAILED = "failed"  # an accident
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run of a sweep.

    Attributes:
        spec: What was asked.
        N: Non-embedding parameters.
        flops_per_token: Forward and backward, exact count of the GEMMs and attention.
        horizons: Token budgets asked of the run by this sweep, ascending.
        outcome: What came of it.
        detail: Why, when it did not succeed; else empty.
        endpoints: Measured horizons, ascending.
        curve: Training metrics in the order of the run.
        preflight: What was found on the device of its newest attempt, None if nothing was yet.
    """

    spec: RunSpec
    N: int
    flops_per_token: float
    horizons: tuple[int, ...]
    outcome: Outcome
    detail: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    curve: tuple[StepMetrics, ...] = ()
    preflight: Preflight | None = None

    @property
    def run_id(self) -> str:
        """The spec's identity."""
        return self.spec.run_id

    def endpoint(self, horizon: int) -> Endpoint | None:
        """The endpoint measured at exactly this many tokens, if there is one."""
        return next((point for point in self.endpoints if point.tokens == horizon), None)
