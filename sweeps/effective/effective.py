"""Effective numbers of every format: what its runs are worth in BF16's parameters, data, compute.

    BF16 losses carry a law      joint law of BF16 and the format, one format at a time
    they carry a tangent         mean over clusters of gap over slope; no multiplier of compute
    they carry neither           nothing but the gaps, and the reason

One format at a time, so that a recipe's numbers do not depend on which others a sweep holds. The
constants of the law may well be undetermined while the multipliers are not: what is asked of a
multiplier is that its own interval stays off the search's bounds and within a factor of ten.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, sqrt

import numpy as np

from sweeps.effective.by_gap_law import frontier_worth
from sweeps.effective.cells import cell_multipliers, pair_noise
from sweeps.effective.horizontal import Baseline
from sweeps.effective.joint_fit import JointFit, fit_joint, log_multipliers
from sweeps.effective.result import Effective, Method, Multiplier
from sweeps.effective.shared_floor import shared_floor
from sweeps.effective.slope import FARTHEST, Slope, slopes
from sweeps.fits.bootstrap import CAUTIOUS_CELLS
from sweeps.fits.differences import Differences, differences
from sweeps.fits.forms import BASES, form, part
from sweeps.fits.gap_choice import gap_laws, hold
from sweeps.fits.points import Points
from sweeps.fits.result import QUANTILES, Fit, Samples, Solution
from sweeps.fits.settings import Settings
from sweeps.intervals import t_half_width
from sweeps.laws.joint import MULTIPLIER_BOUNDS, Effect, Joint
from sweeps.laws.law import Array
from sweeps.laws.local_power import LocalPower

MAX_SPAN = 10.0
LEAST_DRAWS = 100
"""Fewer refits than this give no 95 % interval."""

TRADING = -0.5
"""Correlation of ln eff_N and ln eff_D below which one makes up for the other."""

LEAST_PAIRED_CELLS = 3
"""A joint law needs so many cells with both arms before eff_N and eff_D are two numbers."""


def effective(
    points: Points, bf16: Fit, settings: Settings, *, floors: bool = False
) -> tuple[Effective, ...]:
    """Effective numbers of every arm but the first.

    Args:
        points: Losses of all arms, the reference first, clustered by what shares noise.
        bf16: What was fitted to the reference.
        settings: Of the searches and draws.
        floors: Whether each arm is also tried with an E of its own, which takes as long again.
    """
    return tuple(_of_arm(points, arm, bf16, settings, floors) for arm in points.arms[1:])


def _of_arm(points: Points, arm: str, bf16: Fit, settings: Settings, floors: bool) -> Effective:
    pairs = differences(points, arm)
    if not len(pairs):
        reason = "no run of it has a BF16 partner"
        return unidentified(pairs, reason)
    reference = reference_of(points)
    solution = _surface(bf16)
    law = solution.law.name if solution is not None and solution.law.name in BASES else None
    laws = gap_laws(pairs, reference, law, settings)
    degrees = len(pairs) - len(laws.fit.theta)
    noise = pair_noise(pairs, laws.fit.sd, degrees)
    both = two_arms(points, arm)
    if law is not None:
        found = _joint(both, pairs, law, settings)
    elif solution is not None:
        found = _by_slope(pairs, solution, len(both))
    else:
        reason = "no law of N and D is fitted to the BF16 losses"
        found = unidentified(pairs, reason)
    cells = cell_multipliers(pairs, Baseline.of(reference), solution, noise)
    base = hold(reference, law, settings)
    frontier = None
    if base is not None and laws.power is not None:
        frontier = frontier_worth(base, laws.power, pairs)
    floor = None
    if floors and law is not None and found.C_mult.value is not None:
        floor = shared_floor(both, law, settings)
    return replace(found, cells=cells, gap=laws, frontier=frontier, floor=floor)


def _surface(bf16: Fit) -> Solution | None:
    """The fitted law, if it has draws, and slopes in N and in D."""
    solution = bf16.solution
    if solution is None or not solution.samples.rows:
        return None
    law = solution.law
    return solution if law.name in BASES or isinstance(law, LocalPower) else None


def reference_of(points: Points) -> Points:
    """The reference alone."""
    return replace(part(points, points.arm == 0), arms=points.arms[:1])


def two_arms(points: Points, arm: str) -> Points:
    """The reference and one other arm."""
    index = points.arms.index(arm)
    chosen = part(points, (points.arm == 0) | (points.arm == index))
    return replace(chosen, arm=(chosen.arm > 0).astype(np.intp), arms=(points.arms[0], arm))


def _joint(points: Points, pairs: Differences, name: str, settings: Settings) -> Effective:
    arm = points.arms[1]
    if pairs.n_cells < LEAST_PAIRED_CELLS:
        reason = f"{pairs.n_cells} cells with both arms are fewer than {LEAST_PAIRED_CELLS}"
        return unidentified(pairs, reason)
    law = form(name, points, (Effect.N, Effect.D))
    assert isinstance(law, Joint)
    found = fit_joint(points, law, settings)
    if isinstance(found, str):
        return unidentified(pairs, found)
    if len(found.draws) < LEAST_DRAWS:
        reason = f"only {len(found.draws)} of {settings.resamples} resamples determine the law"
        return unidentified(pairs, reason)
    ln_N, ln_D = (one[1] for one in log_multipliers(law, found.searched.optimum.theta))
    draws_N, draws_D = (one[:, 1] for one in log_multipliers(law, found.draws))
    over = f"{points.n_clusters} clusters, both arms drawn together"
    columns = {
        "eff_N": (ln_N, draws_N),
        "eff_D": (ln_D, draws_D),
        "C_mult": (ln_N + ln_D, draws_N + draws_D),
        "break-even": (-ln_N - ln_D, -draws_N - draws_D),
    }
    numbers = {
        key: _from_draws(key, float(value), draws, pairs.n_cells, over)
        for key, (value, draws) in columns.items()
    }
    correlation = _correlation(draws_N, draws_D)
    return Effective(
        label=arm,
        eff_N=numbers["eff_N"],
        eff_D=numbers["eff_D"],
        C_mult=numbers["C_mult"],
        break_even=numbers["break-even"],
        correlation=correlation,
        draws=Samples.of((draws_N + draws_D)[:, None])
        if numbers["C_mult"].value is not None
        else None,
        cells=(),
        gap=None,
        n_points=len(points),
        n_cells=pairs.n_cells,
        verdict=_verdict(found, numbers, correlation, points.n_clusters),
    )


def _from_draws(name: str, ln_value: float, draws: Array, n: int, over: str) -> Multiplier:
    low, high = np.exp(np.quantile(draws, QUANTILES)).tolist()
    method = Method.JOINT
    least, most = MULTIPLIER_BOUNDS
    if low <= least * (1 + 1e-3) or high >= most * (1 - 1e-3):
        reason = "its interval reaches a bound of the search"
    elif high > MAX_SPAN * low:
        reason = (
            f"its 95 % interval spans {low:.3g} to {high:.3g}, more than a factor of {MAX_SPAN:.0f}"
        )
    else:
        return Multiplier(
            name=name, value=exp(ln_value), low=low, high=high, n=n, over=over, method=method
        )
    return Multiplier(name=name, n=n, method=method, reason=reason)


def _by_slope(pairs: Differences, solution: Solution, n_points: int) -> Effective:
    places = list(zip(pairs.N.tolist(), pairs.D.tolist(), strict=True))
    by_cell = {place: slopes(solution, *place) for place in dict.fromkeys(places)}
    numbers = []
    for axis, name in enumerate(("eff_N", "eff_D")):
        numbers.append(_mean_ratio(name, pairs, [by_cell[place][axis] for place in places]))
    reason = "the BF16 losses carry no law that says which N and D are best for a compute"
    return Effective(
        label=pairs.label,
        eff_N=numbers[0],
        eff_D=numbers[1],
        C_mult=Multiplier(name="C_mult", reason=reason),
        break_even=Multiplier(name="break-even", reason=reason),
        correlation=None,
        draws=None,
        cells=(),
        gap=None,
        n_points=n_points,
        n_cells=pairs.n_cells,
        verdict=(
            "eff_N and eff_D each carry the whole gap alone: they are two readings of it, not two "
            "losses to be multiplied.",
        ),
    )


def _mean_ratio(name: str, pairs: Differences, by_pair: Sequence[Slope]) -> Multiplier:
    """Mean over clusters of gap / slope, with the slope's own error, which all of them share."""
    if not all(slope.falls for slope in by_pair):
        reason = f"the BF16 loss does not clearly fall with {name.removeprefix('eff_')}"
        return Multiplier(name=name, n=pairs.n_cells, method=Method.SLOPE, reason=reason)
    logs = pairs.gap / np.array([slope.value for slope in by_pair])
    means = np.bincount(pairs.cluster, weights=logs) / np.bincount(pairs.cluster)
    mean, n = float(means.mean()), len(means)
    if abs(mean) > np.log(FARTHEST):
        reason = f"the gap spans more than a factor of {FARTHEST}, too far for a slope"
        return Multiplier(name=name, n=pairs.n_cells, method=Method.SLOPE, reason=reason)
    if n < 2:
        reason = "one cluster has no interval"
        return Multiplier(
            name=name, value=exp(mean), n=pairs.n_cells, method=Method.SLOPE, reason=reason
        )
    shared = mean * float(np.mean([slope.half / -slope.value for slope in by_pair]))
    half = float(np.hypot(t_half_width(float(means.std(ddof=1)) / sqrt(n), n - 1), shared))
    return Multiplier(
        name=name,
        value=exp(mean),
        low=exp(mean - half),
        high=exp(mean + half),
        n=pairs.n_cells,
        over=f"{n} clusters",
        method=Method.SLOPE,
    )


def unidentified(pairs: Differences, reason: str) -> Effective:
    """What there is of a format without effective numbers, and why there are none."""
    names = ("eff_N", "eff_D", "C_mult", "break-even")
    numbers = [Multiplier(name=name, n=pairs.n_cells, reason=reason) for name in names]
    return Effective(
        label=pairs.label,
        eff_N=numbers[0],
        eff_D=numbers[1],
        C_mult=numbers[2],
        break_even=numbers[3],
        correlation=None,
        draws=None,
        cells=(),
        gap=None,
        n_points=2 * len(pairs),
        n_cells=pairs.n_cells,
        verdict=(f"No effective number is identified: {reason}.",),
    )


def _correlation(one: Array, other: Array) -> float | None:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def _verdict(
    found: JointFit,
    numbers: dict[str, Multiplier],
    correlation: float | None,
    n_clusters: int,
) -> tuple[str, ...]:
    lines = [] if numbers["C_mult"].value is None else [_headline(numbers)]
    lines += [
        f"{item.name} is not identified: {item.reason}."
        for item in numbers.values()
        if item.value is None
    ]
    if lines and correlation is not None and correlation < TRADING:
        lines.append(
            f"eff_N and eff_D trade against each other (correlation {correlation:+.2f}), so read "
            "C_mult before either."
        )
    objectives = found.searched.optimum.objectives
    agreeing = sum(value <= objectives[0] * (1 + 1e-6) for value in objectives)
    if agreeing < len(objectives):
        lines.append(f"{agreeing} of {len(objectives)} starts reached the best optimum.")
    if n_clusters < CAUTIOUS_CELLS:
        lines.append(
            f"With {n_clusters} clusters, fewer than {CAUTIOUS_CELLS}, the 95 % intervals rest on "
            "little."
        )
    return tuple(lines)


def _headline(numbers: dict[str, Multiplier]) -> str:
    worth, speed = numbers["C_mult"], numbers["break-even"]
    assert worth.value is not None
    assert speed.value is not None
    return (
        f"Its compute is worth {worth.value:.3f} ({worth.low:.3f} to {worth.high:.3f}) of BF16's, "
        f"so that it pays from {speed.value:.2f} ({speed.low:.2f} to {speed.high:.2f}) times "
        "BF16's speed on."
    )
