"""The law and constants that planning reckons with: what is measured, held by a wide guess.

    gap at a place         gap = c (N / N0)^a (D / D0)^b, on paired differences
    anything else          L = E + A / N^alpha + B / D^beta, a quantized arm at (eff_N N, eff_D D)
    theta                  least of  sum (residual / error)^2 + sum ((theta - guess) / s.d.)^2

    alpha, beta     0.34 and 0.37, s.d. 0.15     near those that Besiroglu et al. (2024) refitted
    E               0.6 of the loss, s.d. 0.25 of it
    A', B'          0.2 of the loss, s.d. a factor of e^1.5, at the centre of the data
    eff_N, eff_D    0.9, s.d. a factor of e^0.5
    c               0.02 nats, s.d. 0.05         Quartet's formats lie between 0.007 and 0.09
    a, b            0, s.d. 0.2                  there from -0.18 to 0.18

The error of ln L is 1 %, of a gap its s.d. between seeds. A design that cannot determine a constant
leaves it at the guess. A wrong guess places runs less well, and never makes a wrong fit: the fit of
what was run does not know it.
"""

import numpy as np
from scipy.optimize import least_squares

from sweeps.design.information import Assumed
from sweeps.design.noise_level import NoiseLevel
from sweeps.design.wanted import Constant, Place, Term, Wanted
from sweeps.fits.target import LinearLoss, LogLoss, Model
from sweeps.laws.chinchilla import Chinchilla
from sweeps.laws.gap_power import GapPower
from sweeps.laws.joint import Effect, by_arm, joint
from sweeps.laws.law import Array, At, Law, at

LAW_ERROR = 0.01
FIRST_LOSS = 3.0
"""Nats per token, before anything is measured."""

GAP_GUESS = ((0.02, 0.05), (0.0, 0.2), (0.0, 0.2))
LEAST_EXPONENT = 0.02


def of_losses(
    wanted: Wanted, place: Place, where: At, losses: Array, noise: NoiseLevel
) -> tuple[Assumed, Array]:
    """The law of losses with constants, and the information of the guess, shape (p, p).

    Args:
        wanted: What is asked about; decides whether there is a second arm.
        place: Where.
        where: Measured places, also none.
        losses: Nats per token, shape (n,).
        noise: Of runs.
    """
    x0, y0 = _center(where, place)
    law: Law = Chinchilla(x0=x0, y0=y0)
    if has_recipe(wanted):
        law = joint(law, by_arm(("bf16", str(wanted.recipe))), (Effect.N, Effect.D))
    level = float(np.exp(np.log(losses).mean())) if len(where) else FIRST_LOSS
    scale = float(np.log(0.2 * level))
    rows = [(0.6 * level, 0.25 * level), (scale, 1.5), (scale, 1.5), (0.34, 0.15), (0.37, 0.15)]
    rows += [(float(np.log(0.9)), 0.5)] * (len(law.parameters) - len(rows))
    guess = np.array(rows)
    lower = np.full(len(guess), -np.inf)
    lower[[0, 3, 4]] = 0.0, LEAST_EXPONENT, LEAST_EXPONENT
    theta = _theta(LogLoss(law=law), where, np.log(losses), LAW_ERROR, guess, lower)
    assumed = Assumed(
        model=LinearLoss(law=law),
        is_of_gaps=False,
        theta=theta,
        noise=noise,
        place=place,
        is_everywhere=wanted.place is None,
    )
    return assumed, np.diag(guess[:, 1] ** -2)


def of_gaps(place: Place, where: At, gaps: Array, noise: NoiseLevel) -> tuple[Assumed, Array]:
    """The law of gaps with constants, and the information of the guess, shape (3, 3).

    Args:
        place: Where.
        where: Of the pairs, also none.
        gaps: Nats per token, shape (n,).
        noise: Of runs.
    """
    law, guess = GapPower.power(*_center(where, place)), np.array(GAP_GUESS)
    theta = _theta(law, where, gaps, noise.sd, guess, np.full(3, -np.inf))
    assumed = Assumed(model=law, is_of_gaps=True, theta=theta, noise=noise, place=place)
    return assumed, np.diag(guess[:, 1] ** -2)


def has_recipe(wanted: Wanted) -> bool:
    """Whether a quantized recipe is part of the question."""
    return wanted.recipe not in (None, "bf16")


def value(assumed: Assumed, wanted: Wanted, theta: Array | None = None) -> float:
    """The quantity at the guess, or at another theta."""
    place, point = assumed.place, assumed.theta if theta is None else theta
    match assumed.model, wanted.what:
        case model, Term.GAP | Term.LOSS:
            arm = int(has_recipe(wanted))
            return float(model.predict(point, at(place.N, place.D, arm))[0])
        case LinearLoss(law=law), Constant.C_MULT:
            return float(np.prod(law.constants(point)[-2:]))
        case LinearLoss(law=law), what:
            name = f"{what}[{wanted.recipe}]" if has_recipe(wanted) else str(what)
            return float(law.constants(point)[law.parameters.index(name)])
        case _:
            raise AssertionError(f"{wanted.what} is no constant of a law of gaps")


def gradient(assumed: Assumed, wanted: Wanted) -> Array:
    """Derivative of the quantity by theta, shape (p,), by central differences."""
    step = 1e-5
    moves = step * np.eye(len(assumed.theta))
    ups = np.array([value(assumed, wanted, assumed.theta + move) for move in moves])
    downs = np.array([value(assumed, wanted, assumed.theta - move) for move in moves])
    slope: Array = (ups - downs) / (2 * step)
    return slope


def _center(where: At, place: Place) -> tuple[float, float]:
    return where.center if len(where) else (float(np.log(place.N)), float(np.log(place.D)))


def _theta(
    model: Model, where: At, observed: Array, error: float, guess: Array, lower: Array
) -> Array:
    middle: Array = guess[:, 0]
    sd: Array = guess[:, 1]
    if not len(where):
        return middle

    def residuals(theta: Array) -> Array:
        misses = (model.predict(theta, where) - observed) / error
        return np.concatenate([misses, (theta - middle) / sd])

    def jacobian(theta: Array) -> Array:
        return np.concatenate([model.jacobian(theta, where) / error, np.diag(1 / sd)])

    found = least_squares(residuals, middle, jac=jacobian, bounds=(lower, np.inf), x_scale=sd)
    return np.asarray(found.x, dtype=np.float64)
