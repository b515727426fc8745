"""The tables of what was fitted: curves on a grid, constants, and how they vary together.

    curves       33 token counts over the data of a fit, log-spaced, at each size, in each arm
    parameters   a row is one constant of one fit, or the reason why there is none
    covariance   of the draws of theta, the parameters of the search: with the value of theta and
                 the centre of ln N and ln D it gives any band to first order

C is D x FLOPs per token: exact for the models of a sweep, 6 N for the rows of somebody's file.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sweeps.fit_json import CURVE_POINTS, Size, sizes_of
from sweeps.fits.predict import Prediction, predict
from sweeps.fits.result import Estimate, Fit, Solution
from sweeps.tables.kept_fit import fit_id
from sweeps.tables.results import FLOPS, NATS
from sweeps.tables.table import Cell, Column, Kind, Table, tabulate

FIT_ID = Column(
    name="fit_id",
    kind=Kind.TEXT,
    meaning="Identity of the fit: its points, label, settings and method.",
)
FIT = Column(name="fit", kind=Kind.TEXT, meaning="What was fitted: a recipe, or a group of a file.")
LAW = Column(name="law", kind=Kind.TEXT, meaning="Name of the fitted law, or none.")
CONSTANT = Column(
    name="constant", kind=Kind.TEXT, meaning="Name of the constant, as in the law's formula."
)
FORMULA = Column(
    name="formula", kind=Kind.TEXT, meaning="The law, L in nats per token, N and D in raw counts."
)


def _loss(name: str, meaning: str) -> Column:
    return Column(name=name, kind=Kind.NUMBER, unit=NATS, meaning=meaning)


def _number(name: str, meaning: str) -> Column:
    return Column(name=name, kind=Kind.NUMBER, unit="as the formula has it", meaning=meaning)


CURVE_COLUMNS = (
    FIT_ID,
    FIT,
    LAW,
    Column(name="arm", kind=Kind.TEXT, meaning="Arm of the fit; its only one unless it is joint."),
    Column(name="model", kind=Kind.TEXT, meaning="Name of the model of this size; empty if none."),
    Column(name="N", kind=Kind.NUMBER, unit="parameters", meaning="Parameters."),
    Column(name="D", kind=Kind.NUMBER, unit="tokens", meaning="Training tokens."),
    Column(name="flops", kind=Kind.NUMBER, unit=FLOPS, meaning="D x FLOPs per token."),
    _loss("loss", "Predicted mean loss; empty where the fit may not speak."),
    _loss("low", "Lower end of the pointwise 95 % band of the mean loss."),
    _loss("high", "Upper end of the pointwise 95 % band of the mean loss."),
    _loss("new_low", "Lower end of the 95 % interval of the loss of one more run."),
    _loss("new_high", "Upper end of the 95 % interval of the loss of one more run."),
    _loss("form_low", "Least prediction over other forms and the fit without the largest size."),
    _loss("form_high", "Greatest prediction over these forms."),
)

PARAMETER_COLUMNS = (
    FIT_ID,
    FIT,
    LAW,
    FORMULA,
    Column(name="status", kind=Kind.TEXT, meaning="What may be read off the fit."),
    CONSTANT,
    _number("value", "Best value; empty where it is not identified."),
    _number("low", "Lower end of the 95 % interval."),
    _number("high", "Upper end of the 95 % interval."),
    Column(
        name="identified",
        kind=Kind.BOOLEAN,
        meaning="Whether the data determine the constant by itself.",
    ),
    Column(name="reason", kind=Kind.TEXT, meaning="Why it is not identified; else empty."),
    _number("without_outliers", "Best value without the outliers; empty if there are none."),
    _number(
        "profile_low", "Lower end of the profile-likelihood interval, given with few clusters."
    ),
    _number("profile_high", "Upper end of it."),
    Column(
        name="theta",
        kind=Kind.NUMBER,
        meaning="Value of this constant's parameter of the search, about the centre.",
    ),
    Column(name="center_ln_N", kind=Kind.NUMBER, meaning="Centre of ln N in the search."),
    Column(name="center_ln_D", kind=Kind.NUMBER, meaning="Centre of ln D in the search."),
)

COVARIANCE_COLUMNS = (
    FIT_ID,
    FIT,
    LAW,
    CONSTANT,
    Column(name="other", kind=Kind.TEXT, meaning="Name of the other constant; also the same one."),
    Column(
        name="covariance",
        kind=Kind.NUMBER,
        meaning="Of the two parameters of the search over the draws behind the intervals.",
    ),
    Column(name="correlation", kind=Kind.NUMBER, meaning="The same over both deviations."),
)


def curve_table(fits: Sequence[Fit], sizes: Sequence[Size] | None = None) -> Table:
    """Curves of fits with their bands.

    Args:
        fits: What was fitted.
        sizes: Where; by default sizes over the data of each fit, at 6 N FLOPs per token.
    """
    return tabulate(
        "curves",
        "A row is the loss that a fit predicts at one (N, D).",
        CURVE_COLUMNS,
        (row for fit in fits for row in _curve_rows(fit, sizes)),
    )


def parameter_table(fits: Sequence[Fit]) -> Table:
    """Constants of fits."""
    return tabulate(
        "parameters",
        "A row is one constant of one fit.",
        PARAMETER_COLUMNS,
        (row for fit in fits for row in _parameter_rows(fit)),
    )


def covariance_table(fits: Sequence[Fit]) -> Table:
    """Covariances of the parameters of the search."""
    return tabulate(
        "covariance",
        "A row is one pair of constants of one fit.",
        COVARIANCE_COLUMNS,
        (row for fit in fits if fit.solution for row in _covariance_rows(fit, fit.solution)),
    )


def _named(fit: Fit) -> dict[str, Cell]:
    return {"fit_id": fit_id(fit), "fit": fit.label, "law": fit.law_name}


def _curve_rows(fit: Fit, sizes: Sequence[Size] | None) -> Iterator[dict[str, Cell]]:
    if fit.solution is None or fit.D_range is None:
        return
    horizons = np.geomspace(*fit.D_range, CURVE_POINTS).tolist()
    named = _named(fit)
    for arm in fit.arms:
        for size in sizes_of(fit) if sizes is None else sizes:
            for tokens in horizons:
                found = _prediction(predict(fit, size.N, tokens, arm=arm))
                flops = tokens * size.flops_per_token
                yield named | found | {"arm": arm, "model": size.model, "flops": flops}


def _prediction(found: Prediction) -> dict[str, Cell]:
    names = ("N", "D", "loss", "low", "high", "new_low", "new_high", "form_low", "form_high")
    return {name: getattr(found, name) for name in names}


def _parameter_rows(fit: Fit) -> Iterator[dict[str, Cell]]:
    solution = fit.solution
    known = dict(zip(solution.law.parameters, solution.theta, strict=True)) if solution else {}
    without, profiles = _by_name(fit.without_outliers), _by_name(fit.profiles)
    for item in fit.estimates:
        lean, profile = without.get(item.name), profiles.get(item.name)
        yield _named(fit) | {
            "formula": solution.law.formula if solution else "",
            "status": fit.status.value,
            "constant": item.name,
            "value": item.value,
            "low": item.low,
            "high": item.high,
            "identified": item.identified,
            "reason": item.reason,
            "without_outliers": lean.value if lean else None,
            "profile_low": profile.low if profile else None,
            "profile_high": profile.high if profile else None,
            "theta": known.get(item.name),
            "center_ln_N": solution.law.x0 if solution else None,
            "center_ln_D": solution.law.y0 if solution else None,
        }


def _by_name(estimates: Sequence[Estimate]) -> dict[str, Estimate]:
    return {item.name: item for item in estimates}


def _covariance_rows(fit: Fit, solution: Solution) -> Iterator[dict[str, Cell]]:
    names = solution.law.parameters
    covariance = np.array(solution.covariance)
    deviations = np.sqrt(np.diag(covariance))
    products = np.outer(deviations, deviations)
    for i, name in enumerate(names):
        for j, other in enumerate(names):
            scale = float(products[i, j])
            yield _named(fit) | {
                "constant": name,
                "other": other,
                "covariance": float(covariance[i, j]),
                "correlation": float(covariance[i, j]) / scale if scale > 0 else None,
            }
