"""Answer: what a sweep found, as one value that the terminal, REST and dashboards all show.

    records -> every run once -> gaps (paired), fits (one for each recipe), formats (what each
               recipe is worth in BF16) -> headline and sentences

The same records give the same answer, in whatever order they come.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.recipes import BF16_RECIPE
from sweeps.effective.sweep import Formats, formats
from sweeps.endpoints import Row, rows
from sweeps.fit_json import fit_json, models_of
from sweeps.fits.result import Fit
from sweeps.fits.settings import RESAMPLES, Settings
from sweeps.gap_json import formats_json, gap_json, gaps_json, row_json
from sweeps.gaps.cell_rows import CellRow, cell_rows
from sweeps.gaps.equivalence import MARGIN
from sweeps.gaps.headline import headline
from sweeps.gaps.pair import GapTable, pair
from sweeps.gaps.paired import Gap
from sweeps.intervals import LEVEL, Ends
from sweeps.measured import distinct, measured
from sweeps.plain import plain
from sweeps.recipe_fits import recipe_fits
from sweeps.records import RunRecord
from sweeps.sentences import learnt, sentences

CONVENTIONS = {
    "loss": "nats per token on the held-out text, through the recipe's own forward pass",
    "gap": "loss - loss of the bf16 run that differs in the recipe alone; positive: bf16 is better",
    "relative": "gap in percent of the bf16 loss",
    "interval": "two-sided; of a mean gap over seeds at these models where there are repeats, else "
    "over models; horizons of one run share its trunk and count once",
    "diverged": "a run that diverged has no gap and is listed; means are of the pairs that did not",
    "N": "non-embedding parameters",
    "tokens": "training tokens",
    "flops": "tokens x forward and backward FLOPs per token",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything a reader of a sweep is told.

    Attributes:
        records: The runs, each once.
        gaps: Paired gaps, endpoints without a pair, summaries.
        fits: One for each recipe, BF16 first.
        formats: Effective numbers and laws of the gaps; empty without a BF16 run.
        unigram_entropy: Of the training tokens, nats per token, smallest and largest over the
            endpoints; None before the first endpoint.
        not_beaten: Gaps in which BF16 does not have the lower loss.
        headline: Which recipe ends closest to BF16, and whether the order is settled.
        sentences: For people, most important first.
    """

    records: tuple[RunRecord, ...]
    gaps: GapTable
    fits: tuple[Fit, ...]
    formats: Formats
    unigram_entropy: Ends | None
    not_beaten: tuple[Gap, ...]
    headline: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every planned endpoint, by N, tokens, recipe and seed, BF16 first."""
        return rows(self.records, self.gaps)

    @property
    def cells(self) -> tuple[CellRow, ...]:
        """Every planned cell, by N, tokens and recipe, BF16 first."""
        return cell_rows(self.records, self.gaps)


def answer(
    records: Iterable[RunRecord],
    *,
    level: float = LEVEL,
    margin: float = MARGIN,
    resamples: int = RESAMPLES,
    seed: int = 0,
    floors: bool = False,
) -> Answer:
    """Pairs, fits and puts into words; the same records give the same answer.

    Args:
        records: Runs of a sweep in any state, also none.
        level: Of the intervals and tests of gaps; fits and effective numbers have 95 %.
        margin: Nats per token within which the equivalence test counts a gap as none.
        resamples: Draws behind the intervals of the fits.
        seed: Of the draws.
        floors: Whether each recipe is also tried with an irreducible loss E of its own.

    Raises:
        InputError: If two different recipes carry one name, or a number makes no sense.
    """
    runs = distinct(records)
    table = pair(runs, level=level, margin=margin)
    settings = Settings(resamples=resamples, seed=seed)
    fits = recipe_fits(runs, settings)
    worth = _formats(runs, fits, settings, floors)
    points = [
        point
        for run in runs
        for tokens in sorted(set(run.horizons))
        if (point := measured(run, tokens)) is not None
    ]
    entropies = [point.unigram_entropy for point in points]
    words = learnt([(point.loss, point.unigram_entropy) for point in points])
    return Answer(
        records=runs,
        gaps=table,
        fits=fits,
        formats=worth,
        unigram_entropy=(min(entropies), max(entropies)) if entropies else None,
        not_beaten=tuple(gap for gap in table.gaps if not gap.bf16_wins),
        headline=headline(table),
        sentences=tuple(sentences(runs, rows(runs, table), table, fits, worth.effective, words)),
    )


def to_json(result: Answer) -> dict[str, Any]:
    """The answer as JSON values: never a bare NaN, every planned endpoint in it."""
    return {
        "conventions": CONVENTIONS,
        "headline": list(result.headline),
        "sentences": list(result.sentences),
        "unigram_entropy": plain(result.unigram_entropy),
        "endpoints": [row_json(row) for row in result.rows],
        "gaps": gaps_json(result.gaps),
        **formats_json(result.formats),
        "fits": [fit_json(item, models_of(result.records)) for item in result.fits],
        "not_beaten": [gap_json(gap) for gap in result.not_beaten],
    }


def _formats(
    runs: Sequence[RunRecord], fits: Sequence[Fit], settings: Settings, floors: bool
) -> Formats:
    reference = next((fit for fit in fits if fit.label == BF16_RECIPE.name), None)
    if reference is None:
        return Formats(effective=(), additivity=(), predicted=(), orders=(), signs=())
    return formats(runs, reference, settings, floors=floors)
