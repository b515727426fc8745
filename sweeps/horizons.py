"""Horizons: each budget of a model as whole steps of a decided training.

    tokens D of the budget, exact  →  batch and rate that the rules give at (N, D)  →  whole steps

in this order, so that a rule sees the budget that was asked and not what its own batch rounds it
to. Where neither rate nor batch sees the budget and the schedule is WSD, all horizons of a model
have the same training, and one trunk serves them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sweeps.budget import Budget, resolve, whole_steps
from sweeps.counts import (
    active_non_embedding_parameters,
    flops_per_token,
    non_embedding_parameters,
)
from sweeps.scaling_rules import Scale
from sweeps.shapes import ModelShape
from sweeps.train_sections import TrainSection
from sweeps.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """One budget of one model.

    Attributes:
        budget: As written.
        scale: What the rules saw.
        training: Optimizer, schedule and batch.
        tokens: Training tokens, whole steps of that batch.
    """

    budget: Budget
    scale: Scale
    training: Training
    tokens: int


def horizons_of(
    budgets: Iterable[Budget], *, shape: ModelShape, train: TrainSection, vocab_size: int
) -> Iterator[Horizon]:
    """The budgets of a model, settled, in order.

    Args:
        budgets: What was asked.
        shape: The model.
        train: The section `train` of the sweep.
        vocab_size: Ids of the tokenizer.
    """
    parameters = non_embedding_parameters(shape)
    active = active_non_embedding_parameters(shape)
    flops = flops_per_token(shape, vocab_size=vocab_size, context=train.context)
    inner = flops_per_token(shape, vocab_size=0, context=train.context)
    for budget in budgets:
        tokens = resolve(budget, N=parameters, flops_per_token=flops)
        scale = Scale(N=active, D=tokens, M=inner)
        training = train.training(scale)
        yield Horizon(
            budget=budget,
            scale=scale,
            training=training,
            tokens=whole_steps(tokens, training.batch_tokens),
        )


def distinct(horizons: Iterable[Horizon]) -> tuple[Horizon, ...]:
    """Those of one model; of two that meet in training and tokens, the first written."""
    found: dict[tuple[Training, int], Horizon] = {}
    for horizon in horizons:
        found.setdefault((horizon.training, horizon.tokens), horizon)
    return tuple(found.values())
