"""The entries of `recipes` in a sweep spec: four ways to write a recipe.

    ufp4                                          a preset
    {preset: ufp4, bf16_layers: [...]}            a preset, some things about it changed
    {format: int4, rht: [wgrad], sr: [dy]}        one grid on every operand
    {name: mine, fprop: {x: {...}, w: {...}}}     operand by operand

What `kernels.recipes` cannot hold is refused in its words.
"""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from kernels.blocks import BLOCK_1X16
from kernels.loss_scaling import LossScaling
from kernels.operands import Scale
from kernels.presets import PRESETS, compose
from kernels.recipes import GEMMS, OPERANDS, Carrier, Precision, Recipe, Rule, Signs
from sweeps.operand_sections import (
    BlockEntry,
    DgradSection,
    FormatEntry,
    FpropSection,
    Headroom,
    RandomBits,
    RhtSize,
    WgradSection,
    grid_of,
    name_of,
)
from sweeps.sections import Name, Section


def _known_preset(name: str) -> str:
    if name not in PRESETS:
        raise ValueError(
            f"is no preset recipe; the presets are {', '.join(PRESETS)}, and your own is written "
            "as in {format: int4, rht: [wgrad], sr: [dy]}"
        )
    return name


def _gemm(word: str) -> str:
    if word in OPERANDS:
        raise ValueError(
            "is an operand; an RHT belongs to a GEMM, fprop, dgrad or wgrad, whose two operands "
            "share it"
        )
    if word not in GEMMS:
        raise ValueError("must be 'fprop', 'dgrad' or 'wgrad'")
    return word


def _operand(word: str) -> str:
    if word in GEMMS:
        raise ValueError(
            "is a GEMM; stochastic rounding belongs to an operand, x, w or dy, in every GEMM that "
            "it enters"
        )
    if word not in OPERANDS:
        raise ValueError("must be 'x', 'w' or 'dy'")
    return word


def _each_once(words: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(words)) < len(words):
        raise ValueError("names something twice")
    return words


PresetName = Annotated[
    str, AfterValidator(_known_preset), Field(json_schema_extra={"enum": [*PRESETS]})
]
Gemms = Annotated[
    tuple[Annotated[str, AfterValidator(_gemm), Field(json_schema_extra={"enum": [*GEMMS]})], ...],
    AfterValidator(_each_once),
]
Operands = Annotated[
    tuple[
        Annotated[str, AfterValidator(_operand), Field(json_schema_extra={"enum": [*OPERANDS]})],
        ...,
    ],
    AfterValidator(_each_once),
]
Glob = Annotated[str, Field(min_length=1, max_length=128)]
Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


class AnyRecipeSection(Section):
    """What any recipe may say besides: its name, exemptions, padding, precision of its products.

    Attributes:
        name: What tables and charts call the recipe.
        bf16_layers: Globs of layers that are not quantized.
        bf16_first: Share of the model's blocks, from the first on, that are not quantized.
        bf16_last: The same from the last block on.
        pad: Whether an axis that ends within a block is padded rather than refused.
        gemm: What the products of quantized GEMMs are computed from.
    """

    name: Name | None = None
    bf16_layers: tuple[Glob, ...] = Field(default=(), max_length=256)
    bf16_first: Share | None = None
    bf16_last: Share | None = None
    pad: Annotated[bool, Field(strict=True)] | None = None
    gemm: Precision | None = None

    def _changed(self, recipe: Recipe) -> Recipe:
        """The recipe with what is said here; where nothing is said it stays as it is."""
        rules = tuple(Rule(pattern=glob, quantize=False) for glob in self.bf16_layers)
        return replace(
            recipe,
            rules=(*rules, *recipe.rules),
            exempt_first=recipe.exempt_first if self.bf16_first is None else self.bf16_first,
            exempt_last=recipe.exempt_last if self.bf16_last is None else self.bf16_last,
            pad=recipe.pad if self.pad is None else self.pad,
            gemm=recipe.gemm if self.gemm is None else self.gemm,
        )

    def _called(self, *parts: str) -> str:
        """The name, or one out of what the recipe is."""
        besides = [
            f"bf16({','.join(self.bf16_layers)})" if self.bf16_layers else "",
            "" if self.bf16_first is None else f"first{self.bf16_first:g}",
            "" if self.bf16_last is None else f"last{self.bf16_last:g}",
            "" if self.pad is None else ("pad" if self.pad else "no-pad"),
            "" if self.gemm is None else f"gemm.{self.gemm}",
        ]
        return self.name or "-".join(part for part in (*parts, *besides) if part)


class RecipeSection(AnyRecipeSection):
    """One grid everywhere, RHT on some GEMMs, SR on some operands, some layers left in BF16."""

    format: FormatEntry
    rht: Gemms = ()
    sr: Operands = ()
    scale: Scale = Scale.FP32
    block: BlockEntry = Field(default=BLOCK_1X16, json_schema_extra={"default": "1x16"})
    rht_size: RhtSize = 16
    signs: Signs = Signs.LAYER
    random_bits: RandomBits = 8
    half_offset: bool = Field(default=True, strict=True)
    headroom: Headroom = 1.0

    @field_validator("rht_size", "signs")
    @classmethod
    def _has_rht(cls, value: int | Signs, info: ValidationInfo) -> int | Signs:
        if info.data.get("rht") == () and value != cls.default_of(info):
            raise ValueError("belongs to an RHT; name the GEMMs that have one, as in rht: [wgrad]")
        return value

    @field_validator("random_bits", "half_offset", "headroom")
    @classmethod
    def _has_sr(cls, value: float, info: ValidationInfo) -> float:
        if info.data.get("sr") == () and value != cls.default_of(info):
            raise ValueError(
                "belongs to stochastic rounding; name the operands that have it, as in sr: [dy]"
            )
        return value

    @model_validator(mode="after")
    def _can_be_written(self) -> "RecipeSection":
        self.recipe()
        return self

    def recipe(self) -> Recipe:
        """The recipe; without a name it is called by what it is, as in `int4-rht.wgrad-sr.dy`."""
        gemms = [gemm for gemm in GEMMS if gemm in self.rht]
        operands = [operand for operand in OPERANDS if operand in self.sr]
        size = "" if self.rht_size == 16 else str(self.rht_size)
        called = self._called(
            name_of(self.format),
            "" if self.scale is Scale.FP32 else self.scale.value,
            "" if self.block == BLOCK_1X16 else str(self.block),
            ".".join([f"rht{size}", *gemms]) if gemms else "",
            "" if self.signs is Signs.LAYER else f"signs.{self.signs}",
            ".".join(["sr", *operands]) if operands else "",
            "" if self.random_bits == 8 else f"{self.random_bits}bit",
            "" if self.half_offset else "no-half",
            "" if self.headroom == 1 else f"room{self.headroom:g}",
        )
        recipe = compose(
            grid_of(self.format),
            name=called,
            rht=self.rht,
            sr=self.sr,
            scale=self.scale,
            block=self.block,
            rht_size=self.rht_size,
            signs=self.signs,
            random_bits=self.random_bits,
            half_offset=self.half_offset,
            headroom=self.headroom,
        )
        return self._changed(recipe)


class PresetSection(AnyRecipeSection):
    """A preset, with what any recipe may say."""

    preset: PresetName

    @model_validator(mode="after")
    def _has_something_to_change(self) -> "PresetSection":
        exempts = self.bf16_layers or self.bf16_first or self.bf16_last or self.pad
        if exempts and not PRESETS[self.preset].is_quantized:
            raise ValueError(f"{self.preset} quantizes nothing, so nothing of it can be exempt")
        self.recipe()
        return self

    def recipe(self) -> Recipe:
        """The recipe, called by what it is unless it has a name."""
        named = replace(PRESETS[self.preset], name=self._called(self.preset))
        return self._changed(named)


class GemmsSection(AnyRecipeSection):
    """A recipe operand by operand; what is left out is not quantized."""

    name: Name
    fprop: FpropSection = FpropSection()
    dgrad: DgradSection = DgradSection()
    wgrad: WgradSection = WgradSection()
    carrier: Carrier = Carrier.BF16

    @model_validator(mode="after")
    def _can_be_written(self) -> "GemmsSection":
        if not self.recipe().is_quantized:
            raise ValueError(f"quantizes nothing; that is the preset {self.carrier}")
        return self

    def recipe(self) -> Recipe:
        """The recipe; the loss of an FP16 carrier is scaled."""
        recipe = Recipe(
            name=self.name,
            fprop=self.fprop.gemm(),
            dgrad=self.dgrad.gemm(),
            wgrad=self.wgrad.gemm(),
            carrier=self.carrier,
            loss_scaling=LossScaling() if self.carrier is Carrier.FP16 else None,
        )
        return self._changed(recipe)


def _form(given: object) -> Literal["<text>", "<preset>", "<gemms>", "<mapping>"]:
    match given:
        case str():
            return "<text>"
        case PresetSection() | {"preset": _}:
            return "<preset>"
        case GemmsSection() | {"fprop": _} | {"dgrad": _} | {"wgrad": _}:
            return "<gemms>"
        case _:
            return "<mapping>"


RecipeEntry = Annotated[
    Annotated[PresetName, Tag("<text>")]
    | Annotated[PresetSection, Tag("<preset>")]
    | Annotated[GemmsSection, Tag("<gemms>")]
    | Annotated[RecipeSection, Tag("<mapping>")],
    Discriminator(_form),
]


def recipe_of(entry: str | PresetSection | GemmsSection | RecipeSection) -> Recipe:
    """The recipe of an entry in `recipes`."""
    match entry:
        case str():
            return PRESETS[entry]
        case PresetSection() | GemmsSection() | RecipeSection():
            return entry.recipe()
