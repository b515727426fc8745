"""What `gridlaw fit` and `gridlaw fits` print for people."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table

from api.terminal import heading, number, plain_table
from orchestrator.summaries import FitSummary
from sweeps.fits.evidence import Criteria
from sweeps.fits.result import Estimate, Fit
from sweeps.tables.kept_fit import fit_id
from sweeps.wording import plural

Lines = Iterator[RenderableType]


def fit_lines(fits: Iterable[Fit]) -> Lines:
    """Each fit: what may be read off it, its constants, and what stands beside them."""
    for fit in fits:
        yield heading(
            f"Fit of {fit.label}: {fit.status}, law {fit.law_name}, "
            f"{plural(fit.n_points, 'endpoint')} in {plural(fit.n_cells, 'cell')}"
        )
        if fit.solution is not None:
            yield fit.solution.law.formula
        yield _constants(fit)
        yield from fit.verdict
        if fit.criteria is not None:
            yield _forms((fit.criteria, *fit.rivals))
        yield f"Id {fit_id(fit)}, input {fit.input_hash}, method {fit.method_version}."
        yield ""


def list_lines(fits: Sequence[FitSummary]) -> Lines:
    """All kept fits, newest first."""
    if not fits:
        yield "No fit is kept in this home; `gridlaw fit` keeps each that it makes."
        return
    yield heading("Kept fits, newest first (times in UTC)")
    table = plain_table(left=("fit", "label", "from", "law", "status", "input", "kept"))
    for fit in fits:
        table.add_row(
            fit.fit_id,
            fit.label,
            fit.source,
            fit.law,
            fit.status,
            fit.input_hash,
            f"{fit.created_at:%Y-%m-%d %H:%M:%S}",
        )
    yield table


def _constants(fit: Fit) -> Table:
    without, profiles = _by_name(fit.without_outliers), _by_name(fit.profiles)
    more = [
        *(["no outliers"] if without else []),
        *(["profile low", "profile high"] if profiles else []),
    ]
    table = plain_table(left=("constant",), right=("value", "95 % low", "95 % high", *more))
    if noted := any(item.reason for item in fit.estimates):
        table.add_column("why not", overflow="fold")
    for alike in _alike(fit.estimates):
        item = alike[0]
        lean, profile = without.get(item.name), profiles.get(item.name)
        cells = [item.value, item.low, item.high]
        if without:
            cells.append(lean.value if lean else None)
        if profiles:
            cells += [profile.low, profile.high] if profile else [None, None]
        shown = [number(cell, ".4g") for cell in cells]
        names = ", ".join(one.name for one in alike)
        table.add_row(names, *shown, *([item.reason] if noted else []))
    return table


def _alike(estimates: Sequence[Estimate]) -> list[list[Estimate]]:
    """Neighbours that are not identified for one reason together, every other constant alone."""
    groups = groupby(estimates, key=lambda item: item.reason)
    return [
        part
        for reason, items in groups
        for part in ([list(items)] if reason else [[item] for item in items])
    ]


def _by_name(estimates: Sequence[Estimate]) -> dict[str, Estimate]:
    return {item.name: item for item in estimates}


def _forms(criteria: Sequence[Criteria]) -> Table:
    table = plain_table(
        left=("form",), right=("constants", "rms", "AICc", "BIC", "error on largest size left out")
    )
    for one in criteria:
        table.add_row(
            one.law,
            str(one.n_constants),
            number(one.rms, ".5f"),
            number(one.aicc, ".1f"),
            number(one.bic, ".1f"),
            MISSING_ERROR if one.held_out is None else f"{100 * one.held_out:.2f} %",
        )
    return table


MISSING_ERROR = "smaller sizes fix no law"
