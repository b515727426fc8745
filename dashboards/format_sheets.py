"""Format sheets: what each recipe is worth against BF16, and the law that its gap follows."""

from collections.abc import Sequence

from dashboards.sheets import Sheet
from dashboards.wording import MISSING, constant, count, nats
from sweeps.effective.result import Effective, Multiplier
from sweeps.fits.gap_choice import GapCriteria, GapLaws
from sweeps.fits.result import Estimate


def effective_sheet(effective: Sequence[Effective]) -> Sheet:
    """Effective numbers of each recipe."""
    return Sheet(
        key="effective",
        caption="What a recipe is worth in BF16: C_mult multiplies compute, eff_N parameters, "
        "eff_D tokens; below 1 the recipe is worth less. It pays from a speed-up over BF16 of "
        "1 / C_mult. Ratios with 95 % intervals; eff_N and eff_D trade against each other "
        "(correlation of their logarithms), so that C_mult is the one to quote.",
        columns=(
            *("Recipe", "#C_mult", "#95 % interval", "#Pays from", "#95 % interval of it"),
            *("#eff_N", "#95 % of eff_N", "#eff_D", "#95 % of eff_D", "#Correlation", "#Cells"),
            "Method",
        ),
        rows=tuple(_effective(one) for one in effective),
    )


def gap_laws_sheet(laws: Sequence[GapLaws]) -> Sheet:
    """The law chosen for the gap of each recipe."""
    return Sheet(
        key="gap-laws",
        caption="The law of each gap, fitted to paired differences: gap in nats per token, c at N0 "
        "and D0, multipliers as ratios, exponents without unit; constants with 95 % intervals. "
        "The s.d. is of one pair about the law; the held-out error is the root mean square on the "
        "pairs of the largest N, predicted from the smaller ones.",
        columns=(
            *("Recipe", "Law", "Constants", "#N0", "#D0", "#s.d.", "#Held-out error"),
            *("#Pairs (cells)", "Interval over", "How it was chosen"),
        ),
        rows=tuple(
            (
                law.label,
                law.fit.formula,
                ", ".join(_estimate(one) for one in law.fit.estimates) or "none",
                count(law.fit.N0),
                count(law.fit.D0),
                nats(law.fit.sd),
                nats(_chosen(law).held_out),
                f"{law.fit.n_pairs} ({law.fit.n_cells})",
                law.fit.over or MISSING,
                law.how,
            )
            for law in laws
        ),
    )


def gap_criteria_sheet(laws: Sequence[GapLaws]) -> Sheet:
    """How every law does on the gaps of each recipe."""
    return Sheet(
        key="gap-criteria",
        caption="Every law of the gap beside the chosen one: root mean square of its residuals and "
        "its held-out error on the largest N, nats per token; AICc and BIC, of which differences "
        "inside a recipe count.",
        columns=(
            *("Recipe", "Law", "#Constants", "#r.m.s.", "#Held-out error", "#s.e.", "#AICc"),
            *("#BIC", "Note"),
        ),
        rows=tuple(
            (
                law.label,
                one.form.value,
                str(one.n_constants),
                nats(one.rms),
                nats(one.held_out),
                nats(one.held_out_se),
                _score(one.aicc),
                _score(one.bic),
                "chosen" if one.form is law.chosen else one.reason,
            )
            for law in laws
            for one in law.criteria
        ),
    )


def _effective(one: Effective) -> tuple[str, ...]:
    pairs = [
        text
        for number in (one.C_mult, one.break_even, one.eff_N, one.eff_D)
        for text in (constant(number.value), _ends(number))
    ]
    return (
        one.label,
        *pairs,
        MISSING if one.correlation is None else f"{one.correlation:.2f}".replace("-", "−"),
        str(one.n_cells),
        one.C_mult.method.value,
    )


def _ends(one: Multiplier | Estimate) -> str:
    if one.low is None or one.high is None:
        return MISSING
    return f"[{constant(one.low)}, {constant(one.high)}]"


def _estimate(one: Estimate) -> str:
    return f"{one.name} = {constant(one.value)} {_ends(one)}"


def _chosen(law: GapLaws) -> GapCriteria:
    return next(one for one in law.criteria if one.form is law.chosen)


def _score(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}".replace("-", "−")
