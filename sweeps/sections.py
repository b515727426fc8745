"""What the sections of a sweep spec are made of, and the small ones: seeds, eval and diagnostics.

A section is what it looks like in YAML and JSON, and gives the value that it stands for.
Every section is frozen, refuses unknown keys and bounds each number; numbers must be numbers (no
`"3"`, no `true`), and token counts carry a unit. The functions at the end of each section give the
plain values that runs are made of. What concerns two sections at once is in `checks`.
"""

from typing import Annotated

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

from sweeps.budget import Budget, parse_budget, parse_tokens
from sweeps.runspec import Diagnostics, Evaluation, Seeds

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


class SeedsSection(Section):
    """Seeds of the four streams when they move apart."""

    init: Seed = 0
    data: Seed = 0
    sr: Seed = 0
    rht: Seed = 0


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


def seeds_of(entry: int | SeedsSection) -> Seeds:
    """The four streams of an entry in `seeds`; one integer seeds all of them."""
    match entry:
        case SeedsSection():
            return Seeds(init=entry.init, data=entry.data, sr=entry.sr, rht=entry.rht)
        case int():
            return Seeds(init=entry, data=entry, sr=entry, rht=entry)
