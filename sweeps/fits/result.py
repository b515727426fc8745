"""Fit: what a law fitted to endpoints says, how sure it is, and where it came from.

A status says what may be read off a fit:

    identified      constants with intervals; predictions also outside the data
    inside only     predictions with intervals inside the data range, constants not apart
    not identified  no prediction; the measured losses and the paired gaps are all there is

Inside means between the least and the greatest N, D and D/N. `Samples` keeps the parameter draws
behind the intervals (bootstrap resamples, or t draws of a line), so that a band around any curve
needs no refit. Losses are in nats per token, intervals are 95 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sweeps.fits.evidence import Criteria, Excluded, Outlier
from sweeps.fits.points import Points
from sweeps.fits.settings import METHOD_VERSION, Settings
from sweeps.intervals import LEVEL
from sweeps.laws.law import Array, Law, at, loss

QUANTILES = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


class Status(StrEnum):
    """What may be read off a fit."""

    IDENTIFIED = "identified"
    INSIDE_ONLY = "inside only"
    NOT_IDENTIFIED = "not identified"


class Method(StrEnum):
    """Where the interval comes from."""

    BOOTSTRAP = "widened percentile bootstrap over (N, D) cells or runs"
    STUDENT_T = "t draws from least squares on cell means"
    NONE = "no draws: the design carries no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One constant of a law.

    Attributes:
        name: As in the law's formula.
        value: Best value; None when no law was fitted or the constant is not identified.
        low: Lower end of the 95 % interval, None with the value.
        high: Upper end of the 95 % interval, None with the value.
        identified: Whether the data determine the constant by itself.
        reason: Why it is not identified; else empty.
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    identified: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Samples:
    """Parameter draws, (rows, columns), kept as little-endian float32."""

    data: bytes
    columns: int

    @classmethod
    def of(cls, theta: Array) -> "Samples":
        """From draws of shape (rows, columns)."""
        return cls(np.ascontiguousarray(theta, dtype="<f4").tobytes(), theta.shape[1])

    @property
    def rows(self) -> int:
        """Number of draws."""
        return len(self.data) // (4 * self.columns)

    def array(self) -> Array:
        """The draws as float64, shape (rows, columns)."""
        flat = np.frombuffer(self.data, dtype="<f4")
        return flat.reshape(self.rows, self.columns).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The fitted law in its own parameters; what curves are drawn from.

    Attributes:
        law: The form, with its centre.
        theta: Best parameters, in the order of the law's theta.
        samples: Draws of theta behind the intervals.
        covariance: Of the draws of theta, row by row.
        method: How the draws were made.
        delta: Huber threshold in the unit of the residuals; None for least squares.
        objective: Sum of the Huber loss over the points at the optimum (half the sum of squares
            for least squares).
        rms: Root mean square of the residuals.
        noise: Their robust standard deviation, as in `outliers`.
        degrees: Clusters less constants that could move, at least 1.
        gradient: Largest |gradient| by a parameter that could move, over what it would be were all
            residuals of one sign; 0 at an exact optimum.
        condition: Condition number of the Jacobian with columns of unit length.
        bounds_hit: Constants that ended on a bound of the search.
        starts: Local searches polished.
        starts_agreeing: Of them, how many ended within 1e-6 (relative) of the best objective.
        basin_ratio: Objective of the best local minimum that differs, over the best; None when
            all starts agree.
    """

    law: Law
    theta: tuple[float, ...]
    samples: Samples
    covariance: tuple[tuple[float, ...], ...]
    method: Method
    delta: float | None
    objective: float
    rms: float
    noise: float
    degrees: int
    gradient: float
    condition: float
    bounds_hit: tuple[str, ...] = ()
    starts: int = 1
    starts_agreeing: int = 1
    basin_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another fit that a reader might have made of the same points; only its optimum is kept.

    Attributes:
        what: The other form, or the size that was left out.
        law: The form, with its centre.
        theta: Best parameters.
    """

    what: str
    law: Law
    theta: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A law fitted to endpoints of one recipe, or of several that share constants.

    Attributes:
        label: What was fitted: a recipe, a group of a file.
        status: What may be read off.
        estimates: Constants of the form asked for, then those of a law fitted in its place.
        verdict: Sentences for people, most important first.
        solution: The law and its draws, none of a bare optimum; None when nothing was fitted.
        arms: Names of the arms, the reference first.
        n_points: Endpoints used.
        n_cells: Distinct (N, D) among them.
        n_clusters: What the intervals count as independent.
        N_range: Smallest and largest N; None without points.
        D_range: Smallest and largest D; None without points.
        ratio_range: Smallest and largest D/N; None without points.
        criteria: How well the form does, in the data and on sizes left out; None without a law.
        rivals: The same of the other forms that were tried.
        alternatives: Other forms, and the form without the largest size: the model-form spread.
        outliers: Points more than 4 robust standard deviations off; they are fitted all the same.
        without_outliers: The constants refitted without them; empty if there are none.
        profiles: Profile-likelihood intervals, given where few clusters make the others short.
        excluded: Endpoints that are not among the points, and why.
        settings: How it was fitted.
        method_version: Of the code that fitted it.
        input_hash: First 16 hex digits of SHA-256 over the rows used.
    """

    label: str
    status: Status
    estimates: tuple[Estimate, ...]
    verdict: tuple[str, ...]
    solution: Solution | None
    arms: tuple[str, ...]
    n_points: int
    n_cells: int
    n_clusters: int
    N_range: tuple[float, float] | None
    D_range: tuple[float, float] | None
    ratio_range: tuple[float, float] | None
    settings: Settings
    input_hash: str
    criteria: Criteria | None = None
    rivals: tuple[Criteria, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    without_outliers: tuple[Estimate, ...] = ()
    profiles: tuple[Estimate, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    method_version: int = METHOD_VERSION

    @classmethod
    def unfitted(
        cls, points: Points, *, label: str, settings: Settings, excluded: tuple[Excluded, ...]
    ) -> "Fit":
        """What is known of the points before any law is fitted to them."""
        return cls(
            label=label,
            status=Status.NOT_IDENTIFIED,
            estimates=(),
            verdict=(),
            solution=None,
            arms=points.arms,
            n_points=len(points),
            n_cells=points.n_cells,
            n_clusters=points.n_clusters,
            N_range=_range(points.N),
            D_range=_range(points.D),
            ratio_range=_range(points.D / points.N),
            settings=settings,
            excluded=excluded,
            input_hash=points.digest,
        )

    @property
    def law_name(self) -> str:
        """Name of the fitted law, or `none`."""
        return self.solution.law.name if self.solution is not None else "none"

    def allows(self, N: float, tokens: float) -> bool:
        """Whether the fit may say anything at this point."""
        match self.status:
            case Status.IDENTIFIED:
                return True
            case Status.INSIDE_ONLY:
                return (
                    _inside(N, self.N_range)
                    and _inside(tokens, self.D_range)
                    and _inside(tokens / N, self.ratio_range)
                )
            case Status.NOT_IDENTIFIED:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Loss against tokens at one N; all sequences of one length, empty where nothing may be said.

    Attributes:
        N: Parameters.
        tokens: Those of the asked tokens at which the fit may speak.
        loss: Best prediction, nats per token.
        low: Lower edge of the pointwise 95 % band of the mean loss.
        high: Upper edge.
    """

    N: float
    tokens: tuple[float, ...]
    loss: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def curve(fit: Fit, N: float, tokens: Sequence[float]) -> Curve:
    """Predicted loss with its band at those of the tokens at which the fit may speak.

    Args:
        fit: What was fitted.
        N: Parameters, in the counting of the fit's records.
        tokens: Where to evaluate, in any order; the order is kept.
    """
    allowed = [float(D) for D in tokens if fit.allows(N, D)]
    if fit.solution is None or not allowed:
        return Curve(N=N, tokens=(), loss=(), low=(), high=())
    law, where = fit.solution.law, at(N, allowed)
    best = loss(law, np.array(fit.solution.theta), where)
    draws = loss(law, fit.solution.samples.array(), where)
    low, high = np.quantile(draws, QUANTILES, axis=0)
    return Curve(
        N=N,
        tokens=tuple(allowed),
        loss=tuple(best.tolist()),
        low=tuple(np.minimum(low, best).tolist()),
        high=tuple(np.maximum(high, best).tolist()),
    )


def _range(values: Array) -> tuple[float, float] | None:
    return (float(values.min()), float(values.max())) if len(values) else None


def _inside(value: float, bounds: tuple[float, float] | None) -> bool:
    # One part in 1e9 of slack, so that a log-spaced grid may end on the range it was made from.
    return bounds is not None and bounds[0] * (1 - 1e-9) <= value <= bounds[1] * (1 + 1e-9)
