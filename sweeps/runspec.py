"""RunSpec: all that can change a number in one run, and the run's identity.

    run_id = first 16 hex digits of SHA-256(canonical JSON of the spec without its cosmetic names)

Under warm-up–stable–decay (WSD) the token budgets ("horizons") are asked of a run and are no part
of it: warm-up, learning rate and batch do not depend on them. A horizon of D tokens leaves the
trunk at D - cooldown tokens and decays to zero over the rest, so one trunk serves all horizons.

N is the number of non-embedding parameters (input embedding and output head left out), D counts
training tokens. Standard library only: this also runs on a bare GPU node.
"""

import hashlib
import json
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any

from kernels.recipes import GEMMS, NUMERICS_VERSION, Precision, Recipe


class Mlp(StrEnum):
    """Feed-forward block: `swiglu` = down(silu(gate x) * up x), `relu2` = down(relu(up x)^2)."""

    SWIGLU = "swiglu"
    RELU2 = "relu2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A dense decoder: pre-norm RMSNorm, RoPE, QK-norm, untied head, no biases."""

    name: str
    num_layers: int
    width: int
    num_heads: int
    mlp_width: int
    mlp: Mlp = Mlp.SWIGLU

    @property
    def head_width(self) -> int:
        """Features of one attention head."""
        return self.width // self.num_heads


class CorpusKind(StrEnum):
    """Where text comes from: the interpreter's own standard-library sources, or files by path."""

    STDLIB = "stdlib"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRef:
    """Which text, pinned by a hash of what was read.

    Attributes:
        name: What the user wrote; not part of the identity.
        kind: How the files are found.
        path: Absolute file, folder or glob for `text`, empty for `stdlib`; where the bytes lie
            is no part of the identity, the fingerprint is.
        fingerprint: SHA-256 over the sorted documents.
        num_bytes: Bytes in all documents.
        num_documents: Files read.
    """

    name: str
    kind: CorpusKind
    path: str
    fingerprint: str
    num_bytes: int
    num_documents: int


class TokenizerKind(StrEnum):
    """`byte`: 256 byte values and one document separator; `bpe`: trained on the corpus."""

    BYTE = "byte"
    BPE = "bpe"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerRef:
    """Kind and vocabulary size, document separator included."""

    kind: TokenizerKind = TokenizerKind.BYTE
    vocab_size: int = 257


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Optimizer and WSD schedule.

    Attributes:
        context: Tokens in a sequence.
        batch_tokens: Tokens in an optimizer step, a multiple of the context.
        learning_rate: Peak, held through the stable phase.
        warmup_tokens: Linear warm-up, a multiple of `batch_tokens`.
        cooldown: Share of a horizon over which the rate falls linearly to zero.
        weight_decay: Decoupled, on matrices only.
        beta1: First-moment decay of AdamW.
        beta2: Second-moment decay of AdamW.
        gradient_clip: Largest global gradient norm.
    """

    context: int
    batch_tokens: int
    learning_rate: float
    warmup_tokens: int
    cooldown: float = 0.2
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    gradient_clip: float = 1.0

    def branch_tokens(self, horizon: int) -> int:
        """Tokens at which the cooldown of a horizon leaves the trunk, on a step boundary."""
        cooldown_steps = max(1, round(horizon * self.cooldown / self.batch_tokens))
        return max(0, horizon - cooldown_steps * self.batch_tokens)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One fully decided training, without its horizons."""

    model: ModelShape
    recipe: Recipe
    corpus: CorpusRef
    tokenizer: TokenizerRef
    training: Training
    evaluation: Evaluation
    seeds: Seeds = Seeds()
    diagnostics: Diagnostics = Diagnostics()
    numerics_version: int = NUMERICS_VERSION

    @property
    def run_id(self) -> str:
        """Identity by content: 16 hex digits."""
        identity = _without_names(self)
        if self.recipe.gemm is Precision.FP32:
            # Recipes did not say it at first, and that is what they meant.
            del identity["recipe"]["gemm"]
        if self.numerics_version == 1:
            identity["recipe"] = _recipe_of_version_1(identity["recipe"])
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """What tables and charts call the run: model, recipe and seeds."""
        return f"{self.model.name} {self.recipe.name} {self.seeds.label}"

    def branch_tokens(self, horizon: int) -> int:
        """Tokens at which the cooldown of a horizon leaves the trunk, on a step boundary."""
        return self.training.branch_tokens(horizon)


COSMETIC = ("name", "path", "diagnostics")
"""Keys that say what a thing is called, where it lies or who watches it, never what it is."""


def _without_names(value: Any) -> Any:
    if is_dataclass(value):
        return {
            field.name: _without_names(getattr(value, field.name))
            for field in fields(value)
            if field.name not in COSMETIC
        }
    if isinstance(value, tuple):
        return [_without_names(item) for item in value]
    return value


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
