"""Which constants of a fitted law stand by themselves.

A constant is identified if the search did not end on a bound, its column of the Jacobian is not
made up of the others, and its 95 % interval neither reaches a bound of the search nor spans more
than a factor of 10.

    inflation_k = sqrt(((J'J)^-1)_kk (J'J)_kk)     at most 1e3; how much wider the interval of k is
                                                   than with all other constants known

The constants of one surface lean on each other: where one of them ended on a bound, none of them
stands apart. Multipliers of an arm compare two recipes on that surface, and are judged each by
itself. Without the constants of its shape (E, alpha and beta in the Chinchilla law, where A and B
only set scales) a law predicts inside the data range alone.
"""

import numpy as np
from numpy.typing import NDArray

from sweeps.fits.compare import Searched
from sweeps.fits.forms import base_of
from sweeps.fits.result import QUANTILES, Estimate, Status
from sweeps.laws.law import Array, Law
from sweeps.wording import listed

MAX_INFLATION = 1e3
MAX_SPAN = 10.0


def estimates(found: Searched, draws: Array) -> tuple[Estimate, ...]:
    """Every constant of the law, with its interval or the reason why it has none.

    Args:
        found: The law and its optimum.
        draws: Of theta, shape (rows, p).
    """
    law, theta = found.law, found.optimum.theta
    reasons = _reasons(found)
    values = law.constants(theta)
    lows, highs = np.quantile(law.constants(draws), QUANTILES, axis=0)
    # An interval reaches a bound when more than its tail share of the draws ended there.
    reaching = found.target.bounds.hit(draws).mean(axis=0) >= QUANTILES[0]
    columns = (array.tolist() for array in (values, lows, highs, reaching))
    return tuple(
        Estimate(name=name, reason=reasons[name]) if name in reasons else _estimate(name, *row)
        for name, *row in zip(law.parameters, *columns, strict=True)
    )


def refit(found: Searched) -> tuple[Estimate, ...]:
    """Best values alone, of a fit that is shown beside another; no intervals."""
    reasons = _reasons(found)
    values = found.law.constants(found.optimum.theta).tolist()
    return tuple(
        Estimate(name=name, reason=reasons[name])
        if name in reasons
        else Estimate(name=name, value=value, reason="refitted without outliers, no interval")
        for name, value in zip(found.law.parameters, values, strict=True)
    )


def status_of(law: Law, found: tuple[Estimate, ...]) -> Status:
    """What may be read off a law of which these constants stand."""
    lacking = {one.name for one in found if not one.identified}
    return Status.INSIDE_ONLY if lacking & set(law.shape) else Status.IDENTIFIED


def condition(jacobian: Array) -> float:
    """Condition number with columns at unit length; infinite if a column vanishes."""
    lengths = np.linalg.norm(jacobian, axis=0)
    if lengths.min() == 0:
        return float("inf")
    values = np.linalg.svd(jacobian / lengths, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")


def inflation(jacobian: Array) -> Array:
    """How much wider each constant's interval is than with all others known, shape (p,)."""
    lengths = np.linalg.norm(jacobian, axis=0)
    if not lengths.all():
        return np.where(lengths > 0, 1.0, np.inf)
    _, singular, rows = np.linalg.svd(jacobian / lengths, full_matrices=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(rows != 0, (rows / singular[:, None]) ** 2, 0.0)
    wide: Array = np.sqrt(parts.sum(axis=0))
    return wide


def _reasons(found: Searched) -> dict[str, str]:
    """Why constants do not stand, by name."""
    law, theta, bounds = found.law, found.optimum.theta, found.target.bounds
    names, of_base = law.parameters, set(base_of(law).parameters)
    reasons = {
        name: "held at the value given"
        for name, held in zip(names, bounds.held, strict=True)
        if held
    }
    hit = _named(names, bounds.hit(theta))
    ended = [name for name in hit if name in of_base]
    if ended:
        why = f"the search ended on a bound of {listed(ended)}"
        reasons |= {name: why for name in names if name in of_base}
    reasons |= {
        name: f"the search ended on a bound of {name}" for name in hit if name not in of_base
    }
    free = [place for place, held in enumerate(bounds.held) if not held]
    wide = inflation(found.target.jacobian(theta)[:, free])
    for place, factor in zip(free, wide.tolist(), strict=True):
        if factor > MAX_INFLATION:
            why = f"it trades against the others (its error is {factor:.0e} times that of it alone)"
            reasons.setdefault(names[place], why)
    return reasons


def _named(names: tuple[str, ...], marks: NDArray[np.bool_]) -> list[str]:
    return [name for name, mark in zip(names, marks, strict=True) if mark]


def _estimate(name: str, value: float, low: float, high: float, reaches_bound: bool) -> Estimate:
    if reaches_bound:
        return Estimate(name=name, reason="its interval reaches a bound of the search")
    if not high <= MAX_SPAN * low:
        span = f"its 95 % interval spans {low:.3g} to {high:.3g}"
        return Estimate(name=name, reason=f"{span}, more than a factor of {MAX_SPAN:.0f}")
    return Estimate(
        name=name, value=value, low=min(low, value), high=max(high, value), identified=True
    )
