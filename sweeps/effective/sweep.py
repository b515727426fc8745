"""What a sweep says of its formats beyond the gaps: effective numbers, sums of parts, predictions.

records -> points of all recipes, paired -> effective numbers, additivity, published laws
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sweeps.effective.additivity import Additivity, additivity, decompositions
from sweeps.effective.arms import arm_points
from sweeps.effective.effective import effective, unidentified
from sweeps.effective.predictions import Order, Predicted, Signs, orders, predicted, signs
from sweeps.effective.result import Effective
from sweeps.fits.differences import differences
from sweeps.fits.result import Fit
from sweeps.fits.settings import Settings
from sweeps.measured import distinct, mixture
from sweeps.records import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """All of it for the formats of a sweep.

    Attributes:
        effective: One for each recipe that has a gap, in the order of the records.
        additivity: One for each recipe that is others put together.
        predicted: Published laws that give sizes, against each recipe.
        orders: Published laws against the order of the recipes.
        signs: The published law of signs against each recipe.
    """

    effective: tuple[Effective, ...]
    additivity: tuple[Additivity, ...]
    predicted: tuple[Predicted, ...]
    orders: tuple[Order, ...]
    signs: tuple[Signs, ...]


def formats(
    records: Iterable[RunRecord], bf16: Fit, settings: Settings, *, floors: bool = False
) -> Formats:
    """Everything about the formats of a sweep.

    Args:
        records: Its runs in any state.
        bf16: What was fitted to the BF16 endpoints.
        settings: Of the searches and draws.
        floors: Whether each recipe is also tried with an E of its own.

    Raises:
        InputError: If two different recipes carry one name.
    """
    runs = distinct(records)
    points = arm_points(runs)
    recipes = {run.spec.recipe.name: run.spec.recipe for run in runs}
    tables = {arm: differences(points, arm) for arm in points.arms[1:]}
    if mixed := mixture(runs):
        found = tuple(unidentified(pairs, mixed) for pairs in tables.values())
    else:
        found = effective(points, bf16, settings, floors=floors)
    sums = [
        additivity(points, whole, parts)
        for whole, parts in decompositions({arm: recipes[arm] for arm in tables})
    ]
    return Formats(
        effective=found,
        additivity=tuple(item for item in sums if item is not None),
        predicted=tuple(
            item for arm, pairs in tables.items() for item in predicted(recipes[arm], pairs)
        ),
        orders=orders(recipes, tables),
        signs=tuple(
            signs(recipes[item.label], item.gap.power if item.gap is not None else None, item.label)
            for item in found
        ),
    )
