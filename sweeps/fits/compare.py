"""How forms compare on one set of points: in the data, and on sizes that were left out.

    rolling    fit the points with N < N_k, predict those with N = N_k; the last is `held_out`
    choice     least held-out error; of forms within its standard error, the fewest constants

Sizes that follow each other within 10 % are one rung, and N_k is a rung. Its rows are left out
together: one at a time would overstate skill, since its neighbours in D lie close by. An error on
one run alone is known to within the residuals of the fit, which stand for its standard error. A
form counts as equal only if AICc does not speak against it by more than 2 (Burnham and Anderson
2002, section 2.6): the intervals of a form that the data reject hold its constants, not the truth.
The next best form then takes its place. Where no rung can be left out, AICc decides alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from sweeps.fits.evidence import Criteria, HeldOut
from sweeps.fits.forms import form, part
from sweeps.fits.identifiability import carries
from sweeps.fits.points import Points
from sweeps.fits.search import Optimum, optimize
from sweeps.fits.settings import Settings
from sweeps.fits.target import Target, huber, loss_target
from sweeps.fits.widening import spent_by
from sweeps.laws.law import Array, Law, loss

TUNING = 1.345
"""Huber threshold over the scale, at which normal noise costs 5 % of the efficiency."""

LEAST_SCALE = 1e-12
NO_EVIDENCE = 2.0
SAME_RUNG = np.log(1.1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """A form and its optimum on the points."""

    law: Law
    target: Target
    optimum: Optimum

    @property
    def n_free(self) -> int:
        """Constants that could move."""
        return int((~self.target.bounds.held).sum())

    @property
    def spent(self) -> int:
        """Of them, those that the rows of one arm depend on, at most over the arms."""
        return spent_by(self.law, self.target.bounds.held)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compared:
    """A form with its criteria, and with its fit to all but the largest size if there is one."""

    searched: Searched
    criteria: Criteria
    without_largest: Searched | None


def search(law: Law, points: Points, settings: Settings, delta: float | None = None) -> Searched:
    """The optimum of a law; delta is that of the settings unless given."""
    target = loss_target(law, points, settings.residual)
    starts = law.starts(points.where, points.loss)
    optimum = optimize(target, starts, delta=settings.delta if delta is None else delta)
    return Searched(law=law, target=target, optimum=optimum)


def compare(points: Points, laws: Sequence[str], settings: Settings) -> tuple[Criteria, ...]:
    """Criteria of each form, in the order of the names; each must be one that the points determine.

    Raises:
        InputError: If there is no law of a name.
    """
    return tuple(
        judged(
            name, search(form(name, points, settings.effects), points, settings), points, settings
        ).criteria
        for name in laws
    )


def choose(criteria: Sequence[Criteria]) -> str:
    """Name of the form to report: least held-out error, ties towards fewer constants."""
    left = [(one.held_out, one) for one in criteria if one.held_out is not None]
    if len(left) < len(criteria):
        return _fewest(criteria)
    while True:
        error, best = min(left, key=lambda pair: pair[0])
        limit = error + (best.held_out_se or 0.0)
        equal = [one for value, one in left if value <= limit]
        if best in _unrejected(equal):
            return _fewest(equal)
        # What AICc rejects sets no limit for the others either.
        left = [(value, one) for value, one in left if one is not best]


def _unrejected(equal: Sequence[Criteria]) -> list[Criteria]:
    least = min(map(_aicc, equal))
    return [one for one in equal if _aicc(one) <= least + NO_EVIDENCE]


def _fewest(equal: Sequence[Criteria]) -> str:
    return min(_unrejected(equal), key=lambda one: one.n_constants).law


def judged(name: str, found: Searched, points: Points, settings: Settings) -> Compared:
    """Criteria of a form that was fitted to the points."""
    residuals = found.target.residuals(found.optimum.theta)
    count, spent = len(points), found.n_free + 1
    spread = _deviance(residuals, found.optimum.delta)
    room = count - spent - 1
    rolled = _rolling(name, points, settings, found.optimum.delta)
    tests = tuple(test for test, _ in rolled)
    largest = float(points.N.max())
    last = tests[-1] if tests and tests[-1].N == largest else None
    criteria = Criteria(
        law=name,
        n_constants=found.n_free,
        n_points=count,
        objective=found.optimum.objective,
        rms=float(np.sqrt(np.mean(residuals**2))),
        aicc=spread + 2 * spent + 2 * spent * (spent + 1) / room if room > 0 else None,
        bic=spread + spent * float(np.log(count)),
        held_out=last.error if last else None,
        held_out_se=last.se if last else None,
        rolling=tests,
    )
    return Compared(
        searched=found,
        criteria=criteria,
        without_largest=rolled[-1][1] if last else None,
    )


def _aicc(criteria: Criteria) -> float:
    return float("inf") if criteria.aicc is None else criteria.aicc


def _deviance(residuals: Array, delta: float) -> float:
    """-2 ln likelihood under Huber's density, or the normal one, at its best scale."""
    count = len(residuals)
    rms = max(LEAST_SCALE, float(np.sqrt(np.mean(residuals**2))))
    if not np.isfinite(delta):
        return 2 * count * float(np.log(rms)) + count

    def value(log_scale: float) -> float:
        scaled = residuals / np.exp(log_scale)
        return float(2 * count * log_scale + 2 * huber(scaled, TUNING).sum())

    ends = (np.log(LEAST_SCALE) - 1, np.log(rms) + 1)
    return float(minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-8}).fun)


def _rungs(points: Points) -> list[Array]:
    """Distinct sizes in rungs, ascending."""
    sizes = np.unique(points.N)
    return np.split(sizes, np.flatnonzero(np.diff(np.log(sizes)) > SAME_RUNG) + 1)


def _rolling(
    name: str, points: Points, settings: Settings, delta: float
) -> list[tuple[HeldOut, Searched]]:
    """Every rung that the fit of all smaller ones can predict, ascending."""
    found = []
    for rung in _rungs(points)[1:]:
        first, size = float(rung[0]), float(rung[-1])
        before = part(points, points.N < first)
        at_size = part(points, (points.N >= first) & (points.N <= size))
        law = form(name, before, settings.effects)
        if not carries(before, law):
            continue
        searched = search(law, before, settings, delta)
        ratio = loss(law, searched.optimum.theta, at_size.where) / at_size.loss - 1
        error = float(np.sqrt(np.mean(ratio**2)))
        count = len(ratio)
        if count > 1:
            spread = float(np.std(ratio**2, ddof=1)) / np.sqrt(count)
            se = spread / (2 * error) if error else 0.0
        else:
            theta = searched.optimum.theta
            misses = loss(law, theta, before.where) / before.loss - 1
            se = float(np.sqrt(np.mean(misses**2)))
        test = HeldOut(N=size, n_fitted=len(before), n_predicted=count, error=error, se=se)
        found.append((test, searched))
    return found
