"""The recipe sections of a sweep spec: recipes in compact form, and a cross product of them.

Both stand for one grid on every operand, an RHT on some GEMMs and SR on some operands; what
`kernels.recipes` cannot write is refused in its words.
"""

from collections.abc import Hashable, Iterator
from itertools import product
from math import prod
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from kernels.formats import GRIDS
from kernels.recipes import GEMMS, OPERANDS, PRESETS, Recipe, Rule, compose
from sweeps.checks import check_distinct, numbered
from sweeps.errors import Problem
from sweeps.problems import shown
from sweeps.sections import Name, Section, text_or_mapping


def _known_format(name: str) -> str:
    if name not in GRIDS:
        raise ValueError(
            f"is no number format; choose one of {', '.join(GRIDS)} (bf16 is a recipe by itself)"
        )
    return name


def _known_preset(name: str) -> str:
    if name not in PRESETS:
        raise ValueError(
            f"is no preset recipe; the presets are {', '.join(PRESETS)}, and your own is written "
            "as in {format: int4, rht: [wgrad], sr: [dy]}"
        )
    return name


def _each_once(words: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(words)) < len(words):
        raise ValueError("names something twice")
    return words


FormatName = Annotated[
    str, AfterValidator(_known_format), Field(json_schema_extra={"enum": [*GRIDS]})
]
PresetName = Annotated[
    str, AfterValidator(_known_preset), Field(json_schema_extra={"enum": [*PRESETS]})
]
Gemms = Annotated[tuple[Literal["fprop", "dgrad", "wgrad"], ...], AfterValidator(_each_once)]
Operands = Annotated[tuple[Literal["x", "w", "dy"], ...], AfterValidator(_each_once)]
Block = Annotated[int, Field(strict=True, ge=16, le=4096, multiple_of=16)]


MAX_RECIPES = 1024


class RecipeSection(Section):
    """One grid everywhere, RHT on some GEMMs, SR on some operands, some layers left in BF16."""

    format: FormatName
    rht: Gemms = ()
    sr: Operands = ()
    name: Name | None = None
    block: Block = 16
    rht_size: Literal[4, 8, 16, 32, 64, 128] = 16
    bf16_layers: tuple[Annotated[str, Field(min_length=1, max_length=128)], ...] = ()

    @model_validator(mode="after")
    def _can_be_written(self) -> "RecipeSection":
        self.recipe()
        return self

    def recipe(self) -> Recipe:
        """The recipe; without a name it is called by what it is, as in `int4-rht.wgrad-sr.dy`."""
        gemms = [gemm for gemm in GEMMS if gemm in self.rht]
        operands = [operand for operand in OPERANDS if operand in self.sr]
        called = [self.format]
        called += [".".join(["rht", *gemms])] if gemms else []
        called += [".".join(["sr", *operands])] if operands else []
        called += [f"block{self.block}"] if self.block != 16 else []
        called += [f"size{self.rht_size}"] if self.rht and self.rht_size != 16 else []
        called += [f"bf16({','.join(self.bf16_layers)})"] if self.bf16_layers else []
        return compose(
            GRIDS[self.format],
            name=self.name or "-".join(called),
            rht=self.rht,
            sr=self.sr,
            block=self.block,
            rht_size=self.rht_size,
            rules=tuple(Rule(pattern=glob, quantize=False) for glob in self.bf16_layers),
        )


class GridSection(Section):
    """Every combination of these becomes a recipe, beside those listed in `recipes`."""

    format: tuple[FormatName, ...] = Field(min_length=1, max_length=64)
    rht: tuple[Gemms, ...] = Field(default=((),), min_length=1, max_length=64)
    sr: tuple[Operands, ...] = Field(default=((),), min_length=1, max_length=64)
    block: tuple[Block, ...] = Field(default=(16,), min_length=1, max_length=64)

    @model_validator(mode="after")
    def _is_bounded(self) -> "GridSection":
        made = prod(map(len, (self.format, self.rht, self.sr, self.block)))
        if made > MAX_RECIPES:
            raise ValueError(f"makes {made} recipes; at most {MAX_RECIPES} can be planned at once")
        return self

    def problems(self) -> Iterator[Problem]:
        """Values that stand twice on an axis; the order of GEMMs and of operands means nothing."""
        axes: dict[str, tuple[Hashable, ...]] = {
            "format": tuple(GRIDS[name] for name in self.format),
            "rht": tuple(frozenset(gemms) for gemms in self.rht),
            "sr": tuple(frozenset(operands) for operands in self.sr),
            "block": self.block,
        }
        written = self.model_dump(mode="json")
        for axis, meanings in axes.items():
            texts = [shown(value) for value in written[axis]]
            yield from check_distinct(numbered(f"grid.{axis}", texts), meanings, texts)

    def recipes(self) -> tuple[Recipe, ...]:
        """The combinations, format outermost."""
        return tuple(
            RecipeSection(format=format_, rht=rht, sr=sr, block=block).recipe()
            for format_, rht, sr, block in product(self.format, self.rht, self.sr, self.block)
        )


RecipeEntry = Annotated[
    Annotated[PresetName, Tag("<text>")] | Annotated[RecipeSection, Tag("<mapping>")],
    Discriminator(text_or_mapping),
]


def recipe_of(entry: str | RecipeSection) -> Recipe:
    """The recipe of an entry in `recipes`."""
    match entry:
        case RecipeSection():
            return entry.recipe()
        case str():
            return PRESETS[entry]
