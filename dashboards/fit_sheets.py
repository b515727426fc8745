"""Fit sheets: how the forms of a law compare, and the best size that they give a budget."""

from collections.abc import Sequence

from dashboards.sheets import Sheet
from dashboards.wording import MISSING, count, nats, scientific
from sweeps.fits.evidence import Criteria
from sweeps.fits.optimum import Allocation, Band, optimal
from sweeps.fits.result import Fit, Status
from sweeps.laws.frontier import FLOPS_PER_N_D

BUDGETS = (1.0, 10.0, 100.0)
"""Budgets of the table of best sizes, in units of the largest N and D of the data together."""


def forms_sheet(fits: Sequence[Fit]) -> Sheet:
    """Every form that was tried on each recipe."""
    return Sheet(
        key="forms",
        caption="Forms of the law, the reported one first: root mean square of the residuals of "
        "ln L; AICc and BIC, of which differences inside a recipe count; relative error on the "
        "largest N, predicted by the fit of the smaller ones, with its standard error.",
        columns=(
            *("Recipe", "Law", "#Constants", "#r.m.s.", "#AICc", "#BIC"),
            *("#Error on the largest N", "#s.e."),
        ),
        rows=tuple(
            _form(fit.label, one)
            for fit in fits
            if fit.criteria is not None
            for one in (fit.criteria, *fit.rivals)
        ),
    )


def best_sizes_sheet(fits: Sequence[Fit]) -> Sheet:
    """The best N and D by each law that is identified."""
    return Sheet(
        key="best-sizes",
        caption="Best N and D for a budget of C = 6 N D FLOPs by the fitted law, with 95 % "
        "intervals: at the compute of the largest N with the largest D, at ten and at a hundred "
        "times it. Distances are powers of ten beyond the data; no interval holds the error of "
        "the law’s form, which grows with them.",
        columns=(
            *("Recipe", "#C", "#N", "#95 % of N", "#D", "#95 % of D", "#D/N", "#Loss"),
            *("#95 % of loss", "#Beyond in N", "#Beyond in D", "Note"),
        ),
        rows=tuple(
            _best(fit.label, one)
            for fit in fits
            if fit.status is Status.IDENTIFIED and fit.N_range and fit.D_range
            for one in optimal(
                fit,
                [FLOPS_PER_N_D * fit.N_range[1] * fit.D_range[1] * times for times in BUDGETS],
            )
        ),
    )


def _form(recipe: str, one: Criteria) -> tuple[str, ...]:
    return (
        recipe,
        one.law,
        str(one.n_constants),
        f"{one.rms:.5f}",
        _score(one.aicc),
        _score(one.bic),
        _percent(one.held_out),
        _percent(one.held_out_se),
    )


def _best(recipe: str, one: Allocation) -> tuple[str, ...]:
    return (
        recipe,
        scientific(one.flops),
        *_counted(one.N, one.N_band),
        *_counted(one.D, one.D_band),
        MISSING if one.ratio is None else f"{one.ratio:.3g}",
        nats(one.loss),
        MISSING if one.loss_band is None else " to ".join(map(nats, one.loss_band)),
        MISSING if one.decades_N is None else f"{one.decades_N:.2f}",
        MISSING if one.decades_D is None else f"{one.decades_D:.2f}",
        one.reason,
    )


def _counted(value: float | None, band: Band | None) -> tuple[str, str]:
    if value is None or band is None:
        return MISSING, MISSING
    return count(value), f"{count(band[0])} to {count(band[1])}"


def _score(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}".replace("-", "−")


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:.2f} %"
