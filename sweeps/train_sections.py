"""The sections `train`, `health` and `resources` of a sweep spec.

    batch           a token count, or a rule of `scaling_rules`; whole sequences, whole microbatches
    learning_rate   a number, or a rule of `scaling_rules`
    warmup          tokens, rounded to whole steps

What new sweeps get without saying so is written here; the defaults of `sweeps.training` are what
stored runs meant. A rule that looks at the budget, and a cosine, give each budget a run of its own.
"""

from math import lcm
from typing import Annotated

from pydantic import Discriminator, Field, PlainSerializer, PlainValidator, Tag, WithJsonSchema

from sweeps.budget import exact_tokens, parse_tokens, whole_steps
from sweeps.runspec import Resources, Sharding
from sweeps.scaling_rules import (
    BATCHES,
    LEARNING_RATES,
    Rule,
    Scale,
    ruled_batch,
    ruled_learning_rate,
)
from sweeps.sections import Section, Tokens
from sweeps.training import Health, OptimizerKind, Order, Schedule, Training
from sweeps.wording import listed

WHOLE_BLOCKS = 128
"""Tokens of which the batch of a rule holds whole ones, so that the usual blocks end with it."""


def _rate_rule(given: object) -> str:
    if given not in LEARNING_RATES:
        raise ValueError(f"must be a number, or the name of a rule: {listed(list(LEARNING_RATES))}")
    return str(given)


def _batch(given: object) -> int | str:
    if isinstance(given, str) and given in BATCHES:
        return given
    try:
        return parse_tokens(given)
    except ValueError as error:
        raise ValueError(f"{error}; or the name of a rule: {listed(list(BATCHES))}") from error


def _text_or_number(given: object) -> str:
    return "<text>" if isinstance(given, str) else "<number>"


Rate = Annotated[
    Annotated[float, Field(strict=True, gt=0, le=10, allow_inf_nan=False), Tag("<number>")]
    | Annotated[
        str,
        PlainValidator(_rate_rule),
        WithJsonSchema({"type": "string", "enum": list(LEARNING_RATES)}),
        Tag("<text>"),
    ],
    Discriminator(_text_or_number),
]
Batch = Annotated[
    int | str,
    PlainValidator(_batch),
    PlainSerializer(lambda given: given if isinstance(given, str) else f"{given}tok"),
    WithJsonSchema({"type": "string", "examples": ["4096tok", "0.5Mtok", *BATCHES]}),
]


class TrainSection(Section):
    """Optimizer, schedule and batch; token counts with a unit."""

    context: int = Field(strict=True, ge=8, le=1048576)
    batch: Batch
    warmup: Tokens
    learning_rate: Rate = "auto"
    schedule: Schedule = Schedule.WSD
    cooldown: float = Field(default=0.2, strict=True, ge=0.01, le=0.9, allow_inf_nan=False)
    final_rate: float = Field(default=0.0, strict=True, ge=0, le=1, allow_inf_nan=False)
    optimizer: OptimizerKind = OptimizerKind.ADAMW
    momentum: float = Field(default=0.95, strict=True, ge=0, lt=1, allow_inf_nan=False)
    weight_decay: float = Field(default=0.1, strict=True, ge=0, le=10, allow_inf_nan=False)
    beta1: float = Field(default=0.9, strict=True, ge=0, lt=1, allow_inf_nan=False)
    beta2: float = Field(default=0.95, strict=True, ge=0, lt=1, allow_inf_nan=False)
    gradient_clip: float = Field(default=1.0, strict=True, gt=0, le=1e6, allow_inf_nan=False)
    microbatch: Tokens | None = None
    order: Order = Order.DOCUMENTS
    max_epochs: int = Field(default=4, strict=True, ge=1, le=10**6)

    def rules(self) -> dict[str, tuple[str, Rule]]:
        """The rules in use with their names, by the key that names them."""
        rate, batch = self.learning_rate, self.batch
        used: dict[str, tuple[str, Rule]] = {}
        if isinstance(rate, str):
            used["learning_rate"] = (rate, LEARNING_RATES[rate])
        if isinstance(batch, str):
            used["batch"] = (batch, BATCHES[batch])
        return used

    def chosen(self) -> frozenset[str]:
        """Keys that are not at their default."""
        fields = type(self).model_fields.items()
        return frozenset(key for key, one in fields if getattr(self, key) != one.default)

    def apart(self, training: Training) -> str:
        """What sets a run of one budget apart from those of others; empty where all share one.

        As in `500ktok`, the horizon of a cosine, or `batch=65.536ktok rate=0.00123` of rules that
        see the budget.
        """
        seen = {key for key, (_, rule) in self.rules().items() if rule.sees_budget}
        said = [] if training.horizon is None else [exact_tokens(training.horizon)]
        said += [f"batch={exact_tokens(training.batch_tokens)}"] if "batch" in seen else []
        said += [f"rate={training.learning_rate:g}"] if "learning_rate" in seen else []
        return " ".join(said)

    def training(self, scale: Scale) -> Training:
        """Optimizer, schedule and batch of one model at one budget.

        The batch is settled first, then budget and warm-up as whole steps of it, nearest, at least
        one.
        """
        batch, rate = self.batch, self.learning_rate
        if isinstance(batch, str):
            batch = ruled_batch(batch, scale, self.microbatch or lcm(self.context, WHOLE_BLOCKS))
        is_cosine = self.schedule is Schedule.COSINE
        return Training(
            context=self.context,
            batch_tokens=batch,
            learning_rate=rate if isinstance(rate, float) else ruled_learning_rate(rate, scale),
            warmup_tokens=whole_steps(self.warmup, batch),
            cooldown=self.cooldown,
            weight_decay=self.weight_decay,
            beta1=self.beta1,
            beta2=self.beta2,
            gradient_clip=self.gradient_clip,
            schedule=self.schedule,
            horizon=whole_steps(scale.D, batch) if is_cosine else None,
            final_rate=self.final_rate,
            optimizer=self.optimizer,
            momentum=self.momentum,
            microbatch_tokens=self.microbatch,
            order=self.order,
            max_epochs=self.max_epochs,
        )


class HealthSection(Section):
    """When a run has diverged although its numbers are finite; `null` turns a look off.

    A loss of 20 nats per token is above a uniform guess from 400 million ids. One that stays a nat
    above its best mean for 64 steps is no noise: batches of 2048 tokens move it by a tenth.
    """

    loss_bound: float | None = Field(default=20.0, strict=True, gt=0, allow_inf_nan=False)
    spike: float | None = Field(default=1.0, strict=True, gt=0, allow_inf_nan=False)
    spike_steps: int = Field(default=64, strict=True, ge=1, le=10**6)

    def health(self) -> Health:
        """The health of a run."""
        return Health(loss_bound=self.loss_bound, spike=self.spike, spike_steps=self.spike_steps)


class ResourcesSection(Section):
    """Where each run is carried out; no part of its identity."""

    gpus: int = Field(default=1, strict=True, ge=1, le=4096)
    sharding: Sharding = Sharding.SHARD
    pack: bool = Field(default=False, strict=True)

    def resources(self) -> Resources:
        """The resources of a run."""
        return Resources(gpus=self.gpus, sharding=self.sharding, pack=self.pack)
