"""The entries of `models` in a sweep spec: two ways to say a shape.

    1.6m                                          a preset of `sweeps.families`
    {layers: 2, width: 64, heads: 4}              dimension by dimension; dense
    {..., experts: {count: 16, active: 2, ...}}   the same with routed experts

A dimension that is left out takes its usual value, and one that is written out as its usual value
means the same model. What must hold between dimensions is in `shape_checks`.
"""

from difflib import get_close_matches
from typing import Annotated

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator

from sweeps.families.ladder import PRESETS, SHORT_NAMES, preset
from sweeps.sections import Name, Section, text_or_mapping
from sweeps.shapes import Experts, Mlp, ModelShape, Router

ROPE_BASE = 10_000.0
LEAST_ACTIVE = 2


def _known_preset(name: str) -> str:
    known = [*PRESETS, *SHORT_NAMES]
    if name not in known:
        close = get_close_matches(name.lower(), known, n=1)
        if close:
            raise ValueError(f"is no preset model; did you mean {close[0]!r}?")
        raise ValueError(
            f"is no preset model; the presets are {', '.join(known)}, and your own is written as "
            "in {layers: 2, width: 64, heads: 4}"
        )
    return name


PresetName = Annotated[
    str,
    AfterValidator(_known_preset),
    Field(json_schema_extra={"enum": [*PRESETS, *SHORT_NAMES]}),
]


class ExpertsSection(Section):
    """Routed experts in the place of the MLP, from block `dense_layers` on."""

    count: int = Field(strict=True, ge=2, le=4096)
    active: int = Field(strict=True, le=4096, json_schema_extra={"minimum": LEAST_ACTIVE})
    width: int = Field(strict=True, ge=8, le=262144)
    shared_width: int = Field(default=0, strict=True, ge=0, le=262144)
    dense_layers: int = Field(default=0, strict=True, ge=0, le=512)
    router: Router = Router.SIGMOID
    balance_rate: float = Field(default=0.01, strict=True, ge=0, le=1, allow_inf_nan=False)

    @field_validator("active")
    @classmethod
    def _teaches_the_router(cls, value: int) -> int:
        if value < LEAST_ACTIVE:
            raise ValueError(
                f"must be at least {LEAST_ACTIVE}: gates are scaled to the sum 1, so that of one "
                "expert is always 1 and its router learns nothing"
            )
        return value

    def experts(self) -> Experts:
        """The mixture of a shape."""
        return Experts(
            count=self.count,
            active=self.active,
            width=self.width,
            shared_width=self.shared_width,
            dense_layers=self.dense_layers,
            router=self.router,
            balance_rate=self.balance_rate,
        )

    def label(self) -> str:
        """`-e16a2w64s128`, and what of the rest is not usual."""
        parts = [f"-e{self.count}a{self.active}w{self.width}"]
        parts += [f"s{self.shared_width}"] if self.shared_width else []
        parts += [f"-f{self.dense_layers}"] if self.dense_layers else []
        parts += [] if self.router is Router.SIGMOID else [f"-{self.router.value}"]
        usual = type(self).model_fields["balance_rate"].default
        parts += [] if self.balance_rate == usual else [f"-b{self.balance_rate:g}"]
        return "".join(parts)


class ModelSection(Section):
    """A decoder of these dimensions.

    `kv_heads` is usually `heads`, `head_width` usually width / heads. `mlp_width` is usually 8/3
    width rounded up to 16, or 4 width for relu2; beside experts it is that of the dense blocks,
    usually as wide as what a token passes in the others.
    """

    layers: int = Field(strict=True, ge=1, le=512)
    width: int = Field(strict=True, ge=8, le=65536)
    heads: int = Field(strict=True, ge=1, le=1024)
    name: Name | None = None
    kv_heads: int | None = Field(default=None, strict=True, ge=1, le=1024)
    head_width: int | None = Field(default=None, strict=True, ge=2, le=1024)
    mlp: Mlp = Mlp.SWIGLU
    mlp_width: int | None = Field(default=None, strict=True, ge=8, le=262144)
    rope_base: float = Field(default=ROPE_BASE, strict=True, gt=1, le=1e12, allow_inf_nan=False)
    experts: ExpertsSection | None = None

    def shape(self) -> ModelShape:
        """The shape; without a name it is called `2x48h3` and by all that is not usual."""
        return ModelShape(
            name=self.name or self._label(),
            num_layers=self.layers,
            width=self.width,
            num_heads=self.heads,
            num_kv_heads=self._kv_heads(),
            head_size=self._head_width(),
            mlp_width=self.mlp_width or self._usual_mlp_width(),
            mlp=self.mlp,
            rope_base=self.rope_base,
            experts=None if self.experts is None else self.experts.experts(),
        )

    def _label(self) -> str:
        usual = self._usual_mlp_width()
        parts = [
            f"{self.layers}x{self.width}h{self.heads}",
            f"k{self.kv_heads}" if self._kv_heads() else "",
            f"-d{self.head_width}" if self._head_width() else "",
            "" if self.mlp is Mlp.SWIGLU else f"-{self.mlp.value}",
            "" if self.mlp_width in (None, usual) else f"-m{self.mlp_width}",
            "" if self.rope_base == ROPE_BASE else f"-r{self.rope_base:g}",
            self.experts.label() if self.experts else "",
        ]
        return "".join(parts)

    def _kv_heads(self) -> int | None:
        """None where it says what is usual, so that both spellings are one model."""
        return None if self.kv_heads == self.heads else self.kv_heads

    def _head_width(self) -> int | None:
        """The same."""
        shared_out = self.head_width is not None and self.head_width * self.heads == self.width
        return None if shared_out else self.head_width

    def _usual_mlp_width(self) -> int:
        if self.experts:
            return self.experts.experts().passed_width
        match self.mlp:
            case Mlp.SWIGLU:
                return -(-8 * self.width // 48) * 16
            case Mlp.RELU2:
                return 4 * self.width


ModelEntry = Annotated[
    Annotated[PresetName, Tag("<text>")] | Annotated[ModelSection, Tag("<mapping>")],
    Discriminator(text_or_mapping),
]


def shape_of(entry: str | ModelSection) -> ModelShape:
    """The shape that an entry of `models` names."""
    match entry:
        case ModelSection():
            return entry.shape()
        case str():
            found = preset(entry)
            assert found is not None  # other texts are refused where they are read
            return found
