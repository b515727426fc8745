"""Captions: what each figure shows, with units, n, interval and convention."""

from dashboards.compute import REACH, ComputeCurves
from dashboards.gap_bars import GapBars
from dashboards.loss_curves import LossCurves
from dashboards.wording import count, nats
from sweeps.wording import listed, plural

MARKERS = (
    "Marker shape says which GEMMs have the RHT: circle none, triangle wgrad, diamond all three."
)


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
    return (*said, MARKERS)


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
    return (*said, MARKERS, *numbers.sentences)
