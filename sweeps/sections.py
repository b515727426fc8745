"""The sections of a sweep spec: what each looks like in YAML and JSON, and the value it stands for.

Every section is frozen, refuses unknown keys and bounds each number; numbers must be numbers (no
`"3"`, no `true`), and token counts carry a unit. The functions at the end of each section give the
plain values that runs are made of. What concerns two sections at once is in `checks`.
"""

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
)

from sweeps.budget import Budget, parse_budget, parse_tokens, whole_steps
from sweeps.counts import non_embedding_parameters
from sweeps.runspec import Diagnostics, Evaluation, Seeds
from sweeps.shapes import Mlp, ModelShape
from sweeps.sources import TokenizerKind, TokenizerRef
from sweeps.training import Training

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=64)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Tokens = Annotated[
    int,
    PlainValidator(parse_tokens),
    PlainSerializer(lambda tokens: f"{tokens}tok", return_type=str),
    WithJsonSchema({"type": "string", "examples": ["4096tok", "40ktok", "1.2Mtok"]}),
]
BudgetText = Annotated[
    Budget,
    PlainValidator(lambda given: given if isinstance(given, Budget) else parse_budget(given)),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["20tpp", "50Mtok", "3e15flops"]}),
]


def text_or_mapping(given: object) -> str:
    """Tag of an entry that is a name or a mapping; tags are no part of a key's path."""
    return "<text>" if isinstance(given, str) else "<mapping>"


def _text_or_number(given: object) -> str:
    return "<text>" if isinstance(given, str) else "<number>"


def _number_or_mapping(given: object) -> str:
    return "<number>" if isinstance(given, int | float | str) else "<mapping>"


class Section(BaseModel):
    """A frozen part of the spec without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def default_of(cls, info: ValidationInfo) -> object:
        """Default of the field that is being validated."""
        assert info.field_name is not None
        return cls.model_fields[info.field_name].default


class ModelSection(Section):
    """A dense decoder; `mlp_width` defaults to 8/3 width rounded up to 16, or 4 width for relu2."""

    layers: int = Field(strict=True, ge=1, le=512)
    width: int = Field(strict=True, ge=8, le=65536)
    heads: int = Field(strict=True, ge=1, le=1024)
    name: Name | None = None
    mlp: Mlp = Mlp.SWIGLU
    mlp_width: int | None = Field(default=None, strict=True, ge=8, le=262144)

    def shape(self) -> ModelShape:
        """The shape; without a name it is called `2x48h3`, and by its MLP if that is not usual."""
        usual = {Mlp.SWIGLU: -(-8 * self.width // 48) * 16, Mlp.RELU2: 4 * self.width}[self.mlp]
        mlp_width = self.mlp_width or usual
        called = f"{self.layers}x{self.width}h{self.heads}"
        called += "" if self.mlp is Mlp.SWIGLU else f"-{self.mlp.value}"
        called += "" if mlp_width == usual else f"-m{mlp_width}"
        return ModelShape(
            name=self.name or called,
            num_layers=self.layers,
            width=self.width,
            num_heads=self.heads,
            mlp_width=mlp_width,
            mlp=self.mlp,
        )


class SeedsSection(Section):
    """Seeds of the four streams when they move apart."""

    init: Seed = 0
    data: Seed = 0
    sr: Seed = 0
    rht: Seed = 0


class BpeSection(Section):
    """A byte-pair tokenizer of this vocabulary (256 bytes and the separator included)."""

    bpe: int = Field(strict=True, ge=258, le=65536)


class TrainSection(Section):
    """Optimizer and schedule; `batch` and `warmup` in tokens with a unit."""

    context: int = Field(strict=True, ge=8, le=1048576)
    batch: Tokens
    warmup: Tokens
    learning_rate: Annotated[
        Annotated[float, Field(strict=True, gt=0, le=10, allow_inf_nan=False), Tag("<number>")]
        | Annotated[Literal["auto"], Tag("<text>")],
        Discriminator(_text_or_number),
    ] = "auto"
    cooldown: float = Field(default=0.2, strict=True, ge=0.01, le=0.9, allow_inf_nan=False)
    weight_decay: float = Field(default=0.1, strict=True, ge=0, le=10, allow_inf_nan=False)
    beta1: float = Field(default=0.9, strict=True, ge=0, lt=1, allow_inf_nan=False)
    beta2: float = Field(default=0.95, strict=True, ge=0, lt=1, allow_inf_nan=False)
    gradient_clip: float = Field(default=1.0, strict=True, gt=0, le=1e6, allow_inf_nan=False)

    def training(self, shape: ModelShape) -> Training:
        """Optimizer and schedule of one model; warm-up in whole steps, nearest, at least 1."""
        rate = self.learning_rate
        parameters = non_embedding_parameters(shape)
        return Training(
            context=self.context,
            batch_tokens=self.batch,
            learning_rate=auto_learning_rate(parameters) if rate == "auto" else rate,
            warmup_tokens=whole_steps(self.warmup, self.batch),
            cooldown=self.cooldown,
            weight_decay=self.weight_decay,
            beta1=self.beta1,
            beta2=self.beta2,
            gradient_clip=self.gradient_clip,
        )


class EvalSection(Section):
    """Share of documents held out, and how many of their tokens are read."""

    held_out: float = Field(default=0.05, strict=True, ge=1e-4, le=0.5, allow_inf_nan=False)
    tokens: Tokens = 65536

    def evaluation(self) -> Evaluation:
        """The held-out set of a run."""
        return Evaluation(held_out=self.held_out, tokens=self.tokens)


class DiagnosticsSection(Section):
    """What the recipe does to these layers, measured every so many optimizer steps."""

    every: int = Field(strict=True, ge=1, le=10**9)
    layers: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = Field(
        default=("*",), min_length=1, max_length=256
    )

    def diagnostics(self) -> Diagnostics:
        """The diagnostics of a run."""
        return Diagnostics(every=self.every, layers=self.layers)


SeedsEntry = Annotated[
    Annotated[Seed, Tag("<number>")] | Annotated[SeedsSection, Tag("<mapping>")],
    Discriminator(_number_or_mapping),
]
TokenizerEntry = Annotated[
    Annotated[Literal["byte"], Tag("<text>")] | Annotated[BpeSection, Tag("<mapping>")],
    Discriminator(text_or_mapping),
]


def seeds_of(entry: int | SeedsSection) -> Seeds:
    """The four streams of an entry in `seeds`; one integer seeds all of them."""
    match entry:
        case SeedsSection():
            return Seeds(init=entry.init, data=entry.data, sr=entry.sr, rht=entry.rht)
        case int():
            return Seeds(init=entry, data=entry, sr=entry, rht=entry)


def tokenizer_of(entry: str | BpeSection) -> TokenizerRef:
    """The tokenizer that `tokenizer` names."""
    match entry:
        case BpeSection():
            return TokenizerRef(kind=TokenizerKind.BPE, vocab_size=entry.bpe)
        case str():
            return TokenizerRef()


def auto_learning_rate(parameters: int) -> float:
    """Peak rate 9.73e-4 (190e6 / N)^(1/3), at most 0.01, of N non-embedding parameters.

    One rule for every format, and none that looks at the budget, so that horizons share a trunk.
    The power of N is the one that the OLMo ladder's rates follow from 190M to 3.2B parameters;
    below it is an extrapolation. Three digits keep a run's identity the same on every machine.
    """
    return float(f"{min(0.01, 9.73e-4 * (190e6 / parameters) ** (1 / 3)):.3g}")
