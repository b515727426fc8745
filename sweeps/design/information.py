"""What runs tell about the constants of a law, before they are made: Fisher information.

    information = prior + sum over models of J' V^-1 J,     J = d prediction / dtheta
    var q       = g' information^-1 g,                      g = dq / dtheta

    rows of a law of losses   endpoints (arm, seed, D) of the model
    V = s^2 same seed [(1 - rho) same arm + rho] budgets + distance^2 bend^2 cell [1 + same arm > 0]
    rows of a law of gaps     pairs (seed, D)
    V = sd^2 same seed budgets + distance^2 bend^2 cell

`budgets` is 1 at one D and `trunk` between two, `cell` is 1 at one D. Rows of a cell share its
distance from the place asked about, so repeats wear the seed noise down and never what the law
misses. For a constant of the law, which has no place, every cell counts as `SCATTER` away. This is
the local (delta-method) variance at a guess of theta. Nats per token.

Source: Fedorov, Theory of Optimal Experiments (1972), for the information of correlated rows and
the local criterion; the bend is a squared bias, taken as a variance.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import hypot, log

import numpy as np

from sweeps.design.noise_level import NoiseLevel
from sweeps.design.wanted import Place
from sweeps.fits.target import Model
from sweeps.laws.law import Array, at

SCATTER = 0.5
"""ln-distance at which a law misses 0.01 nats: fits of the OLMo ladder and of Quartet's BF16 runs
leave 0.006 and 0.013 at their own cells."""

SINGULAR = 1e12
"""Condition of the information, at unit diagonal, from which on nothing is determined."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One endpoint of a model: arm 0 is BF16, then seed and tokens."""

    arm: int
    seed: int
    D: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assumed:
    """What a plan reckons with.

    Attributes:
        model: Predicts losses, or gaps, in nats per token.
        is_of_gaps: Which of the two.
        theta: Guess of its parameters, shape (p,).
        noise: Of runs.
        place: What is asked about lies here.
        is_everywhere: Whether it has no place of its own.
    """

    model: Model
    is_of_gaps: bool
    theta: Array
    noise: NoiseLevel
    place: Place
    is_everywhere: bool = False

    def of_model(self, N: float, points: Iterable[Point]) -> Array:
        """Information of the endpoints of one model, shape (p, p)."""
        rows = sorted(paired(points) if self.is_of_gaps else set(points))
        if not rows:
            return np.zeros((len(self.theta), len(self.theta)))
        columns = [(point.arm, point.seed, point.D) for point in rows]
        arm, seed, D = (np.array(column) for column in zip(*columns, strict=True))
        jacobian = self.model.jacobian(self.theta, at(N, D, arm))
        told: Array = jacobian.T @ np.linalg.solve(self._variance(N, arm, seed, D), jacobian)
        return told

    def distance(self, N: float, D: float) -> float:
        """ln-distance from the place asked about."""
        return hypot(log(N / self.place.N), log(D / self.place.D))

    def _variance(self, N: float, arm: Array, seed: Array, D: Array) -> Array:
        noise = self.noise
        same_arm, same_seed, same_D = (one[:, None] == one for one in (arm, seed, D))
        budgets = (1 - noise.trunk) * same_D + noise.trunk
        far = np.array(
            [SCATTER if self.is_everywhere else self.distance(N, float(tokens)) for tokens in D]
        )
        cells = np.outer(far, far) * same_D
        if self.is_of_gaps:
            of_gaps: Array = noise.sd**2 * same_seed * budgets + noise.gap_bend**2 * cells
            return of_gaps
        seeds = ((1 - noise.rho) * same_arm + noise.rho) * same_seed
        bends = 1.0 + (same_arm & (arm > 0))
        of_losses: Array = noise.run_sd**2 * seeds * budgets + noise.loss_bend**2 * cells * bends
        return of_losses


def paired(points: Iterable[Point]) -> frozenset[Point]:
    """The quantized endpoints whose BF16 partner of the same seed and D is there."""
    listed = set(points)
    return frozenset(
        point for point in listed if point.arm and Point(0, point.seed, point.D) in listed
    )


def variance(information: Array, gradient: Array) -> float:
    """Variance of a quantity with this gradient; infinite where the information is singular."""
    scale = np.sqrt(np.diag(information))
    if scale.min() == 0:
        return float("inf")
    scaled = information / np.outer(scale, scale)
    if np.linalg.cond(scaled) > SINGULAR:
        return float("inf")
    direction = gradient / scale
    return float(direction @ np.linalg.solve(scaled, direction))
