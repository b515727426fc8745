"""Captions: what each figure shows, with units, n, interval and convention."""

from collections.abc import Sequence

from dashboards import gap_law
from dashboards.claim_bars import ClaimBar
from dashboards.compute import REACH, ComputeCurves
from dashboards.effective_bars import EffectiveBars
from dashboards.gap_bars import GapBars
from dashboards.loss_curves import LossCurves
from dashboards.theme import rht_gemms, styles
from dashboards.wording import count, nats
from kernels.recipes import Recipe
from sweeps.wording import listed, plural


def markers(recipes: Sequence[Recipe]) -> tuple[str, ...]:
    """The sentence that says what the marker shapes of these recipes mean; none without recipes."""
    shapes = {style.symbol: style.recipe for style in styles(recipes).values()}
    by_name = {recipe.name: recipe for recipe in recipes}
    told = [f"{shape} {_where(by_name[name])}" for shape, name in shapes.items()]
    return (f"Marker shape says which GEMMs have the RHT: {', '.join(told)}.",) if told else ()


def _where(recipe: Recipe) -> str:
    gemms = rht_gemms(recipe)
    return "all three" if len(gemms) == 3 else listed(gemms) if gemms else "none"


def loss_caption(numbers: LossCurves) -> tuple[str, ...]:
    """Sentences below the loss curves."""
    runs = len({line.of.run_id for line in numbers.lines})
    said = [
        "Training loss in nats per token (mean since the previous report) against training tokens "
        "D, logarithmic. Thick lines are trunks, thin lines the cooldown branches that leave them; "
        "markers are endpoints: validation loss at exactly the horizon.",
        f"n = {plural(runs, 'run')}, {plural(len(numbers.endpoints), 'endpoint')}.",
    ]
    if numbers.num_drawn < numbers.num_measured:
        said.append(
            f"Showing {numbers.num_drawn:,} of {numbers.num_measured:,} points; first, last and "
            "extremes are kept."
        )
    if numbers.diverged:
        said.append(
            f"A cross is the last finite point of a run that diverged "
            f"(n = {len(numbers.diverged)})."
        )
    if numbers.unigram_entropy is not None:
        said.append(
            f"The dotted line is the unigram entropy of the training tokens, "
            f"{nats(numbers.unigram_entropy)} nats: what a model without context could reach."
        )
    return (*said, *markers(numbers.recipes))


def gap_caption(numbers: GapBars) -> tuple[str, ...]:
    """Sentences below the gap bars."""
    pairs = sum(len(bar.seeds) for bar in numbers.bars)
    seeds = sorted({len(bar.seeds) for bar in numbers.bars if bar.seeds})
    said = [
        "Gap = L(recipe) − L(BF16) at equal N, D and seeds, nats per token; above zero BF16 is "
        "better. Hover shows the gap in percent of the BF16 loss.",
        f"n = {plural(pairs, 'pair')}"
        + (f", {listed([str(k) for k in seeds])} to a bar." if seeds else "."),
    ]
    if any(bar.low is not None for bar in numbers.bars):
        said.append(
            "Dots are seeds, a bar is their mean, whiskers are its 95 % t interval "
            "with the seed noise pooled over cells."
        )
    elif pairs:
        said.append("One seed to a cell: no bar has an interval of its own.")
    if any(bar.mean is None for bar in numbers.bars):
        said.append("A hatched bar is a cell that diverged; its height means nothing.")
    return tuple(said)


def compute_caption(numbers: ComputeCurves) -> tuple[str, ...]:
    """Sentences below the compute curves."""
    said = [
        "Validation loss L in nats per token against training compute C = D × FLOPs per token "
        "(forward and backward, counted exactly), both logarithmic; larger markers are larger "
        "models. C does not count the cost of quantizing or any speed-up from it.",
        f"n = {plural(len(numbers.points), 'endpoint')}.",
    ]
    if numbers.bands:
        said.append("Lines are fitted laws at each N with pointwise 95 % bands of the mean loss.")
    if any(band.beyond for band in numbers.bands):
        said.append(f"Dashed: beyond the data, up to {count(REACH)} times the largest D.")
    if numbers.diverged:
        said.append(
            f"Crosses at the upper edge are horizons that diverged and have no loss "
            f"(n = {len(numbers.diverged)})."
        )
    return (*said, *markers(numbers.recipes), *numbers.sentences)


def gap_law_caption(numbers: gap_law.GapLawCurves) -> tuple[str, ...]:
    """Sentences below the gap laws."""
    said = [
        "Mean gap of each cell in nats per token against training tokens D, logarithmic, one panel "
        "for each recipe; larger dots are larger models, named by N. Above zero BF16 is better.",
        f"n = {plural(len(numbers.cells), 'cell')}.",
    ]
    if numbers.bands:
        said.append(
            "Lines are the law chosen for each recipe, fitted to the paired differences of all its "
            "cells at once, with the pointwise 95 % band of the mean gap; the band holds no error "
            "of the law's form. What leaves the frame is not fixed by the data."
        )
        said.append(f"Dashed: beyond the data, up to {count(gap_law.REACH)} times the largest D.")
    if any(cell.low is not None for _, cell in numbers.cells):
        said.append("Whiskers are 95 % t intervals over seeds.")
    return (*said, *markers(numbers.recipes))


def effective_caption(numbers: EffectiveBars) -> tuple[str, ...]:
    """Sentences below the effective numbers."""
    said = [
        "What each recipe is worth in BF16, as multiples: C_mult of compute, eff_N of parameters, "
        "eff_D of tokens. Dots are best values, bars 95 % intervals; left of the dotted line a "
        "recipe is worth less than BF16, and it pays from a speed-up of 1 / C_mult.",
    ]
    shown = [one for _, one in numbers.rows if one.value is not None]
    if shown:
        cells = sorted({one.n for one in shown})
        said.append(f"n = {listed([f'{n:,}' for n in cells])} cells.")
    if len(shown) < len(numbers.rows):
        said.append("Where the data determine no number, hover says why.")
    return (*said, *markers(numbers.recipes))


def claims_caption(numbers: Sequence[ClaimBar]) -> tuple[str, ...]:
    """Sentences below the claims."""
    judged = [bar for bar in numbers if bar.value is not None]
    said = [
        "Contrast of gaps of each claim, nats per token, with its t interval over seeds at the "
        "level of the claim; triangles point into the region that is claimed, hollow dots are the "
        "means of single models.",
        f"n = {plural(len(numbers), 'claim')}; hover shows seeds and p.",
    ]
    if len(judged) < len(numbers):
        open_ones = listed([bar.name for bar in numbers if bar.value is None])
        said.append(f"Without a row, as too few runs have ended: {open_ones}.")
    return tuple(said)
