"""Greedy choice of steps: each the best beside those before it, until nothing is worth its cost.

    for each FLOP   the step with the largest (var q - var q with it) / FLOPs
    by share        the step with the largest var q - var q with it, of those that cost at most a
                    given share of what is left

Steps that are cheap for what they tell leave a budget unspent, and large ones may waste it; so each
rule is followed to its end, and the end of least variance is taken (Leskovec et al. 2007). A step
must take away `LEAST_GAIN` of the variance. As long as the endpoints cannot carry the law, a step
instead adds a cell by a run of its own.

Source: Fedorov, Theory of Optimal Experiments (1972), for the sequential choice.
"""

from collections.abc import Sequence

import numpy as np

from sweeps.design.candidates import Candidate
from sweeps.design.layout import Layout, Step
from sweeps.design.question import Question

LEAST_GAIN = 0.02
SHARES = (0.1, 0.25, 0.5)


def best_steps(
    question: Question, layout: Layout, free: Sequence[Candidate], budget: float, most: int
) -> tuple[Step, ...]:
    """The steps that narrow a quantity most.

    Args:
        question: The quantity.
        layout: What is measured and planned.
        free: Cells that may be run.
        budget: FLOPs that they may take.
        most: Steps at most.
    """
    ends = [_greedy(question, layout, free, budget, most, share) for share in (None, *SHARES)]
    return min(ends, key=lambda steps: _rank(question, layout, steps))


def _greedy(
    question: Question,
    layout: Layout,
    free: Sequence[Candidate],
    left: float,
    most: int,
    share: float | None,
) -> tuple[Step, ...]:
    taken: list[Step] = []
    while len(taken) < most and (step := _best(question, layout, free, left, share)) is not None:
        left, layout = left - step.flops, layout.after(step)
        taken.append(step)
    return tuple(taken)


def _best(
    question: Question,
    layout: Layout,
    free: Sequence[Candidate],
    left: float,
    share: float | None,
) -> Step | None:
    """The next step; None if none is worth taking."""
    of_model = question.by_model(layout)
    total = sum(of_model.values(), np.zeros_like(question.prior))
    before, cells = question.variance(total), layout.cells
    is_short = bool(question.refusal(layout))
    limit = left if share is None else share * left
    found: list[tuple[float, Step]] = []
    for one in free:
        if is_short and (one.N, one.D) in cells:
            continue
        step, N = layout.step(one, is_alone=is_short), float(one.N)
        if step.flops > limit:
            continue
        points = layout.points.get(N, frozenset()) | set(step.points)
        with_it = total - of_model.get(N, 0.0) + question.assumed.of_model(N, points)
        gain = before - question.variance(with_it)
        if is_short or gain > LEAST_GAIN * before:
            found.append((gain / step.flops if share is None else gain, step))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _rank(question: Question, layout: Layout, steps: Sequence[Step]) -> tuple[bool, float, float]:
    """Whether the law cannot be read off the end, its variance and its cost."""
    for step in steps:
        layout = layout.after(step)
    told = sum(question.by_model(layout).values(), np.zeros_like(question.prior))
    flops = sum(step.flops for step in steps)
    return bool(question.refusal(layout)), question.variance(told), flops
