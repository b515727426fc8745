"""The answer of `next_cells`: what is known, what to run, and what will be known then."""

from dataclasses import dataclass
from enum import StrEnum

from sweeps.design.noise_level import NoiseLevel
from sweeps.design.wanted import Place


class Why(StrEnum):
    """What a run is for."""

    NARROWS = "narrows"  # takes most off the variance for its cost
    ANCHOR = "anchor"  # lies at the D/N asked about, near its N
    HOLD_OUT = "hold-out"  # is kept out of the fit, to test it


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a design is expected to tell of the quantity.

    Attributes:
        half_width: Of the 95 % interval; None where the design does not determine it.
        reason: Why it does not; else empty.
        n_cells: (N, D) with every arm.
    """

    half_width: float | None
    reason: str
    n_cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """The runs of one cell and seed.

    Attributes:
        model: Its name.
        N: Non-embedding parameters.
        D: Training tokens.
        seed: Of the runs.
        recipes: To run there; one that is measured or planned already is missing.
        flops: Of these runs, beside what is planned and suggested before them.
        why: What they are for.
        expected: With these runs and those of every suggestion before; a hold-out adds nothing.
    """

    model: str
    N: int
    D: int
    seed: int
    recipes: tuple[str, ...]
    flops: float
    why: Why
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCells:
    """The answer.

    Attributes:
        wanted: What was asked, as written.
        place: Where it lies; of a constant asked of no place, the largest cell of the sweep.
        guess: The quantity at the constants that are reckoned with.
        unit: Of the quantity and its half widths; empty for a constant of the law.
        law: Their formula.
        noise: Of runs.
        now: From what is measured.
        planned: When all that is planned is measured.
        after: When what is suggested is measured too.
        suggestions: In the order in which they help.
        budget: FLOPs that they may take.
        flops: FLOPs that they take.
        notes: What could not be had; sentences.
    """

    wanted: str
    place: Place
    guess: float
    unit: str
    law: str
    noise: NoiseLevel
    now: Expected
    planned: Expected
    after: Expected
    suggestions: tuple[Suggestion, ...]
    budget: float
    flops: float
    notes: tuple[str, ...]
