"""Recipes: what a linear layer does to the operands of its three GEMMs.

    fprop   y  = x w^T     contracts over the input features
    dgrad   dx = dy w      contracts over the output features
    wgrad   dw = dy^T x    contracts over the tokens

A random Hadamard transform (RHT) belongs to a GEMM, since both operands must share it along the
contraction axis for it to cancel; grid, block, scale and rounding belong to an operand. An operand
without a grid keeps the carrier, the 16-bit type of everything that is not quantized.

docs/numerics.md says what each value means, bit for bit; `kernels.presets` holds the recipes that
have a name.
"""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import lcm

from kernels.loss_scaling import LossScaling
from kernels.operands import CARRIED, Operand, Source

NUMERICS_VERSION = 2
"""Rises whenever the same recipe would give other numbers; part of every run's identity."""

GEMMS = ("fprop", "dgrad", "wgrad")
OPERANDS = ("x", "w", "dy")
RHT_SIZES = (4, 8, 16, 32, 64, 128)


class Signs(StrEnum):
    """Which random signs come before the Hadamard matrix."""

    NONE = "none"  # all +1: the plain Hadamard transform
    FIXED = "fixed"  # one vector for all layers and GEMMs
    LAYER = "layer"  # one for each layer and GEMM
    STEP = "step"  # one for each layer, GEMM, step and microbatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Rht:
    """A random Hadamard transform of both operands of a GEMM.

    Attributes:
        size: n, a power of two from 4 to 128.
        signs: How the signs are drawn.
        to_bf16: Whether the transformed operands are rounded to BF16 before anything else.

    Raises:
        ValueError: If the size is none of these.
    """

    size: int = 16
    signs: Signs = Signs.LAYER
    to_bf16: bool = False

    def __post_init__(self) -> None:
        if self.size not in RHT_SIZES:
            raise ValueError(f"rht size must be a power of two from 4 to 128, got {self.size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """The two operands of one GEMM in the order of the module docstring, and its RHT.

    Raises:
        ValueError: If the RHT has no quantized operand to act on, or its size and a block along
            the contraction axis do not divide one another.
    """

    left: Operand = CARRIED
    right: Operand = CARRIED
    rht: Rht | None = None

    def __post_init__(self) -> None:
        if self.rht is None:
            return
        if not self.is_quantized:
            raise ValueError("rht needs a quantized operand; both operands of this GEMM are bf16")
        for along in self._along():
            if along % self.rht.size and self.rht.size % along:
                raise ValueError(
                    f"rht size {self.rht.size} and the block of {along} along the contraction "
                    "axis must divide one another"
                )

    @property
    def is_quantized(self) -> bool:
        """Whether either operand leaves the carrier."""
        return self.left.grid is not None or self.right.grid is not None

    @property
    def block(self) -> int:
        """What the contraction axis is divisible by when nothing has to be padded."""
        return lcm(*self._along(), 1 if self.rht is None else self.rht.size)

    def _along(self) -> list[int]:
        blocks = [operand.block for operand in (self.left, self.right) if operand.grid is not None]
        return [block.along for block in blocks if block.along is not None]


class Carrier(StrEnum):
    """The 16-bit type of activations, gradients and everything that is not quantized."""

    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def significand_bits(self) -> int:
        """Of a number, the leading bit included."""
        return {Carrier.BF16: 8, Carrier.FP16: 11}[self]


class Precision(StrEnum):
    """What the products of a quantized GEMM are computed from; sums are FP32."""

    FP32 = "fp32"  # the operands as they are
    TF32 = "tf32"  # rounded to significands of 11 bits
    BF16 = "bf16"  # rounded to BF16

    @property
    def significand_bits(self) -> int:
        """Of a number, the leading bit included."""
        return {Precision.FP32: 24, Precision.TF32: 11, Precision.BF16: 8}[self]

    @property
    def dropped_bits(self) -> int:
        """Low bits of an FP32 number that its roundings leave zero."""
        return Precision.FP32.significand_bits - self.significand_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A glob on layer names (`blocks.0.attention.query`), and whether its layers are quantized."""

    pattern: str
    quantize: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The three GEMMs of every linear layer in the blocks, and which layers are exempt.

    Attributes:
        name: What tables and charts call it; not part of its identity.
        fprop: y = x w^T.
        dgrad: dx = dy w.
        wgrad: dw = dy^T x.
        rules: Tried in order, the first whose pattern matches decides; without one a layer is
            quantized.
        exempt_first: Share of the blocks of the model that stay in the carrier, from the first
            on; of L blocks the nearest integer to the share of L. Comes before the rules.
        exempt_last: The same from the last block on.
        pad: Whether an axis that ends within a block is filled with zeros, rather than refused.
        carrier: The type of what is not quantized.
        loss_scaling: How the loss is scaled, or None.
        gemm: What the products of quantized GEMMs are computed from.

    Raises:
        ValueError: If an operand is quantized from what fprop does not have, a share is not one,
            or `gemm` is said where no GEMM is quantized.
    """

    name: str
    fprop: Gemm = Gemm()
    dgrad: Gemm = Gemm()
    wgrad: Gemm = Gemm()
    rules: tuple[Rule, ...] = ()
    exempt_first: float = 0.0
    exempt_last: float = 0.0
    pad: bool = False
    carrier: Carrier = Carrier.BF16
    loss_scaling: LossScaling | None = None
    gemm: Precision = Precision.FP32

    def __post_init__(self) -> None:
        for share in (self.exempt_first, self.exempt_last):
            if not 0 <= share <= 1:
                raise ValueError(f"a share of exempt blocks must be from 0 to 1, got {share}")
        if self.gemm is not Precision.FP32 and not self.is_quantized:
            raise ValueError(f"gemm = {self.gemm} is about quantized GEMMs, and none is quantized")
        self._check_sources()

    @property
    def is_bf16(self) -> bool:
        """Whether nothing leaves BF16, as in a baseline."""
        return self.carrier is Carrier.BF16 and not self.is_quantized

    @property
    def is_quantized(self) -> bool:
        """Whether an operand of some GEMM leaves the carrier."""
        return self.fprop.is_quantized or self.dgrad.is_quantized or self.wgrad.is_quantized

    def quantizes(self, layer: str, num_blocks: int) -> bool:
        """Whether a linear layer follows the GEMMs above rather than the carrier.

        Args:
            layer: Its name in the model, as in `blocks.3.mlp.down`.
            num_blocks: Blocks of the model.
        """
        block = int(layer.split(".")[1])
        first = round(self.exempt_first * num_blocks)
        last = round(self.exempt_last * num_blocks)
        if not first <= block < num_blocks - last:
            return False
        for rule in self.rules:
            if fnmatchcase(layer, rule.pattern):
                return rule.quantize
        return True

    def unquantized(self) -> "Recipe":
        """What a layer follows that is exempt: the carrier alone."""
        return Recipe(name=self.carrier.value, carrier=self.carrier)

    def operands(self) -> tuple[tuple[str, str, Operand], ...]:
        """The six operands, each with its GEMM and its word."""
        return (
            ("fprop", "x", self.fprop.left),
            ("fprop", "w", self.fprop.right),
            ("dgrad", "dy", self.dgrad.left),
            ("dgrad", "w", self.dgrad.right),
            ("wgrad", "dy", self.wgrad.left),
            ("wgrad", "x", self.wgrad.right),
        )

    def _check_sources(self) -> None:
        forward = {"x": self.fprop.left, "w": self.fprop.right}
        for gemm, word, operand in self.operands():
            if operand.source is Source.ORIGINAL:
                continue
            if gemm == "fprop" or word not in forward:
                raise ValueError(f"{gemm}'s {word} cannot be quantized from its forward values")
            if forward[word].grid is None or self.fprop.rht is not None:
                raise ValueError(
                    f"{gemm}'s {word} is quantized from the forward values, so fprop must "
                    f"quantize {word} and have no rht"
                )


BF16_RECIPE = Recipe(name="bf16")
