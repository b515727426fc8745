"""RunSpec: all that can change a number in one run, and the run's identity.

    run_id = `sweeps.identity.digest` of the spec: its content, without what is cosmetic

Under warm-up–stable–decay (WSD) the token budgets ("horizons") are asked of a run and are no part
of it, as long as warm-up, learning rate and batch do not depend on them: one trunk serves them all.

N is the number of non-embedding parameters (input embedding and output head left out), D counts
training tokens. Standard library only: this also runs on a bare GPU node.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kernels.recipes import GEMMS, NUMERICS_VERSION, Precision, Recipe
from sweeps.identity import COSMETIC, LATER, canonical, digest
from sweeps.shapes import ModelShape
from sweeps.sources import CorpusRef, TokenizerRef
from sweeps.training import Health, Training

TRAINING_VERSION = 2
"""Rises when the same spec would train to other numbers although every rounding is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The held-out set: a share of the documents, and how many of its tokens are read."""

    held_out: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """The four random streams; each moves alone."""

    init: int = 0
    data: int = 0
    sr: int = 0
    rht: int = 0

    @property
    def label(self) -> str:
        """`s0` if all are 0, `s0-data1-sr3` if some differ from `init`; never shared by two."""
        others = {"data": self.data, "sr": self.sr, "rht": self.rht}
        apart = (f"-{name}{seed}" for name, seed in others.items() if seed != self.init)
        return f"s{self.init}{''.join(apart)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """What is measured along the way, without a change to any number of the run.

    Attributes:
        every: Optimizer steps between two diagnoses, the first after as many; 0 for none.
        layers: Globs on the names of linear layers.
    """

    every: int = 0
    layers: tuple[str, ...] = ("*",)


class Sharding(StrEnum):
    """What several GPUs of one run hold: a part of the weights each, or all of them each."""

    SHARD = "shard"
    REPLICATE = "replicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Where a run is carried out, without a change to any random draw or to the data.

    Attributes:
        gpus: Ranks that share its microbatches, one GPU each (CPU processes where there is none).
        sharding: What each of them holds.
        pack: Whether it may share its one GPU with other small runs.
    """

    gpus: int = 1
    sharding: Sharding = Sharding.SHARD
    pack: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One fully decided training, without its horizons.

    `apart` is what its label says of a run that other budgets of a sweep do not share, else empty.
    """

    model: ModelShape
    recipe: Recipe
    corpus: CorpusRef
    tokenizer: TokenizerRef
    training: Training
    evaluation: Evaluation
    seeds: Seeds = Seeds()
    health: Health = field(default=Health(), metadata=LATER)
    diagnostics: Diagnostics = field(default=Diagnostics(), metadata=COSMETIC)
    resources: Resources = field(default=Resources(), metadata=COSMETIC)
    apart: str = field(default="", metadata=COSMETIC)
    numerics_version: int = NUMERICS_VERSION
    training_version: int = TRAINING_VERSION

    @property
    def run_id(self) -> str:
        """Identity by content: 16 hex digits."""
        identity = canonical(self)
        if self.recipe.gemm is Precision.FP32:
            # Recipes did not say it at first, and that is what they meant.
            del identity["recipe"]["gemm"]
        if self.numerics_version == 1:
            identity["recipe"] = _recipe_of_version_1(identity["recipe"])
        if self.training_version == 1:
            del identity["training_version"]
        return digest(identity)

    @property
    def label(self) -> str:
        """What tables and charts call the run: model, recipe, seeds, and what sets it apart."""
        words = (self.model.name, self.recipe.name, self.seeds.label, self.apart)
        return " ".join(word for word in words if word)

    def branch_tokens(self, horizon: int) -> int:
        """Tokens at which the cooldown of a horizon leaves the trunk, on a step boundary."""
        return self.training.branch_tokens(horizon)


def _recipe_of_version_1(recipe: dict[str, Any]) -> dict[str, Any]:
    """The keys that a recipe had then, so that a stored run keeps its identity."""

    def operand(now: dict[str, Any]) -> dict[str, Any]:
        kept = {key: now[key] for key in ("grid", "scale", "rounding")}
        return {**kept, "block": now["block"]["along"]}

    gemms = {
        gemm: {
            "left": operand(recipe[gemm]["left"]),
            "right": operand(recipe[gemm]["right"]),
            "rht": recipe[gemm]["rht"] and recipe[gemm]["rht"]["size"],
        }
        for gemm in GEMMS
    }
    return gemms | {key: recipe[key] for key in ("rules", "gemm") if key in recipe}
