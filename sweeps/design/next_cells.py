"""Which cells to run next for the narrowest interval on a quantity.

    greedy     the steps of least variance for the FLOPs (`greedy`), up to `MOST_STEPS`
    anchor     one cell at the D/N asked about, of at least a tenth of its N, before them
    hold-out   a size that no other step touches, else a cell, to test the prediction of the fit

The variance holds what a law misses far from the place asked about (`information`), so that the
smallest and shortest runs do not win on the law's word alone; the other two rules stand for what no
variance knows of (Box and Draper 1959 on designs that trust their model).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from sweeps.budget import format_flops, format_tokens
from sweeps.design.candidates import Candidate, candidates
from sweeps.design.greedy import best_steps
from sweeps.design.layout import Layout, Step, layouts
from sweeps.design.noise_level import NoiseLevel
from sweeps.design.question import Question, ask
from sweeps.design.subject import arms_of, diverged, flops_of, largest, most_tokens
from sweeps.design.suggested import NextCells, Suggestion, Why
from sweeps.design.wanted import Term, Wanted, to_spend
from sweeps.gaps.pair import pair
from sweeps.records import RunRecord
from sweeps.spec import SweepSpec
from sweeps.wording import plural

MOST_STEPS = 20
ANCHOR_SHARE = 0.5
HOLD_OUT_SHARE = 0.2
"""Shares of the FLOPs that the two may take."""

NEAR = 10.0
"""Times that the anchor may be smaller than the N asked about."""

SAME_RATIO = 1.25
BEYOND = 10.0
"""Times that a model may be larger than the N asked about, for a constant, which has no place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    step: Step
    why: Why
    layout: Layout


def next_cells(
    wanted: Wanted,
    spec: SweepSpec,
    records: Sequence[RunRecord],
    noise: NoiseLevel,
    budget: float | None = None,
) -> NextCells:
    """The cells that narrow the interval of a quantity most for their cost.

    Args:
        wanted: The quantity.
        spec: Of the sweep, whose rules new runs follow.
        records: Its runs, in any state.
        noise: Of runs.
        budget: FLOPs to spend; by default those of the sweep.

    Raises:
        InputError: If the quantity is of no recipe of the sweep, or the budget is not positive.
    """
    arms = arms_of(wanted, spec)
    number = {name: index for index, names in enumerate(arms) for name in names}
    place = wanted.place or largest(records)
    flops = flops_of(records) if budget is None else to_spend(budget)
    done, planned = layouts(records, arms, [seeds.init for seeds in spec.all_seeds()])
    question = ask(wanted, place, records, pair(records), number, noise)
    shut = diverged(records, number)
    times = 1.0 if isinstance(wanted.what, Term) else BEYOND
    found = candidates(spec, place, times)
    most = most_tokens(records, spec)
    open_cells = tuple(one for one in found if (one.N, one.D) not in shut and one.D <= most)
    taken, notes = _Search(question=question, candidates=open_cells, budget=flops).steps(planned)
    if any(one.D > most for one in found):
        notes.append(
            f"Cells of more than {format_tokens(int(most))} are left out: the corpus has no more "
            f"in {plural(spec.train.max_epochs, 'epoch')}."
        )
    if shut:
        notes.append(f"{plural(len(shut), 'cell')} where a run diverged: not suggested again.")
    names = [names[0] for names in arms]
    return NextCells(
        wanted=wanted.text,
        place=place,
        guess=question.value,
        unit="nats per token" if isinstance(wanted.what, Term) else "",
        law=question.formula,
        noise=noise,
        now=question.expected(done),
        planned=question.expected(planned),
        after=question.expected(taken[-1].layout if taken else planned),
        suggestions=tuple(_suggestion(one, names, question) for one in taken),
        budget=flops,
        flops=sum(one.step.flops for one in taken),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The greedy choice between the anchor and the hold-out."""

    question: Question
    candidates: tuple[Candidate, ...]
    budget: float

    def steps(self, layout: Layout) -> tuple[list[_Taken], list[str]]:
        """The steps in order, and what could not be had."""
        taken: list[_Taken] = []
        notes: list[str] = []

        def take(steps: Iterable[Step], why: Why) -> None:
            nonlocal layout
            for step in steps:
                layout = layout if why is Why.HOLD_OUT else layout.after(step)
                taken.append(_Taken(step=step, why=why, layout=layout))

        def left() -> float:
            return self.budget - sum(one.step.flops for one in taken)

        if not any(self._is_near(N, D) for N, D in layout.cells):
            if (anchor := self._anchor(layout)) is None:
                notes.append(self._no_anchor(layout))
            else:
                take([anchor], Why.ANCHOR)
        kept = HOLD_OUT_SHARE * self.budget
        most = MOST_STEPS - len(taken) - 1
        first = best_steps(self.question, layout, self.candidates, left() - kept, most)
        take(first, Why.NARROWS)
        held = self._hold_out(layout, kept)
        if held is None:
            notes.append(
                f"No other cell costs at most {100 * HOLD_OUT_SHARE:.0f} % of the budget, so none "
                "is held out to test the fit."
            )
        else:
            take([held], Why.HOLD_OUT)
        free = [one for one in self.candidates if held is None or not _is_of(one, held, layout)]
        most = MOST_STEPS - len(taken)
        take(best_steps(self.question, layout, free, left(), most), Why.NARROWS)
        return taken, notes

    def _anchor(self, layout: Layout) -> Step | None:
        near = [layout.step(one) for one in self.candidates if self._is_near(one.N, one.D)]
        paid = [step for step in near if step.flops <= ANCHOR_SHARE * self.budget]
        return min(paid, key=lambda step: step.flops, default=None)

    def _hold_out(self, layout: Layout, budget: float) -> Step | None:
        """The cell nearest to the place of a size without endpoints, else without them itself."""
        new = [one for one in self.candidates if (one.N, one.D) not in layout.cells]
        paid = [step for one in new if (step := layout.step(one, is_alone=True)).flops <= budget]
        distance = self.question.assumed.distance
        return min(
            paid,
            key=lambda step: (
                float(step.candidate.N) in layout.points,
                distance(step.candidate.N, step.candidate.D),
            ),
            default=None,
        )

    def _is_near(self, N: float, D: float) -> bool:
        place = self.question.assumed.place
        ratio = abs(log(D / N * place.N / place.D))
        return N * NEAR >= place.N * (1 - 1e-9) and ratio <= log(SAME_RATIO)

    def _no_anchor(self, layout: Layout) -> str:
        place = self.question.assumed.place
        near = [layout.step(one) for one in self.candidates if self._is_near(one.N, one.D)]
        price = (
            f"the cheapest takes {format_flops(min(step.flops for step in near))}, more than half "
            "of the budget"
            if near
            else "neither ladder nor corpus has one"
        )
        return (
            f"No cell at D/N = {place.D / place.N:.3g} with N of at least {place.N / NEAR:.3g} can "
            f"be had: {price}. Beyond the cells the figures rest on the form of the law."
        )


def _is_of(one: Candidate, held: Step, layout: Layout) -> bool:
    """Whether a cell is of the size that is held out, or that cell where the size is in use."""
    same_size = one.N == held.candidate.N
    return same_size and (float(one.N) not in layout.points or one.D == held.candidate.D)


def _suggestion(taken: _Taken, names: Sequence[str], question: Question) -> Suggestion:
    one = taken.step.candidate
    return Suggestion(
        model=one.shape.name,
        N=one.N,
        D=one.D,
        seed=taken.step.seed,
        recipes=tuple(names[arm] for arm in taken.step.arms),
        flops=taken.step.flops,
        why=taken.why,
        expected=question.expected(taken.layout),
    )
