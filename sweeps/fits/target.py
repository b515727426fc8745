"""What a search lowers: residuals of a model against what was observed.

    log        r = ln Lhat - ln L      relative errors; the default
    linear     r = Lhat - L            nats per token, as some published fits have it
    objective = sum_i w_i H(r_i)       a sum, never a mean
    H(r) = r^2 / 2 inside delta, delta (|r| - delta / 2) outside      Huber; delta may be infinite

A model predicts in the unit of its residuals, so that losses and gaps are fitted by one search.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from sweeps.fits.points import Points
from sweeps.laws.law import Array, At, Bounds, Law


class Residual(StrEnum):
    """In which unit residuals are taken."""

    LOG = "log"
    LINEAR = "linear"


class Model(Protocol):
    """Predictions and their derivatives; theta of shape (..., p)."""

    def predict(self, theta: Array, where: At) -> Array:
        """Predictions, shape (..., n)."""
        ...

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of the predictions by theta, shape (..., n, p)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLoss:
    """A law by its ln L."""

    law: Law

    def predict(self, theta: Array, where: At) -> Array:
        """The logarithm of L."""
        return self.law.log_loss(theta, where)

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of ln L."""
        return self.law.jacobian(theta, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearLoss:
    """A law by its L."""

    law: Law

    def predict(self, theta: Array, where: At) -> Array:
        """Loss, nats per token."""
        value: Array = np.exp(self.law.log_loss(theta, where))
        return value

    def jacobian(self, theta: Array, where: At) -> Array:
        """Derivatives of L."""
        return self.predict(theta, where)[..., None] * self.law.jacobian(theta, where)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A model, what it must meet, and where it may look.

    Attributes:
        model: What predicts.
        where: Places of the observations.
        observed: Shape (n,), in the model's unit.
        bounds: Limits of theta.
    """

    model: Model
    where: At
    observed: Array
    bounds: Bounds

    def residuals(self, theta: Array) -> Array:
        """Prediction less observation, shape (..., n)."""
        return self.model.predict(theta, self.where) - self.observed

    def jacobian(self, theta: Array) -> Array:
        """Derivatives of the residuals, shape (..., n, p)."""
        return self.model.jacobian(theta, self.where)


def loss_target(law: Law, points: Points, residual: Residual = Residual.LOG) -> Target:
    """The target of fitting a law to losses."""
    bounds = law.bounds(points.where, points.loss)
    match residual:
        case Residual.LOG:
            model: Model = LogLoss(law=law)
            observed = np.log(points.loss)
        case Residual.LINEAR:
            model, observed = LinearLoss(law=law), points.loss
    return Target(model=model, where=points.where, observed=observed, bounds=bounds)


def huber(residuals: Array, delta: float) -> Array:
    """Huber loss of each residual; delta may be infinite."""
    size = np.abs(residuals)
    inner = np.minimum(size, delta)
    return inner * (size - inner / 2)
