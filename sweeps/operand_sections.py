"""Parts of a recipe in a sweep spec: formats, blocks, and a GEMM written out operand by operand.

    format   a name, or {name: mine, magnitudes: [0, 1, 2, 4]}
    block    16 (along the contraction axis), 1x32, 16x16 (across x along), row or tensor
    GEMM     {x: {format, scale, block, rounding, ...}, w: {...}, rht: {size, signs, to_bf16}}

What `kernels.recipes` cannot hold is refused in its words.
"""

import struct
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from kernels.blocks import BLOCK_1X16, Block, parse_block
from kernels.formats import GRIDS, Grid
from kernels.operands import CARRIED, Operand, Rounding, Scale, Source
from kernels.recipes import Carrier, Gemm, Rht, Signs
from sweeps.sections import Name, Section, text_or_mapping

LARGEST_FP32 = (2 - 2.0**-23) * 2.0**127
LONGEST_BLOCK = 4096
LEAST, MOST = 2.0**-64, 2.0**64
"""Between them a grid's scales stay well within FP32, whatever a model holds."""
ELEMENT_GRIDS = tuple(name for name in GRIDS if name not in [*Carrier])
"""Formats that stand under a block scale; what a carrier is named by is a recipe by itself."""


def _known_format(name: str) -> str:
    if name in [*Carrier]:
        raise ValueError(
            f"is no grid under a block scale; {name} is a recipe by itself, as in recipes: [{name}]"
        )
    if name not in ELEMENT_GRIDS:
        raise ValueError(
            f"is no number format; choose one of {', '.join(ELEMENT_GRIDS)}, or write magnitudes "
            "as in {name: mine, magnitudes: [0, 1, 2, 4]}"
        )
    return name


def _block(given: object) -> Block:
    match given:
        case Block():
            block = given
        case str():
            block = parse_block(given)
        case int() if not isinstance(given, bool):
            block = Block(along=given)
        case _:
            raise ValueError("must be written as 16, 1x16, 16x16, row or tensor")
    if max(block.along or 0, block.across or 0) > LONGEST_BLOCK:
        raise ValueError(
            f"a block has at most {LONGEST_BLOCK} elements each way; beyond that write row or "
            "tensor"
        )
    return block


FormatName = Annotated[
    str, AfterValidator(_known_format), Field(json_schema_extra={"enum": [*ELEMENT_GRIDS]})
]
Magnitude = Annotated[float, Field(strict=True, ge=0, le=LARGEST_FP32, allow_inf_nan=False)]
BlockEntry = Annotated[
    Block,
    PlainValidator(_block),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": ["integer", "string"], "examples": [16, "1x32", "16x16", "tensor"]}),
]
Headroom = Annotated[float, Field(strict=True, ge=0.5, le=16, allow_inf_nan=False)]
RandomBits = Literal[8, 16, 24]
RhtSize = Literal[4, 8, 16, 32, 64, 128]


class OwnFormat(Section):
    """A grid of the user's own: its magnitudes, ascending from 0, each rounded to FP32."""

    name: Name
    magnitudes: tuple[Magnitude, ...] = Field(min_length=2, max_length=1024)

    @model_validator(mode="after")
    def _is_a_grid(self) -> "OwnFormat":
        grid, known = self.grid(), GRIDS.get(self.name)
        if known is not None and known.magnitudes != grid.magnitudes:
            raise ValueError(f"{self.name} is the name of a format with other magnitudes")
        if not LEAST <= grid.magnitudes[1] <= grid.maximum <= MOST:
            raise ValueError(
                "magnitudes above 0 must lie between 2**-64 and 2**64, so that block scales stay "
                "within FP32; only their ratios matter under an FP32 scale"
            )
        return self

    def grid(self) -> Grid:
        """The grid."""
        return Grid(self.name, tuple(map(_to_fp32, self.magnitudes)))


FormatEntry = Annotated[
    Annotated[FormatName, Tag("<text>")] | Annotated[OwnFormat, Tag("<mapping>")],
    Discriminator(text_or_mapping),
]


def grid_of(entry: str | OwnFormat) -> Grid:
    """The grid of an entry in `format`."""
    match entry:
        case OwnFormat():
            return entry.grid()
        case str():
            return GRIDS[entry]


def name_of(entry: str | OwnFormat) -> str:
    """What a format is called by who wrote it."""
    match entry:
        case OwnFormat():
            return entry.name
        case str():
            return entry


class OperandSection(Section):
    """One operand of one GEMM; what is not said is as in `Operand`."""

    format: FormatEntry
    scale: Scale = Scale.FP32
    block: BlockEntry = Field(default=BLOCK_1X16, json_schema_extra={"default": "1x16"})
    rounding: Rounding = Rounding.RTNE
    random_bits: RandomBits = 8
    half_offset: bool = Field(default=True, strict=True)
    headroom: Headroom = 1.0
    alternate: float | None = Field(default=None, strict=True, gt=0, allow_inf_nan=False)
    scale_maximum: float = Field(default=448.0, strict=True, ge=1, le=448, allow_inf_nan=False)
    outer: int | None = Field(default=None, strict=True, ge=16, le=65536)
    source: Source = Source.ORIGINAL

    @field_validator("random_bits", "half_offset")
    @classmethod
    def _has_draws(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("rounding") is Rounding.RTNE and value != cls.default_of(info):
            raise ValueError("belongs to draws; rounding is rtne, which draws nothing")
        return value

    @field_validator("scale_maximum")
    @classmethod
    def _has_e4m3(cls, value: float, info: ValidationInfo) -> float:
        scale = info.data.get("scale", Scale.E4M3)
        if scale is not Scale.E4M3 and value != cls.default_of(info):
            raise ValueError(f"belongs to e4m3 scales; scale is {scale}")
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> "OperandSection":
        self.operand()
        return self

    def operand(self) -> Operand:
        """The operand."""
        return Operand(
            grid=grid_of(self.format),
            block=self.block,
            scale=self.scale,
            rounding=self.rounding,
            random_bits=self.random_bits,
            half_offset=self.half_offset,
            headroom=self.headroom,
            alternate=self.alternate,
            scale_maximum=self.scale_maximum,
            outer=self.outer,
            source=self.source,
        )


class RhtSection(Section):
    """The random Hadamard transform of both operands of a GEMM."""

    size: RhtSize = 16
    signs: Signs = Signs.LAYER
    to_bf16: bool = Field(default=False, strict=True)

    def rht(self) -> Rht:
        """The transform."""
        return Rht(size=self.size, signs=self.signs, to_bf16=self.to_bf16)


class FpropSection(Section):
    """y = x w^T; an operand that is left out is not quantized."""

    x: OperandSection | None = None
    w: OperandSection | None = None
    rht: RhtSection | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> "FpropSection":
        self.gemm()
        return self

    def gemm(self) -> Gemm:
        """The GEMM."""
        return _gemm(self.x, self.w, self.rht)


class DgradSection(Section):
    """dx = dy w; an operand that is left out is not quantized."""

    dy: OperandSection | None = None
    w: OperandSection | None = None
    rht: RhtSection | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> "DgradSection":
        self.gemm()
        return self

    def gemm(self) -> Gemm:
        """The GEMM."""
        return _gemm(self.dy, self.w, self.rht)


class WgradSection(Section):
    """dw = dy^T x; an operand that is left out is not quantized."""

    dy: OperandSection | None = None
    x: OperandSection | None = None
    rht: RhtSection | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> "WgradSection":
        self.gemm()
        return self

    def gemm(self) -> Gemm:
        """The GEMM."""
        return _gemm(self.dy, self.x, self.rht)


def _gemm(
    left: OperandSection | None, right: OperandSection | None, rht: RhtSection | None
) -> Gemm:
    return Gemm(
        left=left.operand() if left else CARRIED,
        right=right.operand() if right else CARRIED,
        rht=rht.rht() if rht else None,
    )


def _to_fp32(value: float) -> float:
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded + 0.0  # a zero of either sign is the one zero of a grid
