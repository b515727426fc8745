"""What a fit says of itself: first what cannot be read off it, then how sure the rest is."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from sweeps.fits.bootstrap import CAUTIOUS_CELLS
from sweeps.fits.evidence import Criteria, Excluded, Outlier
from sweeps.fits.identifiability import Design
from sweeps.fits.outliers import EXACT
from sweeps.fits.result import Estimate, Fit, Solution, Status
from sweeps.fits.settings import AUTO, Diverged
from sweeps.laws.law import Array
from sweeps.wording import listed, plural

NAMED = 3
"""Outliers and excluded endpoints told one by one; the rest is counted."""

MOVED = 4
"""Constants told of a refit."""

WORST_GRADIENT = 1e-3


def law_verdict(fit: Fit, design: Design) -> tuple[str, ...]:
    """Of a law with draws; the fit lacks nothing but its verdict."""
    assert fit.solution is not None
    lines = _unidentified(fit.estimates)
    if not lines:
        lines.append(_all_stand(fit, design))
    if fit.status is Status.INSIDE_ONLY:
        lines.append("The law predicts inside the data range alone; nothing is said beyond it.")
    if fit.criteria is not None and fit.rivals:
        lines.append(_compared(fit, fit.criteria))
    if fit.n_clusters < CAUTIOUS_CELLS:
        lines.append(_few(fit))
    lines += _search(fit.solution)
    if fit.outliers:
        lines.append(_outliers(fit))
    lines.append("No interval holds the error of the law's form, which grows outside the data.")
    return tuple(lines)


def bare_verdict(fit: Fit, design: Design, values: Array) -> tuple[str, ...]:
    """Of an optimum without intervals."""
    assert fit.solution is not None
    law = fit.solution.law
    told = ", ".join(
        f"{name} = {value:.6g}" for name, value in zip(law.parameters, values.tolist(), strict=True)
    )
    return (
        f"{listed(law.parameters)} are not identified: {'; '.join(design.reasons)}.",
        f"The optimum of {law.formula} lies at {told}; it has no interval, and nothing is "
        "predicted from it.",
        *_search(fit.solution),
    )


def absent_sentence(excluded: Sequence[Excluded], policy: Diverged) -> str:
    """What was not fitted, and what became of diverged runs."""
    counts = [
        f"{len(list(alike))} {reason}"
        for reason, alike in groupby(
            sorted(excluded, key=lambda one: one.reason), lambda one: one.reason
        )
    ]
    runs: dict[tuple[str, str], list[str]] = {}
    for one in excluded:
        runs.setdefault((one.label, one.reason), []).append(f"{one.tokens:,.0f}")
    told = [f"{label} at {listed(at)} tokens ({why})" for (label, why), at in runs.items()]
    named = told[:NAMED]
    more = f" and {plural(len(told) - NAMED, 'more run')}" if len(told) > NAMED else ""
    sentence = f"Not fitted: {listed(counts)}; {', '.join(named)}{more}."
    if not any(one.is_diverged for one in excluded):
        return sentence
    match policy:
        case Diverged.LEAVE_OUT:
            kept = "the law is of the runs that converge, and their cells stay in the fit"
        case Diverged.DROP_CELL:
            kept = "their cells are left out of every arm"
        case Diverged.REFUSE:
            kept = "no law is fitted beside them"
    return f"{sentence} Of diverged runs {kept} (policy: {policy})."


def _unidentified(estimates: tuple[Estimate, ...]) -> list[str]:
    lines = []
    for reason, alike in groupby(
        (one for one in estimates if not one.identified), key=lambda one: one.reason
    ):
        names = [one.name for one in alike]
        verb = "is" if len(names) == 1 else "are"
        lines.append(f"{listed(names)} {verb} not identified: {reason}.")
    return lines


def _all_stand(fit: Fit, design: Design) -> str:
    assert fit.solution is not None
    covariance = np.array(fit.solution.covariance)
    spread = np.sqrt(np.diag(covariance))
    with np.errstate(divide="ignore", invalid="ignore"):
        related = np.nan_to_num(covariance / np.outer(spread, spread))
    related = np.tril(related, -1)
    place = np.unravel_index(np.abs(related).argmax(), related.shape)
    first, second = (fit.estimates[int(index)].name for index in place[::-1])
    return (
        f"All {len(fit.estimates)} constants of {fit.solution.law.formula} are identified from "
        f"{plural(design.n_cells, 'cell')}; they are strongly correlated ({first} and {second}: "
        f"{related[place]:+.2f} as the search moves them), so prefer predictions and gaps to "
        "single constants."
    )


def _compared(fit: Fit, chosen: Criteria) -> str:
    everyone = sorted((chosen, *fit.rivals), key=lambda one: one.n_constants)
    why = "is reported" if fit.settings.law == AUTO else "was asked for"
    if all(one.held_out is None for one in everyone):
        scores = [f"{one.law} {_number(one.aicc)}" for one in everyone]
        return (
            "No size can be left out to compare forms by (sizes within 10 % count as one); their "
            f"AICc: {listed(scores)}; the {chosen.law} form {why}."
        )
    errors = [f"{one.law} {_percent(one.held_out)}" for one in everyone]
    least = min(one.held_out for one in everyone if one.held_out is not None)
    if fit.settings.law == AUTO and chosen.held_out is not None and chosen.held_out > least:
        why += ", of fewest constants among those within a standard error that AICc leaves standing"
    return (
        f"Error on the largest size, left out of the fit: {listed(errors)}; the {chosen.law} form "
        f"{why}."
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f}"


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.2f} %"


def _few(fit: Fit) -> str:
    what = "cells" if fit.n_clusters == fit.n_cells else "independent runs"
    told = [
        f"{one.name} {one.low:.4g} to {one.high:.4g}"
        for one in fit.profiles
        if one.low is not None and one.high is not None
    ]
    beside = f"; profile-likelihood intervals beside them: {listed(told)}" if told else ""
    return (
        f"With {fit.n_clusters} {what}, fewer than {CAUTIOUS_CELLS}, the 95 % intervals rest on "
        f"little: in simulations of such designs they covered between 90 and 99 %{beside}."
    )


def _search(solution: Solution) -> list[str]:
    lines: list[str] = []
    if solution.rms < EXACT:
        return lines
    if solution.starts_agreeing < solution.starts:
        ratio = solution.basin_ratio
        next_best = "" if ratio is None else f"; the next best basin is {ratio - 1:.2g} worse"
        lines.append(
            f"{solution.starts_agreeing} of {solution.starts} starts reached the best optimum"
            f"{next_best}."
        )
    if solution.gradient > WORST_GRADIENT:
        lines.append(
            f"The gradient at the optimum is {solution.gradient:.0e} of what it could be: the "
            "search did not converge."
        )
    return lines


def _outliers(fit: Fit) -> str:
    told = [_outlier(one, len(fit.arms) > 1) for one in fit.outliers[:NAMED]]
    more = f" and {len(fit.outliers) - NAMED} more" if len(fit.outliers) > NAMED else ""
    number = len(fit.outliers)
    verb, kept, them = ("lies", "is", "it") if number == 1 else ("lie", "are", "them")
    shape = fit.solution.law.shape if fit.solution is not None else ()
    moved = [
        f"{one.name} = {one.value:.4g}"
        for one in fit.without_outliers
        if one.value is not None and one.name in shape
    ][:MOVED]
    without = f"; without {them} {', '.join(moved)}" if moved else ""
    return (
        f"{number} of {plural(fit.n_points, 'point')} {verb} more than 4 robust standard "
        f"deviations off and {kept} fitted all the same: {', '.join(told)}{more}{without}."
    )


def _outlier(one: Outlier, with_arm: bool) -> str:
    arm = f"{one.arm}, " if with_arm else ""
    return f"{arm}N = {one.N:.3g}, D = {one.D:.3g}, loss {one.loss:.5g} ({-one.residual:+.1f} s.d.)"
