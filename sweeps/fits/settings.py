"""Settings of a fit: all that, with the points, decides its numbers.

`METHOD_VERSION` rises whenever the same points and settings would give other numbers.
"""

from dataclasses import dataclass
from enum import StrEnum

from sweeps.errors import InputError
from sweeps.fits.target import Residual
from sweeps.laws.joint import Effect

METHOD_VERSION = 4
AUTO = "auto"
RESAMPLES = 1000
MIN_RESAMPLES = 100


class Diverged(StrEnum):
    """What a diverged run does to a fit; it is listed in any case."""

    LEAVE_OUT = "leave out"  # its endpoint is not fitted: the law is of runs that converge
    DROP_CELL = "drop cell"  # nor is its (N, D) in any arm, so that arms share their cells
    REFUSE = "refuse"  # no law is fitted to a design that holds one


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How points are fitted.

    Attributes:
        law: A name of `sweeps.laws.registry`, or `auto`: what the design can carry.
        delta: Huber threshold in the unit of the residuals; None takes it from the data,
            infinite is least squares.
        residual: In which unit.
        effects: What each arm but the first has of its own, where there are several.
        diverged: What a diverged run does.
        resamples: Draws behind the intervals.
        seed: Of the draws.

    Raises:
        InputError: If delta is not positive or the draws are too few.
    """

    law: str = AUTO
    delta: float | None = None
    residual: Residual = Residual.LOG
    effects: tuple[Effect, ...] = (Effect.N, Effect.D)
    diverged: Diverged = Diverged.LEAVE_OUT
    resamples: int = RESAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        if self.delta is not None and not self.delta > 0:
            raise InputError(f"delta = {self.delta}: the Huber threshold must be positive")
        if self.resamples < MIN_RESAMPLES:
            raise InputError(
                f"resamples = {self.resamples}: a 95 % interval needs at least {MIN_RESAMPLES} "
                "draws"
            )
