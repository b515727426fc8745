"""Sheets: the tables of the report as rows of text, in the order in which they are read.

A sheet has a caption that says unit, n and convention; its first column names the row.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log

from dashboards.plotted import Plotted
from dashboards.wording import MISSING, constant, count, interval, nats, percent, signed
from sweeps.answer import Answer
from sweeps.endpoints import Row
from sweeps.fits.result import Fit
from sweeps.gaps.paired import Gap, Unpaired
from sweeps.gaps.summaries import GapSummary
from sweeps.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table as text.

    Attributes:
        key: Names its element on the page and its CSV file.
        caption: What it holds, with units.
        columns: Heads; a head that starts with `#` stands over numbers, set to the right.
        rows: As long as the heads.
    """

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def csv(self) -> str:
        """The table as read on the page, as CSV."""
        return Plotted(tuple(head.lstrip("#") for head in self.columns), self.rows).csv()


def recipes_sheet(summaries: Sequence[GapSummary]) -> Sheet:
    """What the gaps of each recipe say together."""
    return Sheet(
        key="recipes",
        caption="Gap to BF16 by recipe: mean over models, nats per token, with its 95 % t "
        "interval: over seeds at these models where there are repeats, else over models. Horizons "
        "of one run share its trunk and count once; a cell is one (N, D), a pair two runs that "
        "differ in the recipe alone. Beside the margin, in nats per token: whether the mean gap is "
        "shown to lie within it, above it, or no worse than it, by two one-sided tests.",
        columns=(
            *("Recipe", "#Mean gap", "#95 % interval", "Over", "#Gap %", "#Models", "#Cells"),
            *("#Pairs", "#BF16 lower in", "#Without a pair", "Beside the margin", "Note"),
        ),
        rows=tuple(_recipe(summary) for summary in summaries),
    )


def cells_sheet(answer: Answer) -> Sheet:
    """Every planned endpoint, whatever came of it."""
    bf16 = {record.run_id for record in answer.records if record.spec.recipe.is_bf16}
    return Sheet(
        key="cells",
        caption="Endpoints: validation loss in nats per token at exactly D training tokens, "
        "through the recipe’s own forward pass; ± is the standard error over validation "
        "sequences, the same ones for every run, and no error of a gap; gap = loss − loss of the "
        "BF16 partner.",
        columns=(
            *("Model", "#N", "Recipe", "#Seed", "#D", "#D/N", "#Loss ± s.e."),
            *("#Bits per byte", "#Gap", "#Gap %", "Outcome", "Detail"),
        ),
        rows=tuple(_cell(row, bf16) for row in answer.rows),
    )


def fits_sheet(fits: Sequence[Fit]) -> Sheet:
    """Every constant of every fit, and whether the data determine it."""
    rows: list[tuple[str, ...]] = []
    for fit in fits:
        head = (fit.label, fit.status.value, fit.law_name, f"{fit.n_points} ({fit.n_cells})")
        for reason, alike in groupby(fit.estimates, key=lambda one: one.reason):
            constants = list(alike)
            if reason and all(one.value is None for one in constants):
                names = ", ".join(one.name for one in constants)
                rows.append((*head, names, MISSING, MISSING, f"not identified: {reason}"))
                continue
            for one in constants:
                numbers = (constant(one.value), _constants(one.low, one.high))
                note = "identified" if one.identified else f"not identified: {reason}"
                rows.append((*head, one.name, *numbers, note))
    return Sheet(
        key="fits",
        caption="Fitted constants with 95 % intervals. L in nats per token, N non-embedding "
        "parameters, D training tokens; points are endpoints, in brackets distinct (N, D).",
        columns=(
            *("Recipe", "Status", "Law", "#Points (cells)", "Constant", "#Value"),
            *("#95 % interval", "What it means"),
        ),
        rows=tuple(rows),
    )


def unpaired_sheet(unpaired: Sequence[Unpaired]) -> Sheet:
    """Endpoints without a gap, and why."""
    return Sheet(
        key="unpaired",
        caption="Endpoints asked of quantized runs that have no gap.",
        columns=("Run", "#N", "#D", "Why", "Detail", "Run id"),
        rows=tuple(
            (one.label, count(one.N), count(one.tokens), one.reason.value, one.detail, one.run_id)
            for one in unpaired
        ),
    )


def not_beaten_sheet(gaps: Sequence[Gap]) -> Sheet:
    """Where BF16 does not have the lower loss."""
    return Sheet(
        key="not-beaten",
        caption="Pairs in which BF16 does not have the lower loss, nats per token.",
        columns=("Run", "#N", "#D", "#Loss", "#BF16 loss", "#Gap", "#Gap %"),
        rows=tuple(
            (
                gap.label,
                count(gap.N),
                count(gap.tokens),
                nats(gap.loss),
                nats(gap.baseline_loss),
                signed(gap.gap),
                percent(gap.relative),
            )
            for gap in gaps
        ),
    )


def runs_sheet(records: Iterable[RunRecord]) -> Sheet:
    """Every run by id with its seeds and what came of it."""
    rows = []
    for record in records:
        seeds = record.spec.seeds
        rows.append(
            (
                record.run_id,
                record.spec.label,
                ", ".join(count(tokens) for tokens in record.horizons),
                f"{seeds.init} / {seeds.data} / {seeds.sr} / {seeds.rht}",
                record.outcome.value,
                record.detail,
            )
        )
    return Sheet(
        key="runs",
        caption="Runs; the id is a hash of all that can change a number in the run.",
        columns=("Run id", "Run", "#Horizons D", "#Seeds init/data/sr/rht", "Outcome", "Detail"),
        rows=tuple(rows),
    )


def _recipe(summary: GapSummary) -> tuple[str, ...]:
    sure = summary.certainty
    test = sure.equivalence if sure is not None else None
    return (
        summary.recipe,
        signed(summary.mean),
        interval(summary.low, summary.high),
        MISSING if sure is None else sure.basis.value,
        percent(summary.mean_relative),
        str(summary.n_models),
        str(summary.n_cells),
        str(summary.n_pairs),
        f"{summary.n_bf16_wins} of {summary.n_pairs}",
        str(summary.n_unpaired),
        MISSING if test is None else f"{test.verdict.value} {test.margin:g}",
        summary.reason,
    )


def _cell(row: Row, bf16: Collection[str]) -> tuple[str, ...]:
    loss = MISSING if row.loss is None else f"{nats(row.loss)} ± {nats(row.loss_se)}"
    return (
        row.model,
        count(row.N),
        row.recipe,
        str(row.seed),
        count(row.tokens),
        f"{row.tokens / row.N:.3g}",
        loss,
        nats(_bits_per_byte(row)),
        "baseline" if row.run_id in bf16 else signed(row.gap),
        percent(row.relative),
        row.reason or "measured",
        row.detail,
    )


def _bits_per_byte(row: Row) -> float | None:
    if row.loss is None or not row.bytes_per_token:
        return None
    return row.loss / (log(2) * row.bytes_per_token)


def _constants(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return MISSING
    return f"[{constant(low)}, {constant(high)}]"
