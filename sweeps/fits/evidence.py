"""What stands beside the constants of a fit: how well the form does, what is odd, what is absent.

    aicc = l + 2 k + 2 k (k + 1) / (n - k - 1),   bic = l + k ln n,   k = constants + 1 (the scale)
    l    = min over s of 2 n ln s + 2 sum_i H_k(r_i / s)

H_k is the Huber loss with its threshold at 1.345 s, or the square where the fit is by least
squares; s is the scale of the residuals r. The threshold moves with s, so that the criteria of two
forms are of one likelihood whatever delta their searches used. Errors of held-out sizes are
relative, Lhat / L - 1.

Sources: Huber 1964 for the density; Hurvich and Tsai 1989 for the small-sample correction.
"""

from dataclasses import dataclass
from enum import StrEnum


class Absence(StrEnum):
    """What a policy for diverged runs knows, of the reasons why an endpoint is not fitted."""

    DIVERGED = "diverged"
    DIVERGED_CELL = "its cell holds a diverged run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """An endpoint that was planned or read, and is not fitted.

    Attributes:
        label: For people: its run, or its row in a file.
        N: Parameters.
        tokens: Training tokens.
        arm: Name of the arm it would belong to.
        reason: Why it is absent: an `Absence`, or the word that its sweep or file has for it.
    """

    label: str
    N: float
    tokens: float
    arm: str
    reason: str

    @property
    def is_diverged(self) -> bool:
        """Whether its run left the finite numbers, which the policy of a fit decides on."""
        return self.reason == Absence.DIVERGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A point further from the law than 4 robust standard deviations.

    Attributes:
        row: Its index in the columns that the points were made from.
        N: Parameters.
        D: Tokens.
        arm: Name of the arm.
        loss: Nats per token.
        residual: ln Lhat - ln L (or Lhat - L) in robust standard deviations, as `Solution.noise`.
    """

    row: int
    N: float
    D: float
    arm: str
    loss: float
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """One rung of sizes predicted by the fit of all smaller ones.

    Attributes:
        N: The largest size of the rung left out.
        n_fitted: Points on smaller sizes.
        n_predicted: Points of the rung.
        error: Root mean square of Lhat / L - 1 over them.
        se: Standard error of the error over these points; of one point, the root mean square of
            the relative errors on the points fitted.
    """

    N: float
    n_fitted: int
    n_predicted: int
    error: float
    se: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """How one form does on a set of points.

    Attributes:
        law: Its name.
        n_constants: Constants that the search could move.
        n_points: Points fitted.
        objective: Sum of the Huber loss at the optimum.
        rms: Root mean square of the residuals.
        aicc: Corrected Akaike criterion; None with too few points for the correction.
        bic: Bayesian criterion.
        held_out: Root mean square relative error on the largest rung of sizes, left out of the
            fit; None where the smaller sizes determine no law.
        held_out_se: Its standard error, as in `HeldOut`.
        rolling: Every rung that its smaller ones can predict, ascending; the last is `held_out`.
    """

    law: str
    n_constants: int
    n_points: int
    objective: float
    rms: float
    aicc: float | None
    bic: float
    held_out: float | None
    held_out_se: float | None
    rolling: tuple[HeldOut, ...]
