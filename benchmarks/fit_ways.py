"""Ways to fit the Chinchilla law to the same runs, each as a part that is short enough to be timed.

    ours        deterministic starts, batched Levenberg-Marquardt (`sweeps.fits`)
    grid        scipy L-BFGS-B at its own tolerances from the 4,500 starts of Hoffmann et al. 2022,
                over (ln E, ln A, ln B, alpha, beta) of raw N and D, the gradient being exact
    warm        scipy L-BFGS-B from one start, objective over delta^2, tolerances 1e-12
    chinchilla  the package of that name on PyPI: BFGS on differences, from the same grid

All lower the same objective: Huber with delta = 1e-3 of ln L, summed (the package: its mean). What
would take minutes or hours is timed on a part of its starts or resamples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from sweeps.fits.bootstrap import bootstrap
from sweeps.fits.points import Points, make_points
from sweeps.fits.search import HOFFMANN_DELTA, Optimum, optimize
from sweeps.fits.target import huber, loss_target
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.law import Array, at, loss

TRUTH = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}
"""Besiroglu et al. 2024 (arXiv 2404.10102)."""

HOFFMANN_GRID = {
    "e": (-1.0, -0.5, 0.0, 0.5, 1.0),
    "a": (0.0, 5.0, 10.0, 15.0, 20.0, 25.0),
    "b": (0.0, 5.0, 10.0, 15.0, 20.0, 25.0),
    "alpha": (0.0, 0.5, 1.0, 1.5, 2.0),
    "beta": (0.0, 0.5, 1.0, 1.5, 2.0),
}
PART_OF_GRID = {
    "e": (0.0, 0.5),
    "a": (5.0, 10.0),
    "b": (5.0, 10.0),
    "alpha": (0.5,),
    "beta": (0.5,),
}
"""Around the answer, which is kind to whoever starts here."""

TIGHT = {"ftol": 1e-12, "gtol": 1e-12, "maxiter": 5000, "maxfun": 20000}
"""Tolerances of L-BFGS-B that make sense for an objective near 1, which that over delta^2 is."""

PACKAGE = "chinchilla"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way, or a part of it.

    Attributes:
        name: Of the way.
        call: Does the part; returns theta of each of its searches, shape (s, 5), in (E, A, B,
            alpha, beta).
        part: Searches that the call makes.
        whole: Searches that the way asks for.
    """

    name: str
    call: Callable[[], Array]
    part: int
    whole: int


def made_points(count: int) -> Points:
    """Runs over two decades of N and 5 to 200 tokens per parameter, noise 0.4 %, heavy tails."""
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(np.log(5e7), np.log(1e10), count))
    tokens = sizes * np.exp(random.uniform(np.log(5), np.log(200), count))
    theta = _logs(list(TRUTH.values()))
    losses = loss(Chinchilla(x0=0.0, y0=0.0), theta, at(sizes, tokens))
    return make_points(sizes, tokens, losses * np.exp(0.004 * random.standard_t(4, count)))


def objective(points: Points, constants: Array, weights: Array | None = None) -> Array:
    """Sum of the Huber loss at constants (s, 5); weights of shape (s, n), 1 if not given."""
    law = Chinchilla(x0=0.0, y0=0.0)
    with np.errstate(all="ignore"):
        residuals = loss_target(law, points).residuals(_logs(constants))
        found = huber(residuals, HOFFMANN_DELTA)
    value: Array = (found if weights is None else weights * found).sum(axis=1)
    return np.where(np.isfinite(value), value, np.inf)


def our_fit(points: Points) -> Optimum:
    """The optimum that everything is measured by."""
    law = Chinchilla.about(points.where)
    starts = law.starts(points.where, points.loss)
    return optimize(loss_target(law, points), starts, delta=HOFFMANN_DELTA)


def fits(points: Points, *, grid_part: int) -> tuple[Way, ...]:
    """One fit of all points, by ours, the grid, and one start from Hoffmann's published constants.

    Args:
        points: What is fitted.
        grid_part: Starts of the grid that are timed.
    """
    law = Chinchilla.about(points.where)
    starts = np.array(list(product(*HOFFMANN_GRID.values())))
    chosen = np.random.default_rng(1).permutation(len(starts))[:grid_part]
    published = np.array([[np.log(1.69), np.log(406.4), np.log(410.7), 0.34, 0.28]])
    everything = np.ones((grid_part, len(points)))
    return (
        Way(
            name="ours",
            call=lambda: law.constants(our_fit(points).theta[None]),
            part=1,
            whole=1,
        ),
        Way(
            name="scipy L-BFGS-B, published grid",
            call=partial(_searches, points, starts[chosen], everything, 1.0, {}),
            part=grid_part,
            whole=len(starts),
        ),
        Way(
            name="scipy L-BFGS-B, one start",
            call=partial(_searches, points, published, everything[:1], HOFFMANN_DELTA**-2, TIGHT),
            part=1,
            whole=1,
        ),
    )


def package(points: Points) -> Way:
    """The package, from a part of its grid; it must be installed."""
    core, metrics = import_module(PACKAGE), import_module(f"{PACKAGE}._metrics")
    columns = (6 * points.N * points.D, points.N, points.D, points.loss)
    lines = [",".join(map(repr, row)) for row in np.stack(columns, axis=1).tolist()]

    def call() -> Array:
        with TemporaryDirectory() as folder:
            Path(folder, "df.csv").write_text("\n".join(["C,N,D,loss", *lines]))
            peer = core.Chinchilla(
                folder,
                param_grid=PART_OF_GRID,
                loss_fn=partial(metrics.log_huber, delta=HOFFMANN_DELTA),
                log_level=50,
            )
            peer.fit(parallel=False)
        return np.array([[float(getattr(peer, name)) for name in TRUTH]])

    part = len(list(product(*PART_OF_GRID.values())))
    return Way(name=f"{PACKAGE} package, published grid", call=call, part=part, whole=4500)


def bootstraps(points: Points, weights: Array, *, resamples: int) -> tuple[Way, ...]:
    """Refits to resamples, by ours and by one start each from the optimum of all points.

    Args:
        points: What is drawn from.
        weights: How often each row was drawn in the resamples that scipy is timed on, (s, n).
        resamples: That an interval asks for.
    """
    law = Chinchilla.about(points.where)
    target, best = loss_target(law, points), our_fit(points)
    start = _logs(law.constants(best.theta))
    start[0] = np.log(start[0])
    starts = np.tile(start, (len(weights), 1))
    return (
        Way(
            name="ours",
            call=lambda: law.constants(
                bootstrap(target, points, best, resamples=resamples, seed=0)
            ),
            part=resamples,
            whole=resamples,
        ),
        Way(
            name="scipy L-BFGS-B, one start",
            call=partial(_searches, points, starts, weights, HOFFMANN_DELTA**-2, TIGHT),
            part=len(weights),
            whole=resamples,
        ),
    )


def _logs(constants: ArrayLike) -> Array:
    """(E, ln A, ln B, alpha, beta) from the constants, shape (..., 5)."""
    theta = np.array(constants, dtype=np.float64)
    theta[..., 1:3] = np.log(theta[..., 1:3])
    return theta


def _searches(
    points: Points, starts: Array, weights: Array, scale: float, options: dict[str, Any]
) -> Array:
    """L-BFGS-B from each start; constants of shape (s, 5)."""
    axes, observed = np.log([points.N, points.D]), np.log(points.loss)

    def value(theta: Array, weight: Array) -> tuple[float, Array]:
        e, a, b, alpha, beta = theta
        logs = np.stack([np.full_like(observed, e), a - alpha * axes[0], b - beta * axes[1]])
        top = logs.max(axis=0)
        terms = np.exp(logs - top)
        total = terms.sum(axis=0)
        shares = terms / total
        residuals = top + np.log(total) - observed
        pull = scale * weight * np.clip(residuals, -HOFFMANN_DELTA, HOFFMANN_DELTA)
        columns = np.concatenate([shares, -shares[1:] * axes]) * pull
        cost = scale * (weight * huber(residuals, HOFFMANN_DELTA)).sum()
        return float(cost), columns.sum(axis=1)

    found = np.array(
        [
            minimize(value, start, args=(weight,), jac=True, method="L-BFGS-B", options=options).x
            for start, weight in zip(starts, weights, strict=True)
        ]
    )
    with np.errstate(over="ignore"):
        found[:, :3] = np.exp(found[:, :3])
    return found
