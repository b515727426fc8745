"""Answer: what a sweep found, as one value that the terminal, REST and dashboards all show.

    records -> every run once -> gaps (paired) and fits (one for each recipe) -> sentences

Losses of different texts, tokenizers or held-out sets are not comparable in nats per token; a
recipe whose runs differ in one of these gets no fit.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sweeps.endpoints import Row, rows
from sweeps.fits.fit import RESAMPLES, fit, refuse
from sweeps.fits.points import recipe_points
from sweeps.fits.result import Fit, Solution, curve
from sweeps.gaps import GapTable, pair
from sweeps.headline import headline
from sweeps.measured import distinct, measured
from sweeps.paired import Gap
from sweeps.plain import plain
from sweeps.records import RunRecord
from sweeps.sentences import learnt, sentences

CONVENTIONS = {
    "loss": "nats per token on the held-out text, through the recipe's own forward pass",
    "gap": "loss - loss of the bf16 run that differs in the recipe alone; positive: bf16 is better",
    "relative": "gap in percent of the bf16 loss",
    "interval": "95 %, two-sided; horizons of one run share its trunk and count as separate cells",
    "N": "non-embedding parameters",
    "tokens": "training tokens",
    "flops": "tokens x forward and backward FLOPs per token",
}
CURVE_POINTS = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything a reader of a sweep is told.

    Attributes:
        records: The runs, each once.
        gaps: Paired gaps, endpoints without a pair, summaries.
        fits: One for each recipe, BF16 first.
        unigram_entropy: Of the training tokens, nats per token, smallest and largest over the
            endpoints; None before the first endpoint.
        not_beaten: Gaps in which BF16 does not have the lower loss.
        headline: Which recipe ends closest to BF16, and whether the order is settled.
        sentences: For people, most important first.
    """

    records: tuple[RunRecord, ...]
    gaps: GapTable
    fits: tuple[Fit, ...]
    unigram_entropy: tuple[float, float] | None
    not_beaten: tuple[Gap, ...]
    headline: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every planned endpoint, by N, tokens, recipe and seed, BF16 first."""
        return rows(self.records, self.gaps)


def answer(records: Iterable[RunRecord], *, resamples: int = RESAMPLES, seed: int = 0) -> Answer:
    """Pairs, fits and puts into words; the same records give the same answer.

    Args:
        records: Runs of a sweep in any state, also none.
        resamples: Draws behind the intervals of the fits.
        seed: Of the draws.

    Raises:
        InputError: If two different recipes carry one name.
    """
    runs = distinct(records)
    table = pair(runs)
    recipes = dict.fromkeys(
        run.spec.recipe.name for run in sorted(runs, key=lambda run: not run.spec.recipe.is_bf16)
    )
    fits = tuple(_fit(runs, recipe, resamples, seed) for recipe in recipes)
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
        unigram_entropy=(min(entropies), max(entropies)) if entropies else None,
        not_beaten=tuple(gap for gap in table.gaps if not gap.bf16_wins),
        headline=headline(table),
        sentences=tuple(sentences(runs, rows(runs, table), table, fits, words)),
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
        "fits": [fit_json(item, result.records) for item in result.fits],
        "not_beaten": [gap_json(gap) for gap in result.not_beaten],
    }


def row_json(row: Row) -> dict[str, Any]:
    """One planned endpoint; without a number, `loss_tag` says why."""
    values: dict[str, Any] = plain(row)
    if row.loss is None:
        values["loss_tag"] = row.reason
    return values


def gaps_json(table: GapTable) -> dict[str, Any]:
    """The gap table as JSON values."""
    return {
        "gaps": [gap_json(gap) for gap in table.gaps],
        "unpaired": plain(table.unpaired),
        "summaries": plain(table.summaries),
    }


def gap_json(gap: Gap) -> dict[str, Any]:
    """One gap with what follows from its two losses."""
    derived = {"gap": gap.gap, "relative": gap.relative, "bf16_wins": gap.bf16_wins}
    values: dict[str, Any] = plain(gap) | plain(derived)
    return values


def fit_json(item: Fit, records: Sequence[RunRecord]) -> dict[str, Any]:
    """A fit with its curves over the data range; the draws behind the bands are only counted."""
    values: dict[str, Any] = {
        field.name: plain(getattr(item, field.name))
        for field in fields(Fit)
        if field.name != "solution"
    }
    values |= {"law": item.law_name, "search": None, "curves": _curves(item, records)}
    if item.solution is not None:
        search = {
            field.name: getattr(item.solution, field.name)
            for field in fields(Solution)
            if field.name not in ("law", "samples")
        }
        search |= {
            "formula": item.solution.law.formula,
            "center": {"ln_N": item.solution.law.x0, "ln_D": item.solution.law.y0},
            "resamples": item.solution.samples.rows,
        }
        values["search"] = plain(search)
    return values


def to_csv(result: Answer) -> str:
    """One line for every planned endpoint under a header; no number, no text in the field."""
    names = [field.name for field in fields(Row)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in result.rows:
        values = row_json(row)
        writer.writerow(["" if values[name] is None else values[name] for name in names])
    return text.getvalue()


def _fit(runs: Sequence[RunRecord], recipe: str, resamples: int, seed: int) -> Fit:
    mine = [run for run in runs if run.spec.recipe.name == recipe]
    points = recipe_points(mine, recipe)
    texts = {
        (
            *(run.spec.corpus.kind, run.spec.corpus.fingerprint),
            *(replace(run.spec.tokenizer, path=""), run.spec.evaluation),
        )
        for run in mine
    }
    if len(texts) > 1:
        reason = (
            f"its runs read {len(texts)} different texts, tokenizers or held-out sets, whose "
            "losses are not comparable"
        )
        return refuse(points, reason, recipe=recipe, seed=seed)
    return fit(points, recipe=recipe, resamples=resamples, seed=seed)


def _curves(item: Fit, records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    if item.solution is None or item.D_range is None:
        return []
    tokens = np.geomspace(*item.D_range, CURVE_POINTS).tolist()
    models = {
        (run.N, run.spec.model.name): run.flops_per_token
        for run in records
        if run.spec.recipe.name == item.recipe
    }
    drawn = []
    for (size, model), flops_per_token in sorted(models.items()):
        line = curve(item, size, tokens)
        flops = [count * flops_per_token for count in line.tokens]
        drawn.append({"model": model, "flops": flops} | plain(line))
    return drawn
