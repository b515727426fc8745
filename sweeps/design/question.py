"""A quantity put to a layout: its expected interval, or why the layout does not determine it.

    half width = z sqrt(g' information^-1 g)      95 %, without the guess that helps the search

    gap at a place          cells that vary N and D apart
    loss at a place         the same inside their range; beyond it, cells that carry the law
    a constant of the law   cells that carry it

What `sweeps.fits.identifiability` refuses to a fit is refused here in the same words, so that no
plan promises what the fit of its runs would not say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from scipy import stats

from sweeps.design.guess import gradient, of_gaps, of_losses, value
from sweeps.design.information import Assumed, variance
from sweeps.design.layout import Layout
from sweeps.design.noise_level import NoiseLevel
from sweeps.design.suggested import Expected
from sweeps.design.wanted import Constant, Place, Term, Wanted
from sweeps.fits.identifiability import Design, Support, examine
from sweeps.fits.points import make_points
from sweeps.fits.target import LinearLoss
from sweeps.gaps.pair import GapTable
from sweeps.intervals import LEVEL
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, Law, at
from sweeps.measured import measured
from sweeps.records import RunRecord

GAP_FORMULA = "gap = c (N / N0)^a (D / D0)^b"
WIDEST = {Term.LOSS: 0.3, Term.GAP: 0.1}
"""Half widths, nats per token, from which on a prediction says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A quantity and what is reckoned with.

    Attributes:
        wanted: The quantity.
        assumed: Law, constants, noise and place.
        gradient: Of the quantity by theta, shape (p,).
        prior: Information of the guess, shape (p, p).
    """

    wanted: Wanted
    assumed: Assumed
    gradient: Array
    prior: Array

    @property
    def value(self) -> float:
        """The quantity at the constants that are reckoned with."""
        return value(self.assumed, self.wanted)

    @property
    def law(self) -> Law:
        """The law of losses that a design is asked for; where gaps are reckoned with, of BF16."""
        match self.assumed.model:
            case LinearLoss(law=law):
                return law
            case _:
                return Chinchilla(x0=0.0, y0=0.0)

    @property
    def formula(self) -> str:
        """Of the law that is reckoned with."""
        return GAP_FORMULA if self.assumed.is_of_gaps else self.law.formula

    def by_model(self, layout: Layout) -> Mapping[float, Array]:
        """Information of each model's endpoints, by N."""
        return {N: self.assumed.of_model(N, layout.points[N]) for N in sorted(layout.points)}

    def variance(self, information: Array) -> float:
        """Variance of the quantity; the guess counts where the information alone is singular."""
        alone = variance(information, self.gradient)
        return alone if isfinite(alone) else variance(self.prior + information, self.gradient)

    def refusal(self, layout: Layout) -> str:
        """Why no law can be read off the layout at the place; empty if one can."""
        design = design_of(layout, self.law)
        if design.support is Support.FULL:
            return ""
        match self.wanted.what:
            case Term.GAP:
                is_carried = design.support is Support.LOCAL
            case Term.LOSS:
                is_carried = design.support is Support.LOCAL and _holds(layout, self.assumed.place)
            case Constant():
                is_carried = False
        return "" if is_carried else "; ".join(design.reasons)

    def expected(self, layout: Layout) -> Expected:
        """What a layout is expected to tell."""
        reason, half = self.refusal(layout), None
        if not reason:
            told = sum(self.by_model(layout).values(), np.zeros_like(self.prior))
            half = float(stats.norm.ppf((1 + LEVEL) / 2)) * sqrt(variance(told, self.gradient))
            reason = self._too_wide(half)
        return Expected(
            half_width=None if reason else half, reason=reason, n_cells=len(layout.cells)
        )

    def _too_wide(self, half: float) -> str:
        if not isfinite(half):
            return "the cells do not determine every constant of the law"
        match self.wanted.what:
            case Term() as term if half > WIDEST[term]:
                return f"its interval would be wider than {WIDEST[term]:g} nats to each side"
            case Constant() if half > abs(self.value):
                return "its interval would reach zero"
            case _:
                return ""


def ask(
    wanted: Wanted,
    place: Place,
    records: Sequence[RunRecord],
    table: GapTable,
    number: Mapping[str, int],
    noise: NoiseLevel,
) -> Question:
    """A quantity, with constants from what is measured.

    Args:
        wanted: The quantity.
        place: Where it lies.
        records: Runs in any state.
        table: Their gaps.
        number: Arm of each recipe that counts.
        noise: Of runs.
    """
    if wanted.what is Term.GAP:
        mine = (gap for gap in table.gaps if gap.recipe == wanted.recipe)
        pairs = sorted(mine, key=lambda gap: (gap.N, gap.tokens, gap.seed))
        where = at([gap.N for gap in pairs], [gap.tokens for gap in pairs], 1)
        gaps = np.array([gap.gap for gap in pairs], dtype=np.float64)
        assumed, prior = of_gaps(place, where, gaps, noise)
    else:
        rows = sorted(
            (run.N, tokens, number[run.spec.recipe.name], point.loss)
            for run in records
            if run.spec.recipe.name in number
            for tokens in set(run.horizons)
            if (point := measured(run, tokens)) is not None
        )
        N, D, arm, losses = np.array(rows, dtype=np.float64).reshape(len(rows), 4).T
        places = at(N, D, arm.astype(np.intp))
        assumed, prior = of_losses(wanted, place, places, losses, noise)
    return Question(wanted=wanted, assumed=assumed, gradient=gradient(assumed, wanted), prior=prior)


def design_of(layout: Layout, law: Law) -> Design:
    """Which law the endpoints of a layout can carry, as a fit of their losses will judge."""
    rows = [
        (N, point.D, point.arm, f"{N:.0f} seed {point.seed}")
        for N in sorted(layout.points)
        for point in sorted(layout.points[N])
    ]
    N, D, arm, runs = zip(*rows, strict=True) if rows else ((), (), (), ())
    names = [("bf16", "quantized")[index] for index in arm]
    return examine(make_points(N, D, np.ones(len(rows)), arms=names, groups=runs), law)


def _holds(layout: Layout, place: Place) -> bool:
    """Whether the place lies inside the ranges of the cells."""
    cells = np.array(sorted(layout.cells)).reshape(-1, 2)
    if not len(cells):
        return False
    at_place = np.array([place.N, place.D])
    return bool(np.all((cells.min(axis=0) <= at_place) & (at_place <= cells.max(axis=0))))
