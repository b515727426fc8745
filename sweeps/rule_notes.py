"""Notes on the rules of a sweep: far from where they were fitted, and no trunk to share.

Neither is wrong, so that a plan says it and goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from sweeps.horizons import Horizon
from sweeps.scaling_rules import extrapolation
from sweeps.train_sections import TrainSection
from sweeps.training import Schedule
from sweeps.wording import listed


def rule_notes(train: TrainSection, horizons: Mapping[str, Sequence[Horizon]]) -> Iterator[str]:
    """A sentence for each.

    Args:
        train: The section `train`.
        horizons: Of each budget in order, by the name of the model.
    """
    for key, (name, rule) in train.rules().items():
        outside = (
            f"train.{key} = {name}, {rule.text} of {rule.source}, is an extrapolation for model "
            f"{model} at {horizon.budget.text}: {where}"
            for model, of_model in horizons.items()
            for horizon in of_model
            if (where := extrapolation(rule, horizon.scale))
        )
        yield from islice(outside, 1)
    if any(len({one.training for one in of_model}) > 1 for of_model in horizons.values()):
        why = listed(_why_apart(train))
        yield f"budgets of a model share no trunk, each is trained from its start: {why}"


def _why_apart(train: TrainSection) -> list[str]:
    found = [
        f"train.{key} = {name} sees the budget"
        for key, (name, rule) in train.rules().items()
        if rule.sees_budget
    ]
    if train.schedule is Schedule.COSINE:
        found.append("train.schedule = cosine has one horizon")
    return found
