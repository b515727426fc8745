"""The joint law of BF16 and formats, and the multipliers of each arm with their draws.

    ln m_N, ln m_D     of an arm: sums over its factors
    ln C_mult          ln m_N + ln m_D

With multipliers of N and D alone, C_mult is their product at every budget: on the frontier of
least loss for C = 6 N D the format at C stands where BF16 stands at C_mult C. The bootstrap draws
clusters jointly over the arms, so that what BF16 and a format share of the noise stays shared; the
draws are widened for the constants fitted (`widening`).

Source: Castro et al. 2025 (Quartet, arXiv 2505.14669) for both multipliers in one law.
"""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from sweeps.fits.compare import Searched, search
from sweeps.fits.parametric import drawn
from sweeps.fits.points import Points
from sweeps.fits.settings import Settings
from sweeps.fits.widening import widening
from sweeps.laws.joint import Effect, Joint
from sweeps.laws.law import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointFit:
    """A joint law at its optimum, and its refits to drawn clusters.

    Attributes:
        law: The joint law.
        searched: Its optimum on the points.
        draws: theta of shape (rows, p).
    """

    law: Joint
    searched: Searched
    draws: Array


def fit_joint(points: Points, law: Joint, settings: Settings) -> JointFit | str:
    """Fits a joint law to all arms at once, or says why there are too few clusters for it."""
    found = search(law, points, settings)
    if not isfinite(widening(points.n_clusters, found.spent, grouped=points.is_grouped)):
        return f"{points.n_clusters} clusters are too few for the {found.spent} constants of an arm"
    return JointFit(law=law, searched=found, draws=drawn(found, points, settings))


def log_multipliers(law: Joint, theta: Array) -> tuple[Array, Array]:
    """Logarithms of m_N and m_D of every arm, each (..., arms), for theta of shape (..., p)."""
    effects = theta[..., theta.shape[-1] - len(law.changes) :]
    return _sums(law, effects, Effect.N), _sums(law, effects, Effect.D)


def _sums(law: Joint, effects: Array, axis: Effect) -> Array:
    weights = [np.array(each.weights) * (each.effect in (axis, Effect.C)) for each in law.changes]
    value: Array = effects @ np.array(weights)
    return value
