"""The fit of a law with constants: optimum, cell bootstrap, and which constants stand by themselves.

A constant is identified if the search did not end on a bound, the Jacobian at the optimum has a
condition number of at most 1e4 (columns at unit length), and its 95 % interval neither reaches a
bound of the search nor spans more than a factor of 10. Where a bound was hit or the condition is
worse, no constant stands apart. Without the constants of its shape (E, alpha and beta in the
Chinchilla law, where A and B only set scales) the law predicts inside the data range alone.
"""

import numpy as np

from sweeps.fits.bootstrap import CAUTIOUS_CELLS, bootstrap
from sweeps.fits.identifiability import Design
from sweeps.fits.points import Points
from sweeps.fits.result import QUANTILES, Estimate, Fit, Method, Samples, Solution, Status
from sweeps.fits.search import Optimum, optimize
from sweeps.fits.target import Target, loss_target
from sweeps.laws.law import Array, Law

MAX_CONDITION = 1e4
MAX_SPAN = 10.0
SAME_OBJECTIVE = 1e-6


def fit_law(
    law: Law,
    points: Points,
    design: Design,
    *,
    recipe: str,
    delta: float | None,
    resamples: int,
    seed: int,
) -> Fit:
    """Fits a law to a design that can carry it."""
    target = loss_target(law, points)
    optimum = optimize(target, law.starts(points.where, points.loss), delta=delta)
    draws = bootstrap(target, points, optimum, resamples=resamples, seed=seed)
    solution = _solution(law, target, optimum, draws)
    tied = _tied(solution)
    estimates = _estimates(law, target, optimum, draws, tied)
    lacking = [item.name for item in estimates if not item.identified]
    status = Status.INSIDE_ONLY if set(lacking) & set(law.shape) else Status.IDENTIFIED
    return Fit(
        recipe=recipe,
        status=status,
        estimates=estimates,
        verdict=_verdict(design, solution, estimates, status),
        solution=solution,
        n_points=design.n_points,
        n_cells=design.n_cells,
        N_range=(float(points.N.min()), float(points.N.max())),
        D_range=(float(points.D.min()), float(points.D.max())),
        seed=seed,
        input_hash=points.digest,
    )


def jacobian_condition(jacobian: Array) -> float:
    """Condition number with columns at unit length; infinite if a column vanishes."""
    lengths = np.linalg.norm(jacobian, axis=0)
    if lengths.min() == 0:
        return float("inf")
    values = np.linalg.svd(jacobian / lengths, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")


def _solution(law: Law, target: Target, optimum: Optimum, draws: Array) -> Solution:
    residuals = target.residuals(optimum.theta)
    hit = target.bounds.hit(optimum.theta)
    best, others = optimum.objectives[0], optimum.objectives[1:]
    apart = [value for value in others if value > best * (1 + SAME_OBJECTIVE)]
    covariance = np.atleast_2d(np.cov(draws, rowvar=False))
    return Solution(
        law=law,
        theta=tuple(optimum.theta.tolist()),
        samples=Samples.of(draws),
        covariance=tuple(tuple(row) for row in covariance.tolist()),
        method=Method.CELL_BOOTSTRAP,
        delta=optimum.delta,
        objective=optimum.objective,
        rms=float(np.sqrt(np.mean(residuals**2))),
        condition=jacobian_condition(target.jacobian(optimum.theta)),
        bounds_hit=tuple(name for name, on in zip(law.parameters, hit, strict=True) if on),
        starts=len(optimum.objectives),
        starts_agreeing=len(optimum.objectives) - len(apart),
        basin_ratio=apart[0] / best if apart and best > 0 else None,
    )


def _tied(solution: Solution) -> str:
    """Why no constant stands by itself; empty if they may."""
    if solution.bounds_hit:
        names = ", ".join(solution.bounds_hit)
        return f"the search ended on a bound of {names}"
    if solution.condition > MAX_CONDITION:
        return f"the constants trade against each other (condition {solution.condition:.0e})"
    return ""


def _estimates(
    law: Law, target: Target, optimum: Optimum, draws: Array, tied: str
) -> tuple[Estimate, ...]:
    if tied:
        return tuple(Estimate(name=name, reason=tied) for name in law.parameters)
    values = law.constants(optimum.theta)
    lows, highs = np.quantile(law.constants(draws), QUANTILES, axis=0)
    # An interval reaches a bound when more than its tail share of the draws ended there.
    reaching = target.bounds.hit(draws).mean(axis=0) >= QUANTILES[0]
    columns = (array.tolist() for array in (values, lows, highs, reaching))
    return tuple(_estimate(*row) for row in zip(law.parameters, *columns, strict=True))


def _estimate(name: str, value: float, low: float, high: float, reaches_bound: bool) -> Estimate:
    if reaches_bound:
        return Estimate(name=name, reason="its interval reaches a bound of the search")
    if high > MAX_SPAN * low:
        span = f"its 95 % interval spans {low:.3g} to {high:.3g}"
        return Estimate(name=name, reason=f"{span}, more than a factor of {MAX_SPAN:.0f}")
    return Estimate(name=name, value=value, low=low, high=high, identified=True)


def _verdict(
    design: Design, solution: Solution, estimates: tuple[Estimate, ...], status: Status
) -> tuple[str, ...]:
    lines = [
        f"{item.name} is not identified: {item.reason}."
        for item in estimates
        if not item.identified
    ]
    if tied := _tied(solution):
        lines = [f"E, A, B, alpha, beta are not identified: {tied}."]
    if not lines:
        lines.append(
            f"All five constants are identified from {design.n_cells} cells; they are strongly "
            "correlated, so prefer predictions and gaps to single constants."
        )
    if status is Status.INSIDE_ONLY:
        lines.append("The law predicts inside the data range alone; nothing is said beyond it.")
    if design.n_cells < CAUTIOUS_CELLS:
        lines.append(
            f"With {design.n_cells} cells, fewer than {CAUTIOUS_CELLS}, the 95 % intervals cover "
            "about 90 %."
        )
    if solution.starts_agreeing < solution.starts:
        lines.append(
            f"{solution.starts_agreeing} of {solution.starts} starts reached the best optimum."
        )
    lines.append("No interval holds the error of the law's form, which grows outside the data.")
    return tuple(lines)
